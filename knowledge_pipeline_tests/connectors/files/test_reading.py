"""From bytes to text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.connectors.files import read_text
from knowledge_pipeline.encodings import find_codec
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.text_decoding import decode_bytes, decode_text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1b\r\ufeff"), min_size=1))
@settings(deadline=None)
def test_utf_8_is_read_as_it_is(text):
    if text.isspace():
        with pytest.raises(DocumentSkipped, match="empty"):
            decode_text(text.encode())
    else:
        assert decode_text(text.encode()) == (text, "")


@given(st.binary(max_size=200), st.sampled_from([None, "gb2312", "iso-2022-jp", "utf-7", "utf-16", "x"]))
@settings(deadline=None)
def test_any_bytes_give_text_without_surrogates_or_a_reason(payload, label):
    try:
        text = decode_text(payload, label).text
    except DocumentSkipped as reason:
        assert str(reason)
    else:
        assert text.encode("utf-8")
        assert "\0" not in text
    assert decode_bytes(payload, label).text.encode("utf-8") or not payload


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding_and_is_dropped(encoding):
    assert decode_text("naïve\n".encode(encoding)) == ("naïve\n", "")


def test_big_endian_is_read_too():
    assert decode_text(b"\xfe\xff" + "naïve".encode("utf-16-be")).text == "naïve"


def test_only_line_ends_of_windows_are_changed():
    assert decode_text(b"a\r\nb\rc\n\n  d \t").text == "a\nb\rc\n\n  d \t"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "^empty$"),
        (b" \n\t\r\n", "^empty$"),
        (b"\xef\xbb\xbf", "^empty$"),
        (b"\x7fELF\0\0\0", "^binary file$"),
        (b"text then \0", "^binary file$"),
        ("na\0me".encode("utf-16"), "^binary file$"),
        ("élève".encode("cp1252"), "^not valid UTF-8 at byte 0$"),
        ("Ça a été très près".encode("cp1252"), "^not valid UTF-8 at byte 0$"),
        (("ein Büro für Müller " * 50).encode("cp1252"), "^not valid UTF-8 at byte 5$"),
        ("# coding: utf-8\nune élève".encode("cp1252"), "^not valid UTF-8 at byte 20$"),
        ("# coding: hex\nune élève".encode("cp1252"), "^not valid UTF-8 at byte 18$"),
        (b"# coding: euc-jp\n" + b"\xff\xfe" * 9, "^not valid EUC_JP at byte 17$"),
        (b"\x89PNG\r\n\x1a\n", "^not valid UTF-8 at byte 0$"),
        (b"\xed\xa0\x80 lone surrogate", "^not valid UTF-8 at byte 0$"),
        (b"\xff\xfea", "^not valid UTF-16 at byte 2, though its byte order mark says so$"),
        (bytes(range(128, 256)) * 20, "^not valid UTF-8 at byte 0$"),
    ],
)
def test_what_is_no_text_is_skipped_with_the_reason(payload, reason):
    with pytest.raises(DocumentSkipped, match=reason):
        decode_text(payload)


@pytest.mark.parametrize(
    "line", ["# -*- coding: latin-1 -*-", "#!/usr/bin/ruby\n# encoding: iso-8859-1", "// coding=cp1252"]
)
def test_an_encoding_declared_in_the_first_two_lines_is_believed(line):
    payload = f"{line}\nname = 'José’s'\n".encode("cp1252")
    assert decode_text(payload) == (f"{line}\nname = 'José’s'\n", "")


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"valid \xc3\xa9, then \xff broken", "valid é, then \ufffd broken"),
        (b"valid \xc3\xa9, cut \xc3", "valid é, cut \ufffd"),
        (b"# coding: gb2312\n" + "数据库".encode("gbk") + b"\xff", "# coding: gb2312\n数据库\ufffd"),
        (b"\xff\xfe" + "store".encode("utf-16-le") + b"\x00\xdc", "store\ufffd"),
    ],
)
def test_one_bad_byte_does_not_lose_a_text(payload, text):
    name = {b"\xff\xfe": "UTF-16", b"# ": "GB18030"}.get(payload[:2], "UTF-8")
    assert decode_text(payload) == (text, f"not valid {name} at 1 place, which reads \ufffd")


def test_bad_bytes_are_counted_up_to_one_in_a_thousand():
    line = b"the store keeps its rows in one table\n"
    found = decode_text(line * 200 + b"\xe9 \xe8\n")
    assert found.text.endswith("\ufffd \ufffd\n")
    assert found.note == "not valid UTF-8 at 2 places, which read \ufffd"
    with pytest.raises(DocumentSkipped, match="not valid UTF-8 at byte 38"):
        decode_text(line + b"\xe9 \xe8\n" + line)


@pytest.mark.parametrize(
    ("label", "written", "text"),
    [  # labels of the standard, most of which Python does not know, or takes for less
        ("windows-31j", "cp932", "①Ａ社"),
        ("x-sjis", "cp932", "～サーバ"),
        ("gb2312", "gb18030", "镕基的数据库"),
        ("x-gbk", "gb18030", "€数据"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("windows-874", "cp874", "ภาษาไทย"),
        ("dos-874", "cp874", "ภาษาไทย"),
        ("x-mac-cyrillic", "mac-cyrillic", "Привет"),
        ("x-cp1251", "cp1251", "Привет, №5"),
        ("iso-8859-1", "cp1252", "“1 000 €” – naïve"),
        ("latin-1", "cp1252", "“1 000 €” – naïve"),
        ("iso-8859-9", "cp1254", "İstanbul…"),
        ("iso-8859-8-i", "iso8859-8", "שלום"),
        ("unicode-1-1-utf-8", "utf-8", "naïve"),
        ("iso-2022-jp", "iso2022_jp", "日本語の本文"),
        ("hz-gb-2312", "hz", "数据库"),
        ("utf-7", "utf-7", "naïve"),
        ("utf-16", "utf-16-le", "naïve text"),
        ("cp850", "cp850", "Müller"),
    ],
)
def test_labels_mean_what_they_mean_to_browsers(label, written, text):
    assert decode_text(text.encode(written), label) == (text, "")
    assert decode_text(text.encode(written), declared=label) == (text, "")


def test_every_byte_of_windows_is_a_character():
    assert decode_text(b"a \x80 \x81 \x9d", "windows-1252").text == "a € \x81 \x9d"


def test_what_is_declared_or_utf_8_is_not_taken_for_what_is_configured():
    assert decode_text("Žluťoučký".encode(), "windows-1252").text == "Žluťoučký"
    declared = b"# coding: iso-8859-2\n" + "Žluť".encode("iso-8859-2")
    assert decode_text(declared, "windows-1252").text.endswith("Žluť")
    assert decode_text(b'<?xml version="1.0" encoding="ISO-8859-15"?>\n<p>1 \xa4 \xe9</p>').text.endswith(
        ">1 € é</p>"
    )
    assert decode_text(b'@charset "windows-1251";\n/* \xcf\xf0\xe8\xe2\xe5\xf2 */').text.endswith("Привет */")


@pytest.mark.parametrize(
    "label", ["idna", "punycode", "hex", "unicode_escape", "x" * 1000, "é", "", "mbcs\0"]
)
def test_what_is_no_encoding_of_texts_is_unknown(label):
    assert find_codec(label) is None


def test_a_line_of_a_megabyte_is_read():
    assert len(decode_text(b"x" * 1_000_000).text) == 1_000_000


@pytest.mark.parametrize("name", ["list.c", "Store.kt", "app.py", "build.sh", "site.yaml"])
def test_code_with_comments_in_another_encoding_loses_these_places_alone(name):
    payload = "/* Größe: für Müller */\nint size(void) { return 1; }\n".encode("latin-1")
    found = read_text(name, payload)
    assert found.text == payload.decode("utf-8", "replace")
    assert found.metadata["note"] == "not valid UTF-8 at 4 places, which read \ufffd"
    with pytest.raises(DocumentSkipped, match="not valid UTF-8 at byte 5"):
        read_text("notes.txt", payload)
