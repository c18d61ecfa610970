"""Rows of the code graph by their keys: in memory as by the store, for every caller, from many threads."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.store import lance_storage
from knowledge_pipeline.store.filters import MATCH_ALL, MATCH_NONE, Filter, eq
from knowledge_pipeline.store.graph import KeyedTable, RowLookup
from knowledge_pipeline.store.schemas import EDGES
from knowledge_pipeline.store.search import Row
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.query.search.rows import MOMENT
from knowledge_pipeline_tests.thoroughness import examples

KEYS, NUMBERS = ("path", "target_id", "target_name"), ("line", "confidence")
NAMES, KINDS, SOURCES = ("a", "b", "c'd"), ("calls", "imports", "extends"), ("one", "two")
VISIBLE = (MATCH_ALL, eq("tenant", "acme"), eq("tenant", "bolt"), eq("tenant", "acme") | eq("source", "two"))

edges = st.fixed_dictionaries(
    {
        "source": st.sampled_from(SOURCES),
        "tenant": st.sampled_from((None, "acme", "bolt")),
        "path": st.sampled_from(NAMES),
        "kind": st.sampled_from(KINDS),
        "target_id": st.sampled_from((None, *NAMES)),
        "target_name": st.sampled_from(NAMES),
        "line": st.integers(1, 4),
        "confidence": st.sampled_from((0.25, 0.5, 1.0)),
    }
)
some = st.sets(st.sampled_from((*NAMES, "nowhere")), max_size=2)
lines = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=2)
kinds = st.sets(st.sampled_from((*KINDS, "unheard of")), max_size=2)
bounds: Any = {
    "sources": st.sets(st.sampled_from((*SOURCES, "three")), max_size=2),
    "kinds": kinds,
    "excluded_kinds": kinds,
    "unbounded_kinds": kinds,
    "min_confidence": st.sampled_from((None, 0.5)),
}
by_key = st.dictionaries(st.sampled_from(KEYS), some, min_size=1, max_size=2)
lookups = st.builds(RowLookup, by_key, **bounds) | lines.flatmap(
    lambda lines: st.builds(RowLookup, st.just({"path": lines.keys()}), lines=st.just(lines), **bounds)
)


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Any:
    """The edges in two fragments, the first of them deleted."""
    plain = {"source_type": "code", "tags": [], "visibility": "tenant", "principals": [], "uri": ""}
    plain |= {"language": "", "source_id": "", "source_name": "", "indexed_at": MOMENT}
    made = [{**plain, "id": str(at), **row} for at, row in enumerate(rows)]
    lance_storage.create_dataset(path, EDGES)
    for part in (made[::2], made[1::2]):
        Table(path, EDGES).append([pa.RecordBatch.from_pylist(part, schema=EDGES)])
    dataset = lance_storage.open_dataset(path)
    dataset.delete("id = '0'")
    return dataset


COLUMNS = ("id", "path", "kind", "line", "target_id", "target_name")


def list_rows(table: KeyedTable, lookup: RowLookup, visible: Filter) -> list[Row]:
    """The rows that a lookup means: from the store come some of other lines."""

    def is_meant(row: Row) -> bool:
        first, last = lookup.lines.get(row["path"], (0, 9))
        return first <= row["line"] <= last or row["kind"] in lookup.unbounded_kinds

    return list(filter(is_meant, table.read(lookup, visible, limit=99, columns=COLUMNS)))


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(edges, max_size=12), st.lists(lookups, min_size=1, max_size=3))
def test_what_memory_finds_is_what_the_store_finds(
    rows: list[dict[str, Any]], asked: list[RowLookup]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = write(Path(folder) / "edges.lance", rows)
        stored = KeyedTable(dataset, KEYS, NUMBERS, max_rows=-1)
        keyed, whole = KeyedTable(dataset, KEYS, NUMBERS), KeyedTable(dataset, KEYS, NUMBERS, whole=COLUMNS)
        for table in (keyed, whole) * 4:  # from then on it is in memory
            table.read(RowLookup({"path": ["a"]}), MATCH_ALL, limit=1, columns=["id"])
        for lookup in asked:
            for visible in VISIBLE:
                expected = list_rows(stored, lookup, visible)
                assert list_rows(keyed, lookup, visible) == list_rows(whole, lookup, visible) == expected
                assert not any(lookup.keys.values()) or whole.reads_nothing(visible, COLUMNS)
                assert not keyed.reads_nothing(visible, COLUMNS)
            assert keyed.read(lookup, MATCH_NONE, limit=99, columns=COLUMNS) == []


@pytest.fixture
def table(tmp_path: Path) -> KeyedTable:
    tenants = ("acme", "bolt", None)
    rows = [
        {**dict.fromkeys(("path", "target_id", "target_name"), NAMES[at % 2]), "kind": "calls"}
        | {"source": "one", "tenant": tenants[at % 3], "line": 1, "confidence": 1.0}
        for at in range(60)
    ]
    return KeyedTable(write(tmp_path / "edges.lance", rows), KEYS, NUMBERS)


def test_threads_of_different_callers_each_see_their_own_rows(table: KeyedTable) -> None:
    wrong: list[str] = []

    def ask(tenant: str) -> None:
        for _ in range(25):
            read = table.read(
                RowLookup({"path": ["a"]}), eq("tenant", tenant), limit=99, columns=["tenant", "path"]
            )
            expected = 9 if tenant == "acme" else 10  # the first row is deleted
            if len(read) != expected or {(row["tenant"], row["path"]) for row in read} != {(tenant, "a")}:
                wrong.append(f"{tenant}: {read}")

    threads = [threading.Thread(target=ask, args=(tenant,)) for tenant in ("acme", "bolt") * 6]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_limit_holds_in_memory_as_in_the_store(table: KeyedTable) -> None:
    read = (table.read(RowLookup({"path": ["a"]}), MATCH_ALL, limit=3, columns=["id"]) for _ in range(6))
    assert [len(rows) for rows in read] == [3] * 6
