"""Rows of a table are replaced in one commit, whichever fragments they are in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store import fragments, segments
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.fragments import StaleRows
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.thoroughness import examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), False, metadata={"lance-schema:unenforced-primary-key:position": "1"}),
        pa.field("group", pa.string(), False),
        pa.field("vector", pa.list_(pa.float32(), 2)),
        pa.field("words", pa.string()),
    ],
    metadata={"knowledge_schema": "5"},
)


def batch(*rows: tuple[str, str], vector: list[float] | None = None) -> pa.RecordBatch:
    values = [{"id": id_, "group": group, "vector": vector, "words": f"word {id_}"} for id_, group in rows]
    return pa.RecordBatch.from_pylist(values, schema=SCHEMA)


def ids(table: Table) -> list[str]:
    return sorted(table.read_rows(["id"])["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "t.lance", SCHEMA)


def test_rows_of_several_fragments_are_replaced_in_one_commit(table: Table) -> None:
    for number in range(3):
        table.append([batch((f"a{number}", "a"), (f"b{number}", "b"))])
    before = table.version
    table.replace_rows([StaleRows("id", ["a0", "b0", "a1", "missing"])], [batch(("new", "a"))])
    assert ids(table) == ["a2", "b1", "b2", "new"]
    assert table.version == before + 1


def test_a_condition_keeps_the_rows_that_it_does_not_name(table: Table) -> None:
    table.append([batch(("a", "one"), ("b", "two"))])
    table.replace_rows([StaleRows("id", ["a", "b"], eq("group", "two"))])
    assert ids(table) == ["a"]


def test_nothing_to_remove_or_to_add_makes_no_version(table: Table) -> None:
    table.replace_rows([StaleRows("id", ["a"])])
    assert not table.exists
    table.append([batch(("a", "one"))])
    before = table.version
    table.replace_rows([StaleRows("id", ["missing"]), StaleRows("group", [])])
    assert table.version == before


def test_a_writer_that_read_an_older_version_commits_nothing(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append([batch(("a", "one"))])
    stage = fragments._write_rows

    def write_beside_another(*given: object) -> list[object]:
        Table(table.path, SCHEMA).append([batch(("other", "one"))])
        return stage(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(fragments, "_write_rows", write_beside_another)
    with pytest.raises(Busy, match=r"another process wrote the table t\.lance"):
        table.replace_rows([], [batch(("new", "one"))])
    assert ids(table) == ["a", "other"]


@settings(max_examples=examples(25), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sets(st.integers(0, 12), max_size=8), st.sets(st.integers(0, 12), max_size=8)),
        max_size=6,
    ),
    max_values=st.sampled_from([2, 1000]),
)
def test_after_any_replacements_the_rows_are_those_of_a_dictionary(
    steps: list[tuple[set[int], set[int]]], max_values: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table, expected = Table(tmp_path_factory.mktemp("rows") / "t.lance", SCHEMA), set[str]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fragments, "MAX_FILTER_VALUES", max_values)
        for removed, added in steps:
            stale, new = {f"k{number}" for number in removed | added}, {f"k{number}" for number in added}
            table.replace_rows([StaleRows("id", stale)], [batch(*((key, "g") for key in sorted(new)))])
            expected = expected - stale | new
            assert ids(table) == sorted(expected)


@pytest.mark.parametrize("is_beside_graph", [False, True])
def test_vectors_that_follow_leave_the_rows_where_the_index_of_words_has_them(
    table: Table, is_beside_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = [0] if is_beside_graph else [7]
    monkeypatch.setattr(segments, "expensive_fragments", lambda dataset: graph)
    table.append([batch(*((f"k{number}", "g") for number in range(40)))])
    table.open_newest().create_scalar_index("words", "INVERTED")
    columns = ["id", "vector"]
    vectors = batch(*((f"k{number}", "g") for number in range(0, 40, 2)), vector=[0.0, 1.0])
    table.update_columns(pa.Table.from_batches([vectors]).select(columns))
    moved = 20 if is_beside_graph else 0
    assert table.open_newest().stats.index_stats(table.indexes["words"])["num_unindexed_rows"] == moved
    assert sum(each is not None for each in table.read_rows(["vector"])["vector"].to_pylist()) == 20
    assert len(table.open_newest().get_fragments()) == (2 if is_beside_graph else 1)
