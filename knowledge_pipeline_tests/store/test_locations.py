"""Locations of sources: rows are completed, and filters on branches resolved, by each table for itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.federation import FederatedReader
from knowledge_pipeline.store.filters import eq, on_branch
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import (
    IndexReader,
    Locations,
    SourceLocation,
    open_index,
    read_locations,
    write_location,
)
from knowledge_pipeline_tests.query.search import rows

PAGES = "https://github.com/ann/app/blob/"


@pytest.fixture
def lakes(tmp_path: Path) -> dict[str, Lake]:
    """Two stores with a source of the same id, each on the branch of its name."""
    found = {name: Lake(tmp_path / name) for name in ("main", "next")}
    for name, lake in found.items():
        by_itself = rows.row("token", "old.py", source="old", branch="main", url="https://old.example/")
        rows.write(lake, "space", [rows.row(f"token {name}", f"{name} 1.py"), by_itself])
        table = lake.index("space", rows.DIMENSIONS)
        write_location(table, "app", SourceLocation(name, f"{PAGES}{name}/"))
        indexes.maintain_indexes(table)
    return found


async def open_reader(lake: Lake) -> IndexReader:
    return await open_index(lake.root, "space", lake.index("space", rows.DIMENSIONS).version)


def test_rows_are_completed_and_what_a_row_says_itself_holds(lakes: dict[str, Lake]) -> None:
    async def read() -> dict[str, tuple[str, str, str]]:
        reader = await open_reader(lakes["next"])
        columns = ["source", "path", "branch", "url", "shown"]
        found = await reader.find_rows(eq("archived", False), limit=9, columns=columns)
        return {row["path"]: (row["branch"], row["url"], row["shown"]["url"]) for row in found}

    page = f"{PAGES}next/next%201.py"
    old = "https://old.example/"
    assert asyncio.run(read()) == {"next 1.py": ("next", page, page), "old.py": ("main", old, old)}


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        (["main"], {"main 1.py", "old.py"}),
        (["next"], {"next 1.py"}),
        (["next", "main"], {"main 1.py", "next 1.py", "old.py"}),
        (["none' OR 'a' = 'a"], set()),
    ],
)
def test_several_stores_have_one_source_on_several_branches(
    lakes: dict[str, Lake], branches: list[str], expected: set[str]
) -> None:
    where = on_branch(branches) & eq("archived", False)

    async def search() -> list[set[str]]:
        members = {name: await open_reader(lake) for name, lake in lakes.items()}
        federated = FederatedReader.unite(members, timeout_s=60)
        by_vector = np.array(rows.row("token")["vector"], np.float32)
        found = [
            await federated.search_text("token", where, limit=9),
            await federated.search_vector(by_vector, where, limit=9),
            await federated.search_vector(by_vector, where, limit=9),  # by the vectors in memory
        ]
        taken = [await federated.take_rows([each.row_id for each in one], ["path"]) for one in found]
        counted = await federated.count_rows(where)
        listed = await federated.find_rows(where, limit=9, columns=["path"])
        assert counted == len(listed) == sum(len(one) for one in taken) / 3
        return [{row["path"] for row in one} for one in (*[each.values() for each in taken], listed)]

    assert asyncio.run(search()) == [expected] * 4


@pytest.mark.parametrize(
    ("sources", "branches"), [(150, 1), (1, 150)], ids=["of many sources", "of one source"]
)
def test_a_pattern_may_fit_many_branches(lakes: dict[str, Lake], sources: int, branches: int) -> None:
    table = lakes["main"].index("space", rows.DIMENSIONS)
    for source in ("app", *(f"s{at}" for at in range(1, sources))):
        names = tuple(f"release/{source}.{at}" for at in range(branches))
        write_location(table, source, SourceLocation("main", None, names))
    where = on_branch(["release/*"], eq("archived", False))

    async def count() -> int:
        return await (await open_reader(lakes["main"])).count_rows(where)

    assert asyncio.run(count()) == 1


def test_a_location_is_noted_once_and_belongs_to_a_version(lakes: dict[str, Lake]) -> None:
    table = lakes["main"].index("space", rows.DIMENSIONS)
    version, noted = table.version, read_locations(table)
    write_location(table, "app", SourceLocation("main", f"{PAGES}main/"))
    assert table.version == version
    write_location(table, "app", SourceLocation())
    assert not read_locations(table) and read_locations(table, version=version) == noted
    write_location(table, "other", SourceLocation())
    assert table.version == version + 1
    table.restore_version(version)
    assert read_locations(table) == noted


def test_rows_of_arrow_are_completed_alike() -> None:
    locations = Locations({"location/app": '["main", null]', "other": "note"})
    table = pa.table(
        {
            "source": ["app", "app", "b"],
            "path": ["x", "y", "z"],
            "branch": [None, "kept", None],
            "url": [None] * 3,
        },
        schema=pa.schema([(name, pa.string()) for name in ("source", "path", "branch", "url")]),
    )
    assert locations.fill_columns(table)["branch"].to_pylist() == ["main", "kept", None]
    (batch,) = table.to_batches()
    assert locations.fill_columns(batch).column("url").to_pylist() == [None] * 3
    assert locations.fill_columns(table.select(["path"])) == table.select(["path"])


def test_a_location_without_further_branches_is_noted_as_ever(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rows.write(lake, "space", [rows.row("token", "a.py")])
    table = lake.index("space", rows.DIMENSIONS)
    write_location(table, "app", SourceLocation("main", f"{PAGES}main/"))
    assert table.read_notes()["location/app"] == f'["main", "{PAGES}main/"]'
    further = SourceLocation("main", f"{PAGES}main/", ("next", "old"))
    write_location(table, "app", further)
    assert read_locations(table).find("app") == further
    assert further.build_url("a b.py", "release/1") == f"{PAGES}release/1/a%20b.py"
