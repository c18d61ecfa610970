"""What is held in memory is what Lance would read, at every version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.store import fragments as held_columns
from knowledge_pipeline.store.filters import ColumnTest, Filter, at_least, eq, is_null, one_of, starts_with
from knowledge_pipeline.store.fragments import StaleRows, read_held, read_matching
from knowledge_pipeline.store.lance_internals import ADDRESS
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.thoroughness import examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("archived", pa.bool_()),
        pa.field("updated_at", pa.timestamp("us", tz="UTC")),
        pa.field("text", pa.large_string()),
    ],
    metadata={"knowledge_schema": "5"},
)
START = datetime(2026, 1, 1, tzinfo=UTC)
PATHS = ["", "a", "a'b", "a\\b", "é😀", "%_", None]

_path = st.sampled_from(PATHS)
_written = st.sampled_from([path for path in PATHS if path is not None])
_simple = st.one_of(
    st.builds(eq, st.just("path"), _written),
    st.builds(eq, st.just("archived"), st.booleans()),
    st.builds(one_of, st.just("path"), st.lists(_written, max_size=3)),
    st.builds(starts_with, st.just("path"), _written),
    st.builds(is_null, st.sampled_from(["path", "archived", "updated_at"])),
    st.builds(at_least, st.just("updated_at"), st.integers(0, 3).map(lambda n: START + timedelta(n))),
)
_filters: st.SearchStrategy[Filter] = st.recursive(
    _simple,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda each: ~each),
    ),
    max_leaves=5,
)
_row = st.tuples(
    st.integers(0, 9).map(str),
    _path,
    st.sampled_from([True, False, None]),
    st.sampled_from([None, *(START + timedelta(n) for n in range(3))]),
)
_commit = st.lists(_row, max_size=6, unique_by=lambda row: row[0])


def write(table: Table, rows: list[tuple[Any, ...]]) -> None:
    """Replace the rows that have the ids of these."""
    given = [dict(zip(SCHEMA.names, (*row, f"text of {row}"), strict=True)) for row in rows]
    batch = pa.RecordBatch.from_pylist(given, schema=SCHEMA)
    table.replace_rows([StaleRows("id", [row[0] for row in rows])], [batch], create=True)


def as_lance_reads(dataset: Any, columns: list[str], where: Filter) -> list[dict[str, Any]]:
    return (
        dataset.scanner(
            columns=[each for each in columns if each != ADDRESS],
            filter=where.sql,
            with_row_address=ADDRESS in columns,
        )
        .to_table()
        .to_pylist()
    )


def by_id(rows: list[dict[str, Any]], *, without: set[str] | None = None) -> list[dict[str, Any]]:
    return sorted((row for row in rows if row["id"] not in (without or ())), key=lambda row: row["id"])


def count_comparisons(test: ColumnTest) -> int:
    """With lists of paths, or with one."""
    own = test.column == "path" and test.kind in ("in", "=")
    return own + sum(map(count_comparisons, test.parts))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_commit, min_size=1, max_size=4), st.lists(_filters, min_size=1, max_size=4), st.data())
def test_every_version_is_held_as_it_is_stored(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[list[tuple[Any, ...]]],
    filters: list[Filter],
    data: st.DataObject,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        large = data.draw(st.sampled_from([1, 4, held_columns.LARGE_FRAGMENT_ROWS]))
        patch.setattr(held_columns, "LARGE_FRAGMENT_ROWS", large)
        compare_all(Table(tmp_path_factory.mktemp("held") / "t.lance", SCHEMA), commits, filters, data)


def compare_all(
    table: Table, commits: list[list[tuple[Any, ...]]], filters: list[Filter], data: st.DataObject
) -> None:
    """Write, and read every version from memory and from Lance."""
    seen: list[int] = []
    for rows in commits:
        write(table, rows)
        seen.append(table.version)
        if data.draw(st.booleans()):  # else a version is read when later ones are there
            table.read_rows(["id", "path"])
        if data.draw(st.booleans()):
            table.restore_version(data.draw(st.sampled_from(seen)))
    for version in (*seen, table.version):
        dataset = table.open_version(version)
        pathless = {row["id"] for row in as_lance_reads(dataset, ["id"], is_null("path"))}
        for where in filters:
            columns = ["id", "path", "archived", "updated_at", ADDRESS]
            held, taken = read_held(dataset, columns, where), read_matching(dataset, ["id", "text"], where)
            if where.test is None:  # all rows, or none
                continue
            assert held is not None and taken is not None
            # Lance unites lists of one column, and then takes a row without a value for one with another.
            without = pathless if count_comparisons(where.test) > 1 else None
            for found, asked in ((held, columns), (taken, ["id", "text"])):
                stored = as_lance_reads(dataset, asked, where)
                assert by_id(found.to_pylist(), without=without) == by_id(stored, without=without)


def fail(*given: object) -> None:
    raise AssertionError(f"a scan of {given}")


def test_what_this_process_wrote_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA)
    monkeypatch.setattr(held_columns, "_scan", fail)
    write(table, [("1", "a", True, START), ("2", "b", None, None)])
    assert by_id(table.read_rows(["id", "path"]).to_pylist()) == [
        {"id": "1", "path": "a"},
        {"id": "2", "path": "b"},
    ]
    write(table, [("2", "c", None, None), ("3", "d", None, None)])
    assert table.read_rows(["path"], eq("id", "2")).to_pylist() == [{"path": "c"}]
    assert table.count_rows(is_null("archived")) == 2


def test_a_column_that_is_asked_for_later_is_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, scanned = Table(tmp_path / "t.lance", SCHEMA), list[set[str]]()
    write(table, [("1", "a", True, START), ("2", "b", None, None), ("3", "c", None, START)])
    table = Table(table.path, SCHEMA)  # as if another process had written them
    scan = held_columns._scan

    def record(dataset: Any, columns: Any, **options: Any) -> pa.Table:
        scanned.append(set(columns))
        return scan(dataset, columns, **options)

    monkeypatch.setattr(held_columns, "_scan", record)
    assert len(table.read_rows(["id"])) == 3
    table.replace_rows([StaleRows("id", ["2"])])  # which is a mark, and no new file
    assert table.read_rows(["id"], one_of("id", ["1", "2"])).to_pylist() == [{"id": "1"}]
    assert by_id(table.read_rows(["id", "path"]).to_pylist()) == [
        {"id": "1", "path": "a"},
        {"id": "3", "path": "c"},
    ]
    assert scanned == [{"id"}, {"path"}]


def test_what_is_held_does_not_grow_with_versions(tmp_path: Path) -> None:
    table, counts = Table(tmp_path / "t.lance", SCHEMA), list[int]()
    kinds = (held_columns.FRAGMENT_ROWS, held_columns.DELETED_ROWS, held_columns.WRITTEN_ROWS)
    for number in range(100):
        write(table, [("1", "a", None, None), ("2", str(number), None, None)])
        write(table, [("1", "b", None, None)])  # a mark beside the second row, and a file that is read
        assert len(table.read_rows(["id"])) == 2
        write(table, [("3", "c", None, None)])  # a file that nobody reads
        table.replace_rows([StaleRows("id", ["3"])])
        counts.append(sum(len(table.files.items(kind)) for kind in kinds))
    assert max(counts[50:]) <= max(counts[:50])


def test_a_large_table_is_left_to_lance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA)
    write(table, [(str(number), "a", True, START) for number in range(5)])
    monkeypatch.setattr(held_columns, "MAX_TABLE_ROWS", 4)
    assert read_held(table.open_version(), ["id"]) is None
    assert table.count_rows(eq("path", "a")) == len(table.read_rows(["id"])) == 5


def test_a_row_without_a_value_meets_no_condition_on_it_nor_its_opposite(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA)
    write(table, [("1", None, True, None), ("2", "b", True, None)])
    both = one_of("path", ["a"]) & one_of("path", ["c"])
    held = read_held(table.open_version(table.version), ["id"], ~both)
    assert held is not None and held["id"].to_pylist() == ["2"]
