"""Rows that a condition leaves, kept for the searches that follow: what they find is what a filter finds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.store import indexes, matching_rows
from knowledge_pipeline.store.filters import MATCH_ALL, MATCH_NONE, Filter, eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.matching_rows import MatchingRows, RowSet
from knowledge_pipeline.store.search import IndexReader, ScoredRow, open_index
from knowledge_pipeline.store.vectors import VectorMemory
from knowledge_pipeline_tests.store.test_indexes import DIMENSIONS, write

CONDITIONS = (MATCH_ALL, MATCH_NONE, eq("source", "b"), ~eq("source", "b"), one_of("id", ["i3", "i311"]))


@pytest.fixture(params=["all indexed", "newer rows"])
def reader(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexReader:
    """Indexed rows, some of them deleted; with newer ones beyond every index, or without."""
    monkeypatch.setattr(indexes, "SCALAR_INDEX_MIN_ROWS", 100)
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 200)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(7).normal(size=(330, DIMENSIONS)).astype("f4")
    write(table, vectors[:300], 0)
    indexes.maintain_indexes(table)
    table.delete_where(one_of("id", [f"i{number}" for number in range(0, 40, 4)]))
    if request.param == "newer rows":
        write(table, vectors[300:], 300)
    return asyncio.run(open_index(lake.root, "space", table.version))


def keep(reader: IndexReader, *, max_rows: int) -> IndexReader:
    memory = VectorMemory(reader.dataset, reader.dimensions, max_bytes=0, max_rows=max_rows)
    return replace(reader, memory=memory)


def search(reader: IndexReader, where: Filter) -> list[list[ScoredRow]]:
    """What words and a vector find; Lance gives rows of equal scores in any order."""

    async def ask() -> list[list[ScoredRow]]:
        by_words = await reader.search_text("common word3x word311x", where, limit=400)
        by_vector = await reader.search_vector(np.ones(DIMENSIONS, "f4"), where, limit=20)
        return [sorted(by_words), sorted(by_vector)]

    return asyncio.run(ask())


def test_searches_find_the_same_with_the_rows_in_memory(reader: IndexReader) -> None:
    filtering, keeping = keep(reader, max_rows=0), keep(reader, max_rows=1_000)
    for where in CONDITIONS:
        expected = search(filtering, where)
        for _ in range(2):
            assert search(keeping, where) == expected
        assert filtering.memory.matching.restrict(where).keys() == {"filter"}


@pytest.mark.parametrize("reader", ["all indexed"], indirect=True)
def test_rows_are_read_once_for_a_condition_that_is_asked_again(reader: IndexReader) -> None:
    read: list[Filter] = []

    class Counted:
        def count_rows(self) -> int:
            return reader.dataset.count_rows()

        def to_table(self, **options: object) -> object:
            read.append(Filter(str(options["filter"])))
            return reader.dataset.to_table(**options)

        def __getattr__(self, name: str) -> object:
            return getattr(reader.dataset, name)

    matching = MatchingRows(Counted(), reader.memory.values)
    where = eq("source", "b")
    assert matching.restrict(where) == {"filter": where.sql} and not read
    for _ in range(3):
        assert matching.restrict(where).keys() == {"row_addr_allowlist"}
    assert read == [where]
    matching.restrict(MATCH_ALL)
    assert matching.restrict(MATCH_ALL) == {}, "all rows need no mask"


def test_of_an_index_with_many_rows_few_alone_are_kept(
    reader: IndexReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching_rows, "MIN_FEW", 40)
    filtering, keeping = keep(reader, max_rows=0), keep(reader, max_rows=100)
    for where in CONDITIONS:
        expected = search(filtering, where)
        for _ in range(2):
            assert search(keeping, where) == expected
    kept = keeping.memory.matching
    of_b = reader.dataset.to_table(columns=[], filter=eq("source", "b").sql, with_row_id=True)["_rowid"]
    matches = kept.find(eq("source", "b"))
    assert matches and matches.few is not None and matches.few.tolist() == sorted(of_b.to_pylist())
    assert kept.find(MATCH_ALL) is None and kept.restrict(MATCH_ALL) == {"filter": MATCH_ALL.sql}


PLACES = st.tuples(st.integers(0, 5), st.integers(0, 40)).map(lambda at: at[0] << 32 | at[1])


@given(st.sets(PLACES, min_size=1), st.lists(PLACES))
def test_a_set_of_rows_has_its_rows_alone(rows: set[int], asked: list[int]) -> None:
    held = RowSet.of(np.array(sorted(rows), np.int64), 1_000)
    asked = [*asked, *rows]
    assert held.contains(np.array(asked, np.int64)).tolist() == [row in rows for row in asked]
    assert held.share == len(rows) / 1_000
