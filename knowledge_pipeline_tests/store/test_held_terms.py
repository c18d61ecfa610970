"""Rows are found by the terms that they name now, whatever was written before."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.store import held_terms
from knowledge_pipeline.store.file_cache import FileCache
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.fragments import StaleRows
from knowledge_pipeline.store.held_terms import TermLookup
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.thoroughness import examples

SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("defines", pa.list_(pa.string())),
        pa.field("text", pa.large_string()),
    ],
    metadata={"knowledge_schema": "5"},
)
NAMES = ["", "get", "é😀", "a b", "Get", "x" * 300]
HALF = "\ud800"  # of a character, which no column can hold

_row = st.tuples(
    st.integers(0, 9).map(str),
    st.sampled_from(["docs", "code"]),
    st.one_of(st.none(), st.lists(st.sampled_from(NAMES), unique=True)),
)
_commit = st.tuples(
    st.lists(_row, max_size=6, unique_by=lambda row: row[0]),
    st.lists(st.integers(0, 9).map(str), max_size=3),
    st.booleans(),  # whether the table is compacted after it
)


def write(table: Table, rows: list[tuple[str, str, list[str] | None]], removed: list[str]) -> None:
    """Replace the rows of the same path, and remove others."""
    given = [dict(zip(SCHEMA.names, (*row, ",".join(row[2] or ())), strict=True)) for row in rows]
    stale = StaleRows("path", [*removed, *(row[0] for row in rows)])
    table.replace_rows([stale], [pa.RecordBatch.from_pylist(given, schema=SCHEMA)], create=True)


def split_texts(texts: list[str]) -> list[list[str]]:
    return [text.split(",") for text in texts]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commits=st.lists(_commit, min_size=1, max_size=6))
def test_after_each_commit_the_rows_that_name_a_term_are_found(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[tuple[list[tuple[str, str, list[str] | None]], list[str], bool]],
) -> None:
    table = Table(tmp_path_factory.mktemp("terms") / "t.lance", SCHEMA)
    assert TermLookup(table, "path", "defines").find_keys("get") == []
    stored: dict[str, tuple[str, list[str]]] = {}
    for rows, removed, is_compacted in commits:
        write(table, rows, removed)
        stored = {path: row for path, row in stored.items() if path not in removed}
        stored |= {path: (source, names or []) for path, source, names in rows}
        if is_compacted:
            table.merge_fragments()
        everywhere, docs = TermLookup(table, "path", "defines"), eq("source", "docs")
        of_texts = TermLookup(table, "path", "text", docs, list_terms=split_texts)
        for name in NAMES:
            naming = sorted(path for path, (_, names) in stored.items() if name in names)
            assert sorted(everywhere.find_keys(name)) == naming
            if name:
                assert sorted(of_texts.find_keys(name)) == [
                    each for each in naming if stored[each][0] == "docs"
                ]
        assert everywhere.find_keys("other") == everywhere.find_keys(HALF) == []


def test_rows_that_an_earlier_version_brings_back_are_found(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA)
    write(table, [("a", "docs", ["get"]), ("b", "docs", ["get"]), ("c", "docs", ["get"])], [])
    whole = table.version
    write(table, [], ["a"])
    less = table.version
    write(table, [], ["b"])
    for version, paths in ((None, ["c"]), (less, ["b", "c"]), (whole, ["a", "b", "c"]), (less, ["b", "c"])):
        if version is not None:
            table.restore_version(version)
        assert TermLookup(table, "path", "defines").find_keys("get") == paths


def test_many_rows_are_worth_reading_at_the_second_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA)
    write(table, [("a", "docs", ["get"]), ("b", "docs", ["get"])], [])
    assert TermLookup(table, "path", "defines").is_worth_reading()
    monkeypatch.setattr(held_terms, "FEW_ROWS", 1)
    assert not TermLookup(table, "path", "text").is_worth_reading()
    assert TermLookup(table, "path", "text").is_worth_reading()
    TermLookup(table, "path", "defines").find_keys("get")
    write(table, [("c", "docs", ["get"])], [])
    assert TermLookup(table, "path", "defines").is_worth_reading()  # of the new row alone


def test_what_is_too_large_to_be_held_is_found_all_the_same(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA, files=FileCache(max_bytes=10))
    write(table, [("a", "docs", ["get"])], [])
    write(table, [("b", "docs", ["get", "put"])], [])
    for _ in range(2):
        assert TermLookup(table, "path", "defines").find_keys("get") == ["a", "b"]
