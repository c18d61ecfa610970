"""What a search reads of rows that only one of its ways has found."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from knowledge_pipeline.query.hits import RowCache
from knowledge_pipeline.query.retrieve import score_rows
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.search import open_index
from knowledge_pipeline_tests.query.search import rows

VECTORS = {"a.py": [3.0, 4.0], "b.py": [0.0, 0.0], "c.py": [-3.0, -4.0], "d.py": [4.0, -3.0]}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([0.6, 0.8], {"a.py": 1.0, "b.py": 0.0, "c.py": -1.0, "d.py": 0.0}),
        ([0.0, 0.0], dict.fromkeys(VECTORS, 0.0)),
    ],
)
def test_a_score_is_the_cosine_and_nothing_where_a_vector_is_all_zero(
    lake: Lake, asked: list[float], expected: dict[str, float]
):
    made = [rows.row("text", path, vector=vector, dimensions=2) for path, vector in VECTORS.items()]
    rows.write(lake, "space", made, dimensions=2)
    rows.publish(lake)
    assert asyncio.run(_scores(lake, asked)) == pytest.approx(expected)


async def _scores(lake: Lake, asked: list[float]) -> dict[str, float]:
    """The score of each path."""
    released = find_live_release(lake)
    assert released is not None
    reader = await open_index(lake.root, "space", released.tables["space"])
    found = await reader.search_text("text", eq("archived", False), limit=9)
    scored = await score_rows(RowCache(), reader, np.array(asked, "f4"), found.row_ids)
    paths = await reader.take_rows([each.row_id for each in scored], ["path"])
    return {paths[each.row_id]["path"]: each.score for each in scored}
