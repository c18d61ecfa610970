"""A release is opened once for all questions that wait for it, with what the one before held in memory."""

from __future__ import annotations

import asyncio

import pytest

from knowledge_pipeline.query import open_release
from knowledge_pipeline.query.open_release import LiveIndex
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import IndexReader, SpaceUnreadable
from knowledge_pipeline_tests.query.search import rows


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
