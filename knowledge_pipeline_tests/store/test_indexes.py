"""Every kind of index on a real table: rows inside and beyond it are found, with filters too."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from knowledge_pipeline.store import graph_indexes, indexes
from knowledge_pipeline.store.filters import Filter, eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.readers import IndexReader, Scored, open_index
from knowledge_pipeline.store.tables import Table

DIMENSIONS = 32
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def empty_value(type_: pa.DataType) -> Any:
    if pa.types.is_list(type_):
        return []
    if pa.types.is_timestamp(type_):
        return NOW
    if pa.types.is_boolean(type_):
        return False
    return 0 if pa.types.is_integer(type_) or pa.types.is_floating(type_) else ""


def write(table: Table, vectors: np.ndarray, first: int) -> None:
    """Rows that are told apart by one word and one vector each; every tenth belongs to `b`."""
    rows = []
    for number, vector in enumerate(vectors, start=first):
        row = {field.name: empty_value(field.type) for field in table.schema}
        row |= {
            "id": f"i{number}",
            "text_key": f"k{number}",
            "words": f"word{number}x common",
            "vector": vector,
        }
        rows.append(row | {"source": "b" if number % 10 == 0 else "a"})
    table.upsert([pa.RecordBatch.from_pylist(rows, schema=table.schema)])


async def misses(lake: Lake, vectors: np.ndarray, where: Filter, numbers: list[int]) -> tuple[int, int]:
    """Of the asked rows: how many a vector search, and a word search, for themselves do not find."""
    table = lake.index("space", DIMENSIONS)
    reader = await open_index(lake.root, "space", table.version)
    by_vector = by_word = 0
    for number in numbers:
        near = await reader.nearest(vectors[number], where, limit=5)
        by_vector += f"i{number}" not in await ids_of(reader, near)
        found = await reader.matching(f"word{number}x", where, limit=5)
        by_word += f"i{number}" not in await ids_of(reader, found)
    return by_vector, by_word


async def ids_of(reader: IndexReader, found: list[Scored]) -> set[str]:
    return {row["id"] for row in (await reader.taken([each.row for each in found], ["id"])).values()}


def test_rows_inside_and_beyond_every_index_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "SCALAR_FROM_ROWS", 100)
    monkeypatch.setattr(indexes, "VECTOR_FROM_ROWS", 1000)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(7).normal(size=(1600, DIMENSIONS)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    write(table, vectors[:1500], 0)
    indexes.maintain(table)
    kinds = {index.index_type for index in table.opened().list_indices()}
    assert {"FTS", "Bitmap", "BTree"} < kinds
    assert any("Hnsw" in kind or "HNSW" in kind for kind in kinds)
    write(table, vectors[1500:], 1500)
    assert indexes.unindexed_rows(table) == 100
    everything, only_b = Filter("true"), eq("source", "b")
    assert asyncio.run(misses(lake, vectors, everything, list(range(0, 1600, 7)))) == (0, 0)
    assert asyncio.run(misses(lake, vectors, only_b, list(range(0, 1600, 70)))) == (0, 0)
    assert asyncio.run(misses(lake, vectors, only_b, [1, 2, 3]))[0] == 3, "the filter holds"


def test_a_long_unindexed_tail_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "TAIL_ROWS", 50)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.eye(DIMENSIONS, dtype="f4")[np.arange(400) % DIMENSIONS]
    write(table, vectors[:300], 0)
    indexes.maintain(table)
    write(table, vectors[300:], 300)
    assert indexes.unindexed_rows(table) == 100
    indexes.maintain(table)
    assert indexes.unindexed_rows(table) == 0


def test_a_similarity_is_the_cosine_whether_a_vector_is_indexed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "VECTOR_FROM_ROWS", 1000)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(8).normal(size=(1200, DIMENSIONS)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    write(table, vectors[:1100], 0)
    indexes.maintain(table)
    assert any("HNSW" in index.index_type.upper() for index in table.opened().list_indices())
    write(table, vectors[1100:], 1100)

    async def read() -> list[tuple[float, float]]:
        reader = await open_index(lake.root, "space", table.version)
        pairs = []
        for asked in (vectors[3], vectors[1150]):
            near = await reader.nearest(asked, Filter("true"), limit=40)
            exact = await reader.vectors([each.row for each in near])
            pairs += [(each.score, float(asked @ exact[each.row])) for each in near]
        return pairs

    told, exact = zip(*asyncio.run(read()), strict=True)
    np.testing.assert_allclose(told, exact, atol=1e-5)
    assert max(told) > 0.999


def test_tails_become_segments_and_many_segments_become_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "TAIL_ROWS", 10)
    monkeypatch.setattr(indexes, "MOST_SEGMENTS", 3)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.eye(DIMENSIONS, dtype="f4")[np.arange(400) % DIMENSIONS]
    segments = []
    for start in range(0, 400, 40):
        write(table, vectors[start : start + 40], start)
        indexes.maintain(table)
        (words,) = (index.name for index in table.opened().list_indices() if index.columns == ["words"])
        stats = table.opened().index_stats(words)
        assert stats is not None and stats.num_unindexed_rows == 0
        segments.append(stats.num_indices)
    assert max(segments) == 3
    assert segments[-1] < len(segments)
    assert asyncio.run(misses(lake, vectors, Filter("true"), list(range(0, 400, 9))))[1] == 0


@pytest.mark.parametrize("name", ["symbols", "edges"])
def test_a_graph_table_has_every_index_that_its_questions_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(graph_indexes, "FROM_ROWS", 20)
    table = Lake(tmp_path).graph(name)
    row = {field.name: empty_value(field.type) for field in table.schema}
    rows = [{**row, table.key: f"id-{number}"} for number in range(30)]
    table.append(pa.Table.from_pylist(rows, schema=table.schema).to_batches())
    assert graph_indexes.wanting(table)
    graph_indexes.maintain(table)
    assert {"principals", "tenant", "path"} <= table.indexes.keys()
    assert not graph_indexes.wanting(table)
    graph_indexes.rebuild(table)
    assert not graph_indexes.wanting(table)
    assert table.count() == 30
