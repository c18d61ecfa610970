"""Files of rows as exports write them: columns that come late, mixed types, broken lines, other encodings."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from knowledge_pipeline.config.connections import TableFilesConnection
from knowledge_pipeline.connectors import table_files
from knowledge_pipeline.connectors.table_files import FileRows
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.records import Document
from knowledge_pipeline_tests.connectors.test_table import read, table_source


def read_file(path: Path, columns: dict[str, Any] | None = None, **settings: str) -> dict[str, Any]:
    """The text of each row, or why it is skipped, by uri."""
    connection = {"type": "table_files", "path": str(path), **settings}
    found = read(table_source(connection, columns=columns or {}))
    return {uri: value.text if isinstance(value, Document) else value for uri, value in found.items()}


def write_lines(path: Path, *lines: str | dict[str, Any]) -> Path:
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(line + "\n" for line in written))
    return path


def test_a_column_that_first_appears_after_a_megabyte_is_read(tmp_path):
    early = [{"id": f"e{n}", "text": "x" * 1000} for n in range(1500)]
    path = write_lines(tmp_path / "rows.jsonl", *early, {"id": "late", "text": "here", "region": "emea"})
    connection = {"type": "table_files", "path": str(path)}
    found = read(table_source(connection, columns={"filters": "region"}))
    late = found["row/late"]
    assert isinstance(late, Document)
    assert (len(found), late.metadata["tags"]) == (1501, ["region:emea"])


def test_a_line_of_more_than_a_megabyte_is_a_row_like_any_other(tmp_path):
    rows = [{"id": "a", "text": "small"}, {"id": "b", "text": "y" * 1_500_000}, {"id": "c", "text": "after"}]
    assert read_file(write_lines(tmp_path / "rows.jsonl", *rows)) == {
        "row/a": "small",
        "row/b": "larger than 1000000 bytes (1500000)",
        "row/c": "after",
    }


def test_values_of_json_are_what_stands_in_the_file_whatever_came_before(tmp_path):
    path = write_lines(
        tmp_path / "rows.jsonl",
        {"id": 7, "text": None, "note": "2026-01-31"},
        {"id": "2026-01-31", "text": "words", "note": "soon"},
        '{"id": "7b", "text": 1.50, "note": 12345678901234567890}',
        '{"id": true, "text": 1e5, "note": ["a", 1.5, {"b": 7}]}',
        {"id": "2026-01-31T09:00:00", "text": "2026-01-31", "note": 2.5},
        '{"id": "long", "text": "digits", "note": [' + "7" * 5000 + "]}",
    )
    assert read_file(path, {"text": ["text", "note"]}) == {
        "row/7": "2026-01-31",
        "row/2026-01-31": "words\n\nsoon",
        "row/7b": "1.50\n\n12345678901234567890",
        "row/true": '1e5\n\n["a", 1.5, {"b": 7}]',
        "row/2026-01-31T09:00:00": "2026-01-31\n\n2.5",
        "row/long": 'digits\n\n["' + "7" * 5000 + '"]',
    }


def test_a_line_that_is_no_row_is_skipped_with_its_number_and_the_others_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "MAX_CHARS", 200)
    path = write_lines(
        tmp_path / "rows.jsonl",
        {"id": "a", "text": "first"},
        "",
        '{"id": "cut", "te',
        '{"id": "b", "text": "caf\\u00e9"}',
        '{"id": "long", "text": "' + "x" * 5000 + '"}',
        {"id": ["c"], "text": "a list"},
        "[1, 2]",
        "null",
        {"id": "z", "text": "last"},
    )
    path.write_bytes(path.read_bytes() + '{"id": "d", "text": "café"}'.encode("cp1252"))
    assert read_file(path) == {
        "row/a": "first",
        "row/b": "café",
        "row/z": "last",
        "unread-rows/rows.jsonl": "6 rows of rows.jsonl cannot be read, of lines 3, 5, 6, 7, 8, …; the "
        "first: it is no valid JSON (Unterminated string starting at, column 15)",
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("null", "it is no JSON object"),
        ('{"id": "b", "deep": ' + "[" * 200_000, "its JSON is nested too deep"),
        ('{"id": {"a": 1}, "text": "b"}', "its 'id' is neither text nor a number"),
        ('{"id": "b", "text": ' + "1" * 10_000 + ", []}", "it is no valid JSON (Expecting property name"),
        ("y" * 20_000_001, "more than 20000000 characters in one line"),
    ],
)
def test_why_a_line_is_no_row_is_told(tmp_path, line, reason):
    path = write_lines(tmp_path / "one.jsonl", {"id": "a", "text": "first"}, line)
    found = read_file(path)
    assert found.pop("unread-rows/one.jsonl").startswith(f"line 2 of one.jsonl cannot be read: {reason}")
    assert found == {"row/a": "first"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[\n{"id": "a", "text": "b"}\n]', r"is one list of JSON: write its objects one a line"),
        (b'{\n  "id": "a",\n', r"cannot be read, not even line 1: it is no valid JSON \(Expecting property"),
        ('{"id": "a"}'.encode("utf-16-le"), r"line 1: it is not in the encoding of the file: set conn"),
        (b"", r"has no column 'id', 'text'.*; it has none"),
    ],
)
def test_a_file_without_a_single_row_of_json_is_refused_in_one_sentence(tmp_path, content, message):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(SourceRefused, match=message) as refused:
        read_file(path)
    assert "\n" not in str(refused.value)


def test_a_column_that_only_later_files_have_is_read_and_null_before(tmp_path):
    write_lines(tmp_path / "1.jsonl", {"id": "a", "text": "one"})
    write_lines(tmp_path / "2.jsonl", {"id": "b", "title": "Two"}, {"id": "c", "text": "three"})
    pyarrow.parquet.write_table(pa.table({"id": ["d"], "text": ["four"]}), tmp_path / "3.parquet")
    columns = {"text": ["title", "text"]}
    assert read_file(tmp_path / "*.jsonl", columns) == {"row/a": "one", "row/b": "Two", "row/c": "three"}
    (tmp_path / "4.csv").write_text("id,text\ne,five\n")
    (tmp_path / "5.csv").write_text("id,body\nf,six\n")
    assert read_file(tmp_path / "[34]*")["row/e"] == "five"
    assert read_file(tmp_path / "[5]*", {"text": "body"}) == {"row/f": "six"}
    with pytest.raises(SourceRefused, match=r"5\.csv has no column 'text', unlike other files"):
        read_file(tmp_path / "[45]*")


MENU = 'id;text\nä1;Café für zwei\nb2;"Öl; Essig"\n'
MENU_ROWS = {"row/ä1": "Café für zwei", "row/b2": "Öl; Essig"}


@pytest.mark.parametrize(
    ("payload", "settings"),
    [
        (MENU.encode(), {}),
        (codecs.BOM_UTF8 + MENU.encode(), {}),
        (MENU.encode("utf-16"), {}),  # its mark declares it
        (MENU.encode("utf-16"), {"encoding": "cp1252"}),
        (MENU.encode("utf-16-le"), {"encoding": "utf-16-le"}),
        (MENU.encode("cp1252"), {"encoding": "cp1252"}),
        (MENU.replace("\n", "\r\n").encode("latin-1"), {"encoding": "latin-1"}),
        *(
            (MENU.encode("cp1252"), {"encoding": label})
            for label in ("windows-1252", "iso-8859-1", "x-cp1252")
        ),
        *((MENU.encode("cp850"), {"encoding": label}) for label in ("cp850", "IBM850")),
        (MENU.encode("utf-16-le"), {"encoding": "utf-16"}),
    ],
)
def test_csv_is_read_with_the_delimiter_and_the_encoding_that_are_configured(tmp_path, payload, settings):
    path = tmp_path / "menu.csv"
    path.write_bytes(payload)
    assert read_file(path, delimiter=";", **settings) == MENU_ROWS


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("gb2312", "gb18030", "镕基的数据库"),  # as browsers read it
        ("x-sjis", "cp932", "①サーバ"),
        ("latin-1", "cp1252", "12 € “so”"),
        ("latin-1", "latin-1", "\x81 \x9d"),  # bytes that Python's cp1252 does not know
        ("utf_8_sig", "utf-8", "naïve"),
        ("mac_roman", "mac_roman", "Größe"),  # no label of the web: Python's name
    ],
)
def test_encodings_of_rows_have_the_names_that_those_of_files_have(tmp_path, label, codec, text):
    (tmp_path / "rows.jsonl").write_bytes(f'{{"id": "a", "text": "{text}"}}\n'.encode(codec))
    (tmp_path / "rows.csv").write_bytes(f"id,text\na,{text}\n".encode(codec))
    for name in ("rows.jsonl", "rows.csv"):
        assert read_file(tmp_path / name, encoding=label) == {"row/a": text}


@pytest.mark.parametrize(
    ("payload", "settings", "message"),
    [
        (MENU.encode(), {}, r"menu\.csv seem to be separated by ';': set connection\.delimiter"),
        (MENU.replace(";", "\t").encode(), {}, r"seem to be separated by a tab: set connection\.delimiter"),
        (
            MENU.encode("utf-16-le"),
            {"delimiter": ";"},
            r"not in the encoding of the file: set connection\.enc",
        ),
        (
            MENU.encode("utf-16-le")[:-1],
            {"delimiter": ";", "encoding": "utf-16-le"},
            r"is not valid UTF-16-LE",
        ),
        (b"id,text,text\na,b,c\n", {}, r"has two columns 'text': rename one"),
        ("id;täxt\na;b\n".encode("cp1252"), {"delimiter": ";"}, r"not in the encoding of the file"),
    ],
)
def test_csv_that_is_written_in_another_way_is_refused_in_one_sentence(tmp_path, payload, settings, message):
    path = tmp_path / "menu.csv"
    path.write_bytes(payload)
    with pytest.raises(SourceRefused, match=message) as refused:
        read_file(path, **settings)
    assert "\n" not in str(refused.value)


def test_a_line_of_csv_that_is_no_row_is_skipped_with_its_number(tmp_path):
    path = tmp_path / "rows.csv"
    lines = ["id,text", "007,first", "a,b,c", "", 'd,"two', 'lines"', "", "e,naïve", "short", "0x1F,last"]
    path.write_bytes("\n".join(lines).encode("cp1252"))
    assert read_file(path) == {
        "row/007": "first",
        "row/d": "two\nlines",
        "row/0x1F": "last",
        "unread-rows/rows.csv": "3 rows of rows.csv cannot be read, of lines 3, 8, 9; the first: "
        "it has 3 fields, not 2 as the header",
    }
    path.write_text('id,text\na,first\nb,"never closed\nc,third\nd,fourth\n')
    assert read_file(path) == {
        "row/a": "first",
        "unread-rows/rows.csv": "line 3 of rows.csv cannot be read: it is no valid CSV (unexpected end of "
        "data), up to line 5",
    }
    path.write_text(f"id,text\na,{'x' * 300_000}\n")
    assert len(read_file(path)["row/a"]) == 300_000


def test_an_empty_moment_of_csv_lets_the_row_be_compared(tmp_path):
    def list_revisions(text: str) -> list[str]:
        (tmp_path / "rows.csv").write_text(f"id,text,updated\na,{text},\n")
        with table_source({"type": "table_files", "path": str(tmp_path / "rows.csv")}) as opened:
            return [item.revision for item in opened.discover()]

    assert list_revisions("before") != list_revisions("after")


def test_another_encoding_or_delimiter_reads_every_row_again(tmp_path):
    (tmp_path / "rows.csv").write_text("id,text\na,b\n")

    def list_revisions(**settings: str) -> list[str]:
        connection = {"type": "table_files", "path": str(tmp_path / "rows.csv"), **settings}
        with table_source(connection) as opened:
            return [item.revision for item in opened.discover()]

    assert list_revisions() != list_revisions(encoding="cp1252")


@pytest.mark.parametrize("settings", [{"encoding": "utf-9"}, {"encoding": "hex"}, {"delimiter": ";;"}])
def test_a_setting_that_cannot_be_is_told_where_it_is_configured(settings):
    with pytest.raises(
        ValidationError, match=r"found an unknown encoding; allowed: a label|at most 1 character"
    ):
        TableFilesConnection.model_validate({"type": "table_files", "path": "rows.csv", **settings})


CONTENT = st.lists(st.sampled_from([*'{}[]",:;\\\n\r\0 ', '{"id":', '"text":1', "id,text\n", "ü", "\\ud800"]))


@given(
    CONTENT.map("".join), st.sampled_from(["rows.jsonl", "rows.csv"]), st.sampled_from(["utf-8", "cp1252"])
)
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path_factory, content, name, encoding):
    path = tmp_path_factory.getbasetemp() / name
    start = "id,text\nz,ok\n" if name == "rows.csv" else '{"id": "z", "text": "ok"}\n'
    path.write_bytes((start + content).encode(encoding))
    connection = TableFilesConnection.model_validate({"type": "table_files", "path": str(path)})
    try:
        rows = list(FileRows(connection).iter_rows(["id", "text"]))
    except SourceRefused:
        assert name == "rows.csv", "the first line is one of JSON"
    else:
        assert rows[0] == ("z", "ok")
