"""Vectors read in place: those that Lance reads, where the file has a plain one for each row."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knowledge_pipeline.store.filters import MATCH_ALL, eq, glob, on_branch, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import IndexReader, open_index
from knowledge_pipeline.store.vectors import VectorFiles, VectorMemory
from knowledge_pipeline_tests.query.search import rows

DIMENSIONS = 384


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three fragments; the second has a row without a vector, and of the third some rows are deleted."""
    lake, made = Lake(tmp_path), np.random.default_rng(7).standard_normal((90, DIMENSIONS)).round(3).tolist()
    parts = {"a": made[:40], "b": [None, *made[41:60]], "c": made[60:]}
    for tenant, vectors in parts.items():
        chunks = [
            rows.row("text", f"{tenant}{at}.py", vector=each, tenant=tenant)
            for at, each in enumerate(vectors)
        ]
        rows.write(lake, "space", chunks, dimensions=DIMENSIONS)
    table = lake.index("space", DIMENSIONS)
    table.delete_where(one_of("path", [f"c{at}.py" for at in range(0, 30, 3)]))
    return lake


@pytest.fixture
def reader(lake: Lake) -> IndexReader:
    """The newest version."""
    return asyncio.run(open_index(lake.root, "space", lake.index("space", DIMENSIONS).version))


def read_row_ids(reader: IndexReader) -> dict[int, list[int]]:
    """The rows of each fragment."""
    ids = reader.dataset.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
    return {at: [id_ for id_ in ids if id_ >> 32 == at] for at in {id_ >> 32 for id_ in ids}}


def test_vectors_are_those_that_lance_reads_of_files_that_have_one_for_each_row(reader: IndexReader) -> None:
    files, by_fragment = VectorFiles.open(reader.dataset, DIMENSIONS), read_row_ids(reader)
    assert [files.has_all(ids) for _, ids in sorted(by_fragment.items())] == [True, False, True]
    first, _, third = (ids for _, ids in sorted(by_fragment.items()))
    for asked in ([], third[:1], [*reversed(third), *first], first[3:5] + third[-2:] + first[-1:]):
        stored, (known, matrix) = asyncio.run(reader.take_vectors(asked)), files.take_matrix(asked)
        assert sorted(known) == sorted(asked) and matrix.shape == (len(asked), DIMENSIONS)
        assert all(np.array_equal(stored[row], vector) for row, vector in zip(known, matrix, strict=True))
        assert files.take(asked).keys() == stored.keys()


def test_short_vectors_lie_otherwise_and_are_left_to_lance(tmp_path: Path) -> None:
    rows.write(Lake(tmp_path), "space", [rows.row("text", "a.py", vector=[1.0, 0.0])], dimensions=2)
    reader = asyncio.run(open_index(tmp_path, "space", Lake(tmp_path).index("space", 2).version))
    files = VectorFiles.open(reader.dataset, 2)
    assert not files.has_all(read_row_ids(reader)[0])


def test_the_files_of_a_table_that_is_not_held_are_opened_when_it_is_searched_again(
    reader: IndexReader,
) -> None:
    memory, (first, *_) = VectorMemory(reader.dataset, DIMENSIONS, max_bytes=0), read_row_ids(reader).values()
    holders: list[bool] = []
    for _ in range(4):
        assert memory.load_if_due(MATCH_ALL) is None
        holders.append(memory.find_holder(first) is not None)
    assert holders == [False, False, True, True]


def test_who_searches_for_few_rows_opens_no_files(reader: IndexReader) -> None:
    memory = VectorMemory(reader.dataset, DIMENSIONS, max_bytes=0, opens_files=False)
    (first, *_) = read_row_ids(reader).values()
    for _ in range(4):
        assert memory.load_if_due(MATCH_ALL) is None
        assert memory.find_holder(first) is None


def test_what_is_held_of_a_version_ends_with_its_reader(lake: Lake) -> None:
    """Without the garbage collector, which a server runs seldom: each release would leave its files open."""
    reader = asyncio.run(open_index(lake.root, "space", lake.index("space", DIMENSIONS).version))
    reader = replace(reader, memory=VectorMemory(reader.dataset, DIMENSIONS, max_bytes=0))
    first, *_ = read_row_ids(reader).values()
    asyncio.run(_use(reader))
    assert reader.memory.find_holder(first) and _is_open(lake.folder)
    values = weakref.ref(reader.memory.values)
    gc.disable()
    try:
        del reader
        assert values() is None
        assert not _is_open(lake.folder)
    finally:
        gc.enable()


def _is_open(folder: Path) -> bool:
    """Whether a file with rows below a folder is open."""
    opened = (file.resolve() for file in Path("/proc/self/fd").iterdir())
    return any(file.parent.name == "data" and file.is_relative_to(folder.resolve()) for file in opened)


async def _use(reader: IndexReader) -> None:
    for _ in range(4):
        await reader.search_vector(np.ones(DIMENSIONS, np.float32), eq("tenant", "a"), limit=5)
        await reader.search_text("text", on_branch(["main"]) & glob("path", "a*"), limit=5)
        await reader.find_rows_listing("names", ["x"], MATCH_ALL, limit=5, columns=["id"])
