"""From bytes to text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.text_decoding import decode_text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), min_size=1))
@settings(deadline=None)
def test_utf_8_is_read_as_it_is(text):
    if text.isspace():
        with pytest.raises(DocumentSkipped, match="empty"):
            decode_text(text.encode())
    else:
        assert decode_text(text.encode()) == text


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_give_text_without_surrogates_or_a_reason(payload):
    try:
        text = decode_text(payload)
    except DocumentSkipped as reason:
        assert str(reason)
    else:
        assert text.encode("utf-8")
        assert "\0" not in text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding_and_is_dropped(encoding):
    assert decode_text("naïve\n".encode(encoding)) == "naïve\n"


def test_big_endian_is_read_too():
    assert decode_text(b"\xfe\xff" + "naïve".encode("utf-16-be")) == "naïve"


def test_only_line_ends_of_windows_are_changed():
    assert decode_text(b"a\r\nb\rc\n\n  d \t") == "a\nb\rc\n\n  d \t"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "^empty$"),
        (b" \n\t\r\n", "^empty$"),
        (b"\xef\xbb\xbf", "^empty$"),
        (b"\x7fELF\0\0\0", "^binary file$"),
        (b"text then \0", "^binary file$"),
        ("na\0me".encode("utf-16"), "^binary file$"),
        ("valid é, then".encode() + b" \xff broken", "^not valid UTF-8 at byte 15$"),
        ("valid é, cut ".encode() + "é".encode()[:1], "^not valid UTF-8 at byte 14$"),
        ("élève".encode("cp1252"), "^not valid UTF-8 at byte 0$"),
        (b"x = '\xe9'", "^not valid UTF-8 at byte 5$"),
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
    assert decode_text(f"{line}\nname = 'José'\n".encode("latin-1")) == f"{line}\nname = 'José'\n"


def test_a_declared_encoding_that_does_not_fit_is_not():
    for declared in ("ascii", "no-such-encoding", "utf-8", "hex"):
        with pytest.raises(DocumentSkipped, match="not valid UTF-8 at byte"):
            decode_text(f"# coding: {declared}\nname = 'José'\n".encode("latin-1"))


def test_a_line_of_a_megabyte_is_read():
    assert len(decode_text(b"x" * 1_000_000)) == 1_000_000
