"""Which sources were written since a kept version, against a comparison of all rows."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.filters import eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import find_changed_sources
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.thoroughness import examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), False, metadata={"lance-schema:unenforced-primary-key:position": "1"}),
        pa.field("source", pa.string(), nullable=False),
        pa.field("source_type", pa.string(), nullable=False),
        pa.field("updated_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ],
    metadata={"knowledge_schema": schemas.VERSION},
)
START = datetime(2026, 1, 1, tzinfo=UTC)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "delete", "compact", "erase"]),
        st.sampled_from("abc"),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=8,
)


def table_in(folder: str) -> Table:
    return Table(Path(folder) / "rows.lance", SCHEMA)


def written(table: Table, version: int | None, since: datetime | None) -> set[str]:
    found = find_changed_sources(table, version, since, time_column="updated_at")
    assert {source_type for source_type, _ in found} <= {"code"}
    return {source for _, source in found}


def row(source: str, number: int, at: datetime) -> dict[str, Any]:
    return {"id": f"{source}{number}", "source": source, "source_type": "code", "updated_at": at}


def put(table: Table, *rows: dict[str, Any]) -> None:
    table.upsert([pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)])


def take(table: Table, step: tuple[str, str, int], at: datetime) -> None:
    what, source, number = step
    if what == "write":
        put(table, *(row(source, each, at) for each in range(number + 1)))
    elif what == "delete":
        table.delete_where(one_of("id", [f"{source}{number}"]))
    elif what == "compact":
        table.merge_fragments()
    else:
        table.purge_deleted_rows()


def by_source(table: Table, version: int | None = None) -> dict[str, list[Any]]:
    rows = table.read_rows(["source", "id", "updated_at"], version=version).to_pylist()
    return {
        source: sorted((each["id"], each["updated_at"]) for each in rows if each["source"] == source)
        for source in {each["source"] for each in rows}
    }


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(before=STEPS, after=STEPS)
def test_they_are_those_whose_rows_are_others_than_at_the_version(before: Any, after: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = table_in(folder)
        put(table, row("a", 0, START), row("b", 0, START), row("b", 1, START))
        for step in before:
            take(table, step, START)
        version, since = table.version, START + timedelta(seconds=1)
        for number, step in enumerate(after):
            take(table, step, since + timedelta(seconds=number))
            now, then = by_source(table), by_source(table, version)
            expected = {source for source in now.keys() | then.keys() if now.get(source) != then.get(source)}
            assert written(table, version, since) == expected


def test_without_a_version_or_a_time_every_source_is(tmp_path: Path) -> None:
    table = table_in(str(tmp_path))
    assert written(table, None, None) == set()
    put(table, row("a", 0, START), row("b", 0, START))
    version = table.version
    table.delete_where(eq("source", "b"))
    assert written(table, None, None) == {"a"}
    assert written(table, version, None) == {"a", "b"}
    assert written(table, version, START + timedelta(seconds=1)) == {"b"}


def test_of_a_large_table_only_the_rows_of_an_edit_are_read(tmp_path: Path) -> None:
    table = table_in(str(tmp_path))
    for source in "abc":
        put(table, *(row(source, number, START) for number in range(100)))
    version = table.version
    put(table, row("b", 7, START + timedelta(seconds=1)))
    former, rows = table.diff_rows(["source", "id"], version)
    assert rows.to_pylist() == former.to_pylist() == [{"source": "b", "id": "b7"}]


def test_a_table_whose_creation_was_killed_is_created_again(tmp_path: Path) -> None:
    table = table_in(str(tmp_path))
    (table.path / "_versions").mkdir(parents=True)
    (table.path / "_versions" / "18446744073709551614.manifest#1").touch()  # staged, never renamed
    assert not table.exists
    assert table.count_rows() == 0
    put(table, row("a", 0, START))
    assert table.count_rows() == 1


def test_a_space_whose_creation_was_killed_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "index" / "half.lance" / "_versions").mkdir(parents=True)
    assert Lake(tmp_path).list_spaces() == {}
