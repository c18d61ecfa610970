"""Values of list columns in memory: a search for them finds the same rows, and asks less of the store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from knowledge_pipeline.store.filters import MATCH_ALL, Filter, eq, has_any
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.matching_rows import ListedValues
from knowledge_pipeline.store.search import IndexReader, open_index
from knowledge_pipeline_tests.query.search import rows

NAMES = (["a", "b"], [], ["b"], ["c"])


@pytest.fixture
def reader(tmp_path: Path) -> IndexReader:
    lake = Lake(tmp_path)
    chunks = [
        rows.row("text", f"{at}.py", names=names, tenant="acme" if at % 2 else "bolt")
        for at, names in enumerate(NAMES)
    ]
    rows.write(lake, "space", chunks)
    lake.index("space", rows.DIMENSIONS).delete_where(eq("path", "3.py"))
    version = lake.index("space", rows.DIMENSIONS).version
    return asyncio.run(open_index(lake.root, "space", version))


def find(reader: IndexReader, values: list[str], where: Filter) -> set[str]:
    read = reader.find_rows_listing("names", values, where, limit=9, columns=["path"])
    return {row["path"] for row in asyncio.run(read)}


@pytest.mark.parametrize("where", [MATCH_ALL, eq("tenant", "acme"), eq("tenant", "bolt")])
@pytest.mark.parametrize("values", [["a"], ["b", "x"], ["x"], ["c"], [], ["b", "c"]])
def test_the_rows_are_those_of_the_condition_before_and_after_the_values_are_known(
    reader: IndexReader, values: list[str], where: Filter
) -> None:
    stored = asyncio.run(reader.find_rows(where & has_any("names", values), limit=9, columns=["path"]))
    expected = {row["path"] for row in stored}
    assert [find(reader, values, where) for _ in range(4)] == [expected] * 4


def test_names_that_no_row_has_are_not_asked_of_the_store(reader: IndexReader) -> None:
    for _ in range(2):
        assert find(reader, ["a"], MATCH_ALL) == {"0.py"}
    broken = replace(reader, dataset=pa.table({}))
    assert find(broken, ["x", "c"], MATCH_ALL) == set()
    with pytest.raises(AttributeError):  # asked of the table
        find(broken, ["a"], MATCH_ALL)


def test_more_values_than_the_bound_are_all_asked_of_the_store(reader: IndexReader) -> None:
    bounded = ListedValues(reader.dataset, max_values=1)
    assert [bounded.keep_listed("names", ["a", "x"]) for _ in range(3)] == [["a", "x"]] * 3
    roomy = ListedValues(reader.dataset, max_values=2)
    assert [roomy.keep_listed("names", ["a", "x"]) for _ in range(3)] == [["a", "x"], ["a"], ["a"]]
