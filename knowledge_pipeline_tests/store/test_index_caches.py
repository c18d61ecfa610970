"""A table that is searched keeps what its indexes take in memory, however often it is written."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from knowledge_pipeline.store import indexes, lance_storage
from knowledge_pipeline.store import search as readers
from knowledge_pipeline.store.filters import MATCH_ALL
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append_rows
from knowledge_pipeline.store.search import IndexReader, open_index
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.store.test_indexes import DIMENSIONS, write

ROWS, ADDED, RELEASES = 3_000, 200, 8


def grow(table: Table, first: int, count: int) -> None:
    """Rows with the numbers from `first` on, and indexes that know them."""
    write(table, np.random.default_rng(first).normal(size=(count, DIMENSIONS)).astype("f4"), first)
    indexes.maintain_indexes(table)


async def open_and_search(lake: Lake, version: int) -> IndexReader:
    """The version, with all of its indexes in memory."""
    reader = await open_index(lake.root, "space", version)
    await reader.prewarm()
    assert await reader.search_text("word7x", MATCH_ALL, limit=1)
    return reader


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A store whose indexes are larger than the smallest cache."""
    monkeypatch.setattr(indexes, "SCALAR_INDEX_MIN_ROWS", 100)
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 1000)
    monkeypatch.setattr(lance_storage, "_LEAST_INDEX_BYTES", 1 << 16)
    monkeypatch.setattr(readers, "_FEW_ROWS", ROWS - 1)
    lake = Lake(tmp_path)
    grow(lake.index("space", DIMENSIONS), 0, ROWS)
    return lake


def test_releases_do_not_add_up_in_memory(lake):
    table = lake.index("space", DIMENSIONS)

    async def release_again_and_again() -> list[int]:
        held = []
        for number in range(RELEASES):
            session = (await open_and_search(lake, table.version)).dataset.session()
            held.append(session.index_cache_size_bytes())
            await asyncio.to_thread(grow, table, ROWS + number * ADDED, ADDED)
        return held

    held = asyncio.run(release_again_and_again())
    taken = sum(each.total_size_bytes for each in table.open_newest().describe_indices())
    assert held[0] > 1 << 16
    assert max(held) <= taken


def test_versions_of_a_table_share_one_cache_and_tables_do_not(lake, tmp_path_factory):
    other = Lake(tmp_path_factory.mktemp("other"))
    grow(other.index("space", DIMENSIONS), 0, 10)
    table = lake.index("space", DIMENSIONS)
    version = table.version
    table.open_newest().delete("id = 'i5'")

    async def open_sessions() -> list:
        read = [(lake, version), (lake, table.version), (other, other.index("space", DIMENSIONS).version)]
        return [(await open_index(each.root, "space", of)).dataset.session() for each, of in read]

    former, newest, of_another = asyncio.run(open_sessions())
    assert newest.is_same_as(former)
    assert not of_another.is_same_as(former)


def test_a_table_that_grew_gets_a_larger_cache(lake):
    table = lake.index("space", DIMENSIONS)
    small = asyncio.run(open_and_search(lake, table.version)).dataset.session()
    grow(table, ROWS, 2 * ROWS)
    large = asyncio.run(open_and_search(lake, table.version)).dataset.session()
    assert large.index_cache_size_bytes() > 2 * small.index_cache_size_bytes()


def test_a_log_that_is_written_has_a_cache_of_its_own(tmp_path):
    lake, at = Lake(tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    row = {
        "id": "evt_1",
        "at": at,
        "type": "release.published",
        "source": None,
        "release": 1,
        "content": "{}",
    }
    append_rows(lake, "events", [row])
    log, other = lake.log_table("events").path, tmp_path / "other.lance"
    lance_storage.create_dataset(other, lake.log_table("events").schema)
    sessions = [lance_storage.open_dataset(path, files=lake.files).session() for path in (log, other)]
    assert not sessions[0].is_same_as(sessions[1])
    assert lance_storage.open_dataset(log, files=lake.files).session().is_same_as(sessions[0])
