"""The reconcile on a real Lance table, against a plain dictionary as its oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline.store.reconcile import (
    MIXED_FINGERPRINT,
    load_fingerprints,
    plan_changes,
    plan_changes_arrow,
    reconcile,
)
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.thoroughness import examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), False, metadata={"lance-schema:unenforced-primary-key:position": "1"}),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("mark", pa.string(), nullable=False),
    ],
    metadata={"knowledge_schema": schemas.VERSION},
)
STATES = st.lists(
    st.dictionaries(st.sampled_from("abcdef'\"\\%é"), st.sampled_from("123"), max_size=6),
    min_size=1,
    max_size=5,
)


class Crash(Exception):
    """Stands for a kill."""


def rows_of(desired: dict[str, str], uris: list[str], *, parts: int = 2) -> Iterator[pa.RecordBatch]:
    """`parts` rows for each uri, a batch for each uri."""
    for uri in uris:
        mark = desired[uri]
        rows = [{"id": f"{uri}{mark}{part}", "uri": uri, "mark": mark} for part in range(parts)]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def refresh(table: Table, desired: dict[str, str]) -> None:
    planned = plan_changes(desired, load_fingerprints(table, "uri", "mark"))
    reconcile(table, planned, lambda uris: rows_of(desired, uris), group_column="uri")


def content(table: Table) -> list[tuple[str, str]]:
    rows = table.read_rows(["id", "mark"])
    return sorted(zip(rows["id"].to_pylist(), rows["mark"].to_pylist(), strict=True))


def wanted(desired: dict[str, str]) -> list[tuple[str, str]]:
    return sorted((f"{uri}{mark}{part}", mark) for uri, mark in desired.items() for part in range(2))


@settings(max_examples=examples(200), deadline=None)
@given(desired=STATES, actual=STATES, full=st.booleans())
def test_the_difference_of_columns_is_that_of_dictionaries(
    desired: list[dict[str, str]], actual: list[dict[str, str]], full: bool
) -> None:
    def columns(held: dict[str, str]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        rows = pa.table({"key": pa.array(held, pa.string()), "mark": pa.array(held.values(), pa.string())})
        return rows["key"], rows["mark"]

    expected = plan_changes(desired[0], actual[0], full=full)
    assert plan_changes_arrow(columns(desired[0]), columns(actual[0]), full=full) == expected


@settings(max_examples=examples(15), deadline=None)
@given(STATES)
def test_after_any_sequence_of_states_the_table_is_the_last_one(states: list[dict[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for desired in states:
            refresh(Table(Path(folder) / "t.lance", SCHEMA), desired)
        assert content(Table(Path(folder) / "t.lance", SCHEMA)) == wanted(states[-1])


@settings(max_examples=examples(15), deadline=None)
@given(STATES, st.integers(1, 12))
def test_a_crash_before_any_write_is_healed_by_the_next_refresh(
    states: list[dict[str, str]], crash_at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writes = 0

        class Fragile(Table):
            def _commit(self, write, **how) -> None:  # type: ignore[no-untyped-def]
                nonlocal writes
                writes += 1
                if writes == crash_at:
                    raise Crash
                super()._commit(write, **how)

        for desired in states:
            try:
                refresh(Fragile(Path(folder) / "t.lance", SCHEMA), desired)
            except Crash:
                continue
        refresh(Table(Path(folder) / "t.lance", SCHEMA), states[-1])
        assert content(Table(Path(folder) / "t.lance", SCHEMA)) == wanted(states[-1])


def test_a_refresh_without_a_difference_makes_no_version(tmp_path: Path) -> None:
    desired = {"a": "1", "b": "2"}
    refresh(Table(tmp_path / "t.lance", SCHEMA), desired)
    before = Table(tmp_path / "t.lance", SCHEMA).version
    refresh(Table(tmp_path / "t.lance", SCHEMA), desired)
    assert Table(tmp_path / "t.lance", SCHEMA).version == before > 0


def test_rows_of_one_key_that_disagree_are_made_again(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA)
    halfway = [{"id": "a10", "uri": "a", "mark": "1"}, {"id": "a20", "uri": "a", "mark": "2"}]
    table.append([pa.RecordBatch.from_pylist(halfway, schema=SCHEMA)])
    assert load_fingerprints(table, "uri", "mark") == {"a": MIXED_FINGERPRINT}
    refresh(table, {"a": "2"})
    assert content(table) == wanted({"a": "2"})


def test_a_whole_reconcile_makes_one_version_for_many_batches(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA)
    first, second = {"a": "1"}, {"a": "1", "b": "1", "c": "1"}
    for desired in (first, second):
        ids = {f"{uri}{mark}{part}": mark for uri, mark in desired.items() for part in range(2)}
        planned = plan_changes(ids, load_fingerprints(table, "id", "mark"))
        before = table.version

        def make(keys: list[str]) -> Iterator[pa.RecordBatch]:
            for key in keys:
                yield pa.RecordBatch.from_pylist([{"id": key, "uri": key[0], "mark": "1"}], schema=SCHEMA)

        reconcile(table, planned, make, single_commit=True)
    assert table.version == before + 1
    assert content(table) == wanted(second)


@pytest.mark.slow
def test_versions_and_files_stay_bounded_over_many_commits(tmp_path: Path) -> None:
    for mark in range(60):
        refresh(Table(tmp_path / "t.lance", SCHEMA), {"a": str(mark), "b": "1"})
        Table(tmp_path / "t.lance", SCHEMA).compact_if_due()
    table = Table(tmp_path / "t.lance", SCHEMA)
    assert len(table.open_newest().versions()) <= 20
    assert sum(1 for path in tmp_path.rglob("*") if path.is_file()) < 120
    assert content(table) == wanted({"a": "59", "b": "1"})


def test_versions_that_releases_keep_are_no_reason_to_compact_after_each_commit(tmp_path: Path) -> None:
    """Each release tags a version and ends the tag of an old one, which is dropped with the next few."""
    table, compactions = Table(tmp_path / "t.lance", SCHEMA), 0
    for mark in range(40):
        refresh(table, {"a": str(mark), "b": "1"})
        table.open_newest().tags.create(f"release-{mark}", table.version)
        if mark >= 10:
            table.open_newest().tags.delete(f"release-{mark - 10}")
        before = table.version
        table.compact_if_due()
        compactions += table.version > before
    assert 2 <= compactions <= 8
    assert len(table.open_newest().versions()) <= 2 * (10 + 12)
    assert content(table) == wanted({"a": "39", "b": "1"})


def count_fragment_rows(table: Table) -> list[int]:
    return [fragment.count_rows() for fragment in table.open_newest().get_fragments()]


def test_a_compaction_merges_new_fragments_and_writes_a_large_one_again_when_they_are_many(
    tmp_path: Path,
) -> None:
    def append(count: int, name: str) -> None:
        ids = [f"{name}{number}" for number in range(count)]
        columns = {"id": ids, "uri": ids, "mark": ids}
        table.append(pa.Table.from_pydict(columns, schema=SCHEMA).to_batches())

    table = Table(tmp_path / "t.lance", SCHEMA)
    append(4_000, "large")
    for number in range(3):
        append(100, f"new{number}-")
    table.compact()
    assert count_fragment_rows(table) == [4_000, 300]
    append(800, "more")
    table.compact()
    assert count_fragment_rows(table) == [5_100]
    append(10, "last")
    table.delete_where(one_of("id", (f"large{number}" for number in range(600))))
    table.compact()
    assert count_fragment_rows(table) == [4_510]


def test_a_store_that_lacks_a_nullable_column_gets_it(tmp_path: Path) -> None:
    Table(tmp_path / "t.lance", SCHEMA).append(rows_of({"a": "1"}, ["a"]))
    wider = pa.schema([*SCHEMA, pa.field("more", pa.string())], metadata=SCHEMA.metadata)
    table = Table(tmp_path / "t.lance", wider)
    before = Table(tmp_path / "t.lance", SCHEMA).version
    assert table.read_rows(["more"]).to_pylist() == [{"more": None}] * 2
    assert table.version == before + 1


def test_a_store_of_another_schema_is_refused_in_one_sentence(tmp_path: Path) -> None:
    Table(tmp_path / "t.lance", SCHEMA).append(rows_of({"a": "1"}, ["a"]))
    other = pa.schema(
        [*SCHEMA, pa.field("more", pa.string(), nullable=False)],
        metadata={"knowledge_schema": schemas.VERSION},
    )
    with pytest.raises(Exception, match=r"schema version \d+.*index into a new store folder"):
        Table(tmp_path / "t.lance", other).read_rows(["id"])
