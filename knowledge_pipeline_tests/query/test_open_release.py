"""A release is opened once for all questions that wait for it, with what the one before held in memory."""

from __future__ import annotations

import asyncio
import gc
import os
import resource

import numpy as np
import pytest

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.query import open_release
from knowledge_pipeline.query.open_release import LiveIndex
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import MATCH_ALL, eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import restore_release
from knowledge_pipeline.store.search import IndexReader, SpaceUnreadable
from knowledge_pipeline_tests.fakes.openai_server import word_vector
from knowledge_pipeline_tests.query.search import rows

_RELEASES = 36


async def open_reader(index: LiveIndex) -> IndexReader:
    (reader,) = await (await index.open_release()).open_readers()
    return reader


async def open_at_once(index: LiveIndex) -> list[IndexReader]:
    return await asyncio.gather(*(open_reader(index) for _ in range(8)))


def test_questions_at_once_share_one_reader_of_each_release(lake: Lake, space: str):
    async def ask() -> None:
        index = LiveIndex(lake)
        for path in ("one.py", "two.py"):
            rows.write(lake, space, [rows.row("text", path)])
            rows.publish(lake)
            readers = await open_at_once(index)
            assert len({id(each) for each in readers}) == 1
            assert readers[0].version == lake.index(space, rows.DIMENSIONS).version

    asyncio.run(ask())


def test_vectors_in_memory_are_in_memory_after_the_next_release(lake: Lake, space: str):
    async def ask() -> None:
        index = LiveIndex(lake)
        rows.write(lake, space, [rows.row("text", "one.py")])
        rows.publish(lake)
        before = await open_reader(index)
        before.memory.load_if_due(), before.memory.load_if_due()
        rows.write(lake, space, [rows.row("text", "two.py")])
        rows.publish(lake)
        after = await open_reader(index)
        assert after is not before and after.memory.loaded
        assert len(after.memory.loaded.rows) == 2

    asyncio.run(ask())


def test_vectors_of_rows_that_a_rollback_brings_back_are_found(lake: Lake, space: str):
    async def ask() -> None:
        index = LiveIndex(lake)
        rows.write(lake, space, [rows.row("one", "one.py"), rows.row("two", "two.py")])
        rows.publish(lake)
        lake.index(space, rows.DIMENSIONS).delete_where(eq("path", "two.py"))
        rows.publish(lake)
        reader = await open_reader(index)
        reader.memory.load_if_due(), reader.memory.load_if_due()
        assert reader.memory.loaded and len(reader.memory.loaded.rows) == 1
        restore_release(lake, 1, keep=3)
        reader = await open_reader(index)
        found = await reader.search_vector(np.array(word_vector("two", rows.DIMENSIONS)), MATCH_ALL, limit=5)
        assert len(found) == 2

    asyncio.run(ask())


def test_too_many_open_files_are_called_that(lake: Lake, space: str):
    rows.write(lake, space, [rows.row("text", "one.py")])
    rows.publish(lake)

    async def ask() -> None:
        opened = await LiveIndex(lake).open_release()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.close(lowest_free := os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            with pytest.raises(SpaceUnreadable, match="too many files open") as error:
                await opened.open_readers()
            assert "knowledge index" not in str(error.value)
            with pytest.raises(StoreError, match="too many files open"):
                await opened.open_graph_reader()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    asyncio.run(ask())


def test_releases_leave_no_files_open(lake: Lake, space: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(indexes, "MAX_UNINDEXED_ROWS", 0)  # each release writes indexes
    monkeypatch.setattr(indexes, "SCALAR_INDEX_MIN_ROWS", 1)
    counts = list[int]()

    async def ask() -> None:
        index = LiveIndex(lake)
        for number in range(_RELEASES):
            text = " ".join(f"number{number}x{word}" for word in range(2_000))
            rows.write(lake, space, [rows.row(text, f"{number}.py")])
            rows.publish(lake)
            reader = await open_reader(index)
            assert await reader.search_text(f"number{number}x7", eq("source", "app"), limit=1)
            assert lake.index(space, rows.DIMENSIONS).read_rows(["id"], eq("source", "app"))
            counts.append(len(os.listdir("/proc/self/fd")))

    gc.disable()  # as a server looks for cycles seldom
    try:
        asyncio.run(ask())
    finally:
        gc.enable()
    third = _RELEASES // 3
    assert max(counts[-third:]) <= max(counts[:third]) + 10


def test_a_question_that_goes_away_leaves_the_opening_to_the_others(lake: Lake, space: str):
    async def ask() -> None:
        rows.write(lake, space, [rows.row("text", "one.py")])
        rows.publish(lake)
        opened = await LiveIndex(lake).open_release()
        first, second = (asyncio.create_task(opened.open_readers()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert len(await second) == 1
        assert first.cancelled()

    asyncio.run(ask())


def test_a_table_that_cannot_be_opened_is_tried_again(
    lake: Lake, space: str, monkeypatch: pytest.MonkeyPatch
):
    async def ask() -> None:
        rows.write(lake, space, [rows.row("text", "one.py")])
        rows.publish(lake)
        opened, opens = await LiveIndex(lake).open_release(), open_release.open_index

        async def refuse(root: object, space: str, version: int) -> IndexReader:
            raise SpaceUnreadable("the disk is away", space)

        monkeypatch.setattr(open_release, "open_index", refuse)
        failed = await asyncio.gather(*(opened.open_readers() for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in failed] == [SpaceUnreadable] * 3
        monkeypatch.setattr(open_release, "open_index", opens)
        assert len(await opened.open_readers()) == 1

    asyncio.run(ask())
