"""Two dozen refreshes: versions and disk stay bounded, and every row is found."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.search import IndexReader, ScoredRow, open_index
from knowledge_pipeline_tests.conftest import Project

REFRESHES = 24  # of which each adds a version or two to every table


def versions_and_bytes(project: Project) -> dict[str, tuple[int, int]]:
    """Of every table."""
    return {
        path.parent.name + "/" + path.parent.parent.name: (
            sum(1 for _ in path.iterdir()),
            sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file()),
        )
        for path in project.lake.root.rglob("_versions")
    }


async def lost_rows(project: Project) -> tuple[list[str], list[str]]:
    """Ids that a full-text or a vector search for the row's own content does not find."""
    now = find_live_release(project.lake)
    assert now is not None
    ((space, version),) = now.tables.items()
    reader = await open_index(project.lake.root, space, version)
    live_rows = eq("archived", False)
    rows = await reader.find_rows(live_rows, limit=10_000, columns=["id", "symbol", "vector"])
    by_words, by_vector = [], []
    for row in rows:
        found = await reader.search_text(row["symbol"], live_rows, limit=len(rows))
        by_words += [row["id"]] if row["id"] not in await ids_of(reader, found) else []
        near = await reader.search_vector(np.array(row["vector"], "f4"), live_rows, limit=5)
        by_vector += [row["id"]] if row["id"] not in await ids_of(reader, near) else []
    return by_words, by_vector


async def ids_of(reader: IndexReader, found: list[ScoredRow]) -> set[str]:
    return {row["id"] for row in (await reader.take_rows([each.row_id for each in found], ["id"])).values()}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_dozen_refreshes_keep_every_table_bounded_and_every_row_found(
    project: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    for number in range(REFRESHES):
        (folder / f"m{number}.py").write_text(f"def function{number}x():\n    return {number}\n")
    project.declare("main", "code", folder)
    project.refresh()
    halfway: dict[str, tuple[int, int]] = {}
    for turn in range(REFRESHES):
        (folder / f"m{turn}.py").write_text(f"def function{turn}x():\n    return {turn}, 'edited'\n")
        assert project.refresh().failures == {}
        if turn == REFRESHES // 2:
            halfway = versions_and_bytes(project)
    assert asyncio.run(lost_rows(project)) == ([], [])
    end = versions_and_bytes(project)
    assert all(versions < 20 for versions, _ in end.values()), end
    for name, (_, size) in end.items():
        assert size <= 1.5 * halfway[name][1] + 200_000, (
            f"{name} grew from {halfway[name][1]} to {size} bytes"
        )
