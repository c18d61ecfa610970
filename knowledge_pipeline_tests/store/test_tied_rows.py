"""Rows that share the last place of a search by words are all found, in one store or in several."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.federation import FederatedReader
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import IndexReader, open_index
from knowledge_pipeline_tests.query.search import rows

LIMIT = 8
BETTER = [rows.row("payment payment", f"better {at}.py") for at in range(6)]
TIED = [rows.row("payment other", f"tied {at}.py") for at in range(6)]
WORSE = [rows.row("payment other and more", f"worse {at}.py") for at in range(6)]


async def open_reader(lake: Lake, written: Sequence[dict[str, Any]]) -> IndexReader:
    rows.write(lake, "space", written)
    table = lake.index("space", rows.DIMENSIONS)
    indexes.maintain_indexes(table)
    return await open_index(lake.root, "space", table.version)


async def find_paths(reader: IndexReader, *, limit: int) -> set[str]:
    found = await reader.search_text("payment", eq("archived", False), limit=limit)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    return {
        row["path"] for row in (await reader.take_rows([each.row_id for each in found], ["path"])).values()
    }


@pytest.mark.parametrize("stores", [1, 3])
def test_rows_that_share_the_last_place_are_all_found(tmp_path: Path, stores: int) -> None:
    written = [*BETTER, *TIED[:4], *WORSE]

    async def search() -> list[set[str]]:
        members = {
            str(at): await open_reader(Lake(tmp_path / str(at)), written[at::stores]) for at in range(stores)
        }
        reader = FederatedReader.unite(members, timeout_s=60)
        return [await find_paths(reader, limit=limit) for limit in (6, LIMIT)]

    better, with_tied = asyncio.run(search())
    assert better == {row["path"] for row in BETTER}
    assert with_tied == {row["path"] for row in (*BETTER, *TIED[:4])}


def test_a_quarter_more_than_were_asked_for_are_found_at_most(tmp_path: Path) -> None:
    async def search() -> set[str]:
        return await find_paths(await open_reader(Lake(tmp_path), [*BETTER, *TIED, *WORSE]), limit=LIMIT)

    found = asyncio.run(search())
    assert len(found) == LIMIT + LIMIT // 4
    assert {row["path"] for row in BETTER} < found < {row["path"] for row in (*BETTER, *TIED)}
