"""An index whose vectors are compared in place: it finds what Lance finds where it compares them itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowledge_pipeline.store import indexes, matching_rows
from knowledge_pipeline.store import search as readers
from knowledge_pipeline.store import vectors as indexed_vectors
from knowledge_pipeline.store.filters import MATCH_ALL, MATCH_NONE, Filter, eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import IndexReader, ScoredRow, open_index
from knowledge_pipeline.store.vectors import VectorMemory, compute_cosines
from knowledge_pipeline_tests.query.search import rows

DIMENSIONS = 384
VECTORS = np.random.default_rng(7).standard_normal((360, DIMENSIONS)).astype("f4").round(3)
QUESTION = VECTORS[200] + VECTORS[345] + VECTORS[31]
CONDITIONS = (
    MATCH_ALL,
    MATCH_NONE,
    eq("tenant", "old"),
    eq("tenant", "new"),
    one_of("tenant", ["old", "new"]),
)


def write(lake: Lake, first: int, last: int, *, tenant: str, without_vector: int | None = None) -> None:
    chunks = [
        rows.row(
            "text", f"{at}.py", vector=None if at == without_vector else VECTORS[at].tolist(), tenant=tenant
        )
        for at in range(first, last)
    ]
    rows.write(lake, "space", chunks, dimensions=DIMENSIONS)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """300 rows in an index of vectors; some of them are deleted since."""
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 200)
    lake = Lake(tmp_path)
    write(lake, 0, 300, tenant="old")
    table = lake.index("space", DIMENSIONS)
    indexes.maintain_indexes(table)
    table.delete_where(one_of("path", [f"{at}.py" for at in range(0, 40, 4)]))
    return lake


def open_unheld(lake: Lake) -> IndexReader:
    """A reader of the newest version, which is not held in memory."""
    reader = asyncio.run(open_index(lake.root, "space", lake.index("space", DIMENSIONS).version))
    return replace(reader, memory=VectorMemory(reader.dataset, DIMENSIONS, max_bytes=0))


def search(reader: IndexReader, where: Filter, *, times: int = 1) -> list[ScoredRow]:
    """What the last of some searches finds."""

    async def ask() -> list[ScoredRow]:
        found: list[ScoredRow] = []
        for _ in range(times):
            found = await reader.search_vector(QUESTION, where, limit=20)
        return found

    return asyncio.run(ask())


def find_nearest(reader: IndexReader, where: Filter) -> dict[int, float]:
    """The rows that match and are nearest, by numpy: id -> cosine."""
    found = reader.dataset.to_table(columns=["vector"], filter=where.sql, with_row_id=True)
    vectors = found["vector"].combine_chunks().flatten().to_numpy().reshape(-1, DIMENSIONS)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(QUESTION)
    similarities = dict(zip(found["_rowid"].to_pylist(), vectors @ QUESTION / lengths, strict=True))
    return {row: similarities[row] for row in sorted(similarities, key=lambda row: -similarities[row])[:20]}


@pytest.mark.parametrize("newer", [0, 60])
@pytest.mark.parametrize("most", [0, 2_000])
def test_the_nearest_rows_are_those_of_the_cosine(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, newer: int, most: int
) -> None:
    monkeypatch.setattr(matching_rows, "MIN_FEW", most)
    monkeypatch.setattr(matching_rows, "MAX_FEW", most)
    if newer:
        write(lake, 300, 300 + newer, tenant="new")
    reader = open_unheld(lake)
    search(reader, MATCH_ALL, times=3)
    assert reader.memory.loaded is None and reader.memory.indexed_vectors is not None
    for where in CONDITIONS:
        expected = find_nearest(reader, where)
        for _ in range(3):  # before the rows that match are known, and after
            found = search(reader, where)
            assert [each.row_id for each in found] == list(expected)
            assert [each.score for each in found] == pytest.approx(list(expected.values()), abs=1e-6)


def test_it_finds_what_lance_finds_where_lance_compares(lake: Lake) -> None:
    write(lake, 300, 360, tenant="new")
    reader = open_unheld(lake)
    first = search(reader, MATCH_ALL)
    assert reader.memory.indexed_vectors is None
    later = search(reader, MATCH_ALL, times=3)
    assert reader.memory.indexed_vectors is not None
    assert [each.row_id for each in later] == [each.row_id for each in first]
    assert [each.score for each in later] == pytest.approx([each.score for each in first], abs=1e-6)


def test_the_rows_of_a_condition_that_few_match_are_all_compared(lake: Lake) -> None:
    reader = open_unheld(lake)
    where = eq("path", "17.py")
    search(reader, where, times=4)
    matches = reader.memory.matching.find(where)
    assert matches and matches.few is not None
    assert [row for row, _ in search(reader, where)] == matches.few.tolist()
    assert reader.memory.matching.find(MATCH_ALL) is None, "asked under no such condition"


def test_where_a_row_has_no_vector_lance_compares(lake: Lake) -> None:
    write(lake, 300, 360, tenant="new", without_vector=310)
    reader = open_unheld(lake)
    found = search(reader, MATCH_ALL, times=4)
    assert reader.memory.indexed_vectors is None
    assert {each.row_id for each in found} == set(find_nearest_embedded(reader))


def find_nearest_embedded(reader: IndexReader) -> dict[int, float]:
    return find_nearest(reader, Filter("vector IS NOT NULL"))


def test_more_rows_than_a_few_that_the_index_lacks_are_left_to_lance(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexed_vectors, "MAX_NEWER_ROWS", 59)
    write(lake, 300, 360, tenant="new")
    reader = open_unheld(lake)
    found = search(reader, MATCH_ALL, times=4)
    assert reader.memory.indexed_vectors is None
    assert [each.row_id for each in found] == list(find_nearest(reader, MATCH_ALL))


def test_a_reader_of_one_fragment_finds_no_row_of_another(lake: Lake) -> None:
    write(lake, 300, 360, tenant="new")
    reader = open_unheld(lake)
    search(reader, MATCH_ALL, times=3)
    row = next(iter(find_nearest(reader, eq("tenant", "new"))))
    found = search(reader.narrow_to_row(row), MATCH_ALL)
    assert [each.row_id for each in found] == list(find_nearest(reader, eq("tenant", "new")))


def test_a_vector_that_is_all_zero_is_like_none() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [-6.0, -8.0]], np.float32)
    assert compute_cosines(vectors, np.array([0.6, 0.8], np.float32)).tolist() == pytest.approx(
        [1.0, 0.0, -1.0]
    )
    assert compute_cosines(vectors, np.zeros(2, np.float32)).tolist() == [0.0, 0.0, 0.0]


@pytest.fixture
def depths(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """How far searches of the index look; None: as far as by default."""
    asked: list[int | None] = []
    find_nearest = IndexReader._find_nearest

    def note_depth(reader: IndexReader, *args: Any, **options: Any) -> Any:
        asked.append(None if "row_addr_allowlist" in args[1] else options.get("depth"))
        return find_nearest(reader, *args, **options)

    monkeypatch.setattr(matching_rows, "MAX_FEW", 10)
    monkeypatch.setattr(matching_rows, "MIN_FEW", 10)
    monkeypatch.setattr(IndexReader, "_find_nearest", note_depth)
    return asked


def test_where_many_rows_match_the_nearest_of_all_are_asked_for(
    lake: Lake, depths: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "_HNSW_EF", 60)
    reader = open_unheld(lake)
    where = ~one_of("path", [f"{at}.py" for at in range(1, 300, 3)])
    search(reader, where, times=4)
    matches = reader.memory.matching.find(where)
    assert matches and (many := matches.many) is not None and matching_rows.MANY_SHARE < many.share < 0.7
    expected = find_nearest(reader, where)
    assert [each.row_id for each in search(reader, where)] == list(expected)
    assert depths[-1] is not None and 60 / many.share <= depths[-1] < 60 / many.share + 1


def test_far_from_the_rows_that_match_these_alone_are_asked_for(
    lake: Lake, depths: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "_HNSW_EF", 24)
    reader = open_unheld(lake)
    nearest = asyncio.run(reader.search_vector(QUESTION, MATCH_ALL, limit=120))
    found = asyncio.run(reader.take_rows([each.row_id for each in nearest], ["path"]))
    where = ~one_of("path", [row["path"] for row in found.values()])
    search(reader, where, times=4)
    matches = reader.memory.matching.find(where)
    assert matches and matches.many is not None
    assert len(search(reader, where)) == 20
    assert depths[-2] is not None and depths[-1] is None
