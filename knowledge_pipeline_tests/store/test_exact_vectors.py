"""Vectors in memory: the nearest rows that match, as numpy finds them; read when that pays, once."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.store import vectors as exact_vectors
from knowledge_pipeline.store.filters import MATCH_ALL, MATCH_NONE, eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.matching_rows import ColumnValues
from knowledge_pipeline.store.search import IndexReader, open_index
from knowledge_pipeline.store.vectors import ExactVectors, VectorMemory
from knowledge_pipeline_tests.query.search import rows
from knowledge_pipeline_tests.thoroughness import examples

DIMENSIONS = 4
values = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 3.0])
vectors = st.one_of(st.none(), st.lists(values, min_size=DIMENSIONS, max_size=DIMENSIONS))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def write(lake: Lake, made: Sequence[list[float] | None], *, tenant: str) -> None:
    chunks = [
        rows.row("text", f"{tenant}{at}.py", vector=each, tenant=tenant) for at, each in enumerate(made)
    ]
    rows.write(lake, "space", chunks, dimensions=DIMENSIONS)


async def open_reader(lake: Lake) -> IndexReader:
    return await open_index(lake.root, "space", lake.index("space", DIMENSIONS).version)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(vectors, min_size=1, max_size=6),
    st.lists(vectors, max_size=6),
    st.sets(st.integers(0, 5)),
    st.lists(values, min_size=DIMENSIONS, max_size=DIMENSIONS),
    st.integers(1, 5),
)
def test_the_nearest_rows_are_those_of_the_cosine(
    first: list[list[float] | None],
    second: list[list[float] | None],
    deleted: set[int],
    asked: list[float],
    limit: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        write(lake, first, tenant="a")
        if second:
            write(lake, second, tenant="b")
        table = lake.index("space", DIMENSIONS)
        table.delete_where(one_of("path", [f"a{at}.py" for at in sorted(deleted)]))
        reader = asyncio.run(open_reader(lake))
        held, question = ExactVectors.load(reader.dataset), np.array(asked, "f4")
        for where in (MATCH_ALL, MATCH_NONE, eq("tenant", "b"), eq("tenant", "b")):
            found = reader.dataset.to_table(
                columns=["vector"], filter=where.sql, with_row_id=True
            ).to_pylist()
            expected = {row["_rowid"]: cosine(row["vector"], asked) for row in found if row["vector"]}
            ids, similarities = held.search(question, where, limit=limit)
            best = sorted(expected.values(), reverse=True)[:limit]
            assert similarities.tolist() == pytest.approx(best, abs=1e-6)
            assert [expected[row] for row in ids.tolist()] == pytest.approx(best, abs=1e-6)
            every_row = [row["_rowid"] for row in found]
            taken = held.take([*every_row, 1 << 40])
            assert {row: vector.tolist() for row, vector in taken.items()} == {
                row["_rowid"]: row["vector"] for row in found if row["vector"]
            }


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(vectors, min_size=1, max_size=6),
    st.lists(vectors, max_size=4),
    st.sets(st.integers(0, 5)),
    st.sets(st.integers(0, 3)),
    st.booleans(),
)
def test_what_a_reader_holds_of_the_version_before_finds_what_reading_all_does(
    first: list[list[float] | None],
    added: list[list[float] | None],
    deleted: set[int],
    changed: set[int],
    compacted: bool,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        write(lake, first, tenant="a")
        before = asyncio.run(open_reader(lake))
        while not before.memory.loaded:
            before.memory.load_if_due()
        table = lake.index("space", DIMENSIONS)
        if added:
            write(lake, added, tenant="b")
        table.delete_where(one_of("path", [f"a{at}.py" for at in sorted(deleted)]))
        again = [
            rows.row("new", f"a{at}.py", vector=[0.5, 1.0, -1.0, 3.0], tenant="a") for at in sorted(changed)
        ]
        if again:
            rows.write(lake, "space", again, dimensions=DIMENSIONS)
        if compacted:
            table.compact()
        after = asyncio.run(open_reader(lake))
        asyncio.run(after.advance_from(before))
        held, anew, question = (
            after.memory.loaded,
            ExactVectors.load(after.dataset),
            np.ones(DIMENSIONS, "f4"),
        )
        assert held
        for where in (MATCH_ALL, MATCH_NONE, eq("tenant", "a")):
            for one, other in zip(
                *(each.search(question, where, limit=20) for each in (held, anew)), strict=True
            ):
                assert np.array_equal(one, other)
        kept, read = held.take(anew.rows.tolist()), anew.take(anew.rows.tolist())
        assert list(kept) == list(read) and np.array_equal(list(kept.values()), list(read.values()))


def test_of_a_later_version_only_what_was_added_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made = np.random.default_rng(7).standard_normal((20, DIMENSIONS)).round(3).tolist()
    write(lake, made, tenant="a")
    first = asyncio.run(open_reader(lake))
    first.memory.load_if_due(), first.memory.load_if_due()
    write(lake, made[:3], tenant="b")
    second = asyncio.run(open_reader(lake))
    read: list[int] = []
    read_vectors = exact_vectors._read_vectors

    def note(*args: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = read_vectors(*args)
        read.append(len(found[0]))
        return found

    monkeypatch.setattr(exact_vectors, "_read_vectors", note)
    asyncio.run(second.advance_from(first))
    assert read == [3]
    assert second.memory.loaded and len(second.memory.loaded.rows) == 23


def test_what_no_search_held_is_not_held_of_the_next_version(lake: Lake) -> None:
    write(lake, [[1.0, 0.0, 0.0, 0.0]] * 3, tenant="a")
    first, second = asyncio.run(open_reader(lake)), asyncio.run(open_reader(lake))
    asyncio.run(second.advance_from(first))
    assert second.memory.loaded is None


def test_vectors_that_are_read_in_batches_stay_beside_their_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = np.random.default_rng(7).standard_normal((20, DIMENSIONS)).round(3).tolist()
    write(lake, [None if at % 5 == 0 else vector for at, vector in enumerate(made)], tenant="a")
    dataset = asyncio.run(open_reader(lake)).dataset
    whole = ExactVectors.load(dataset)
    monkeypatch.setattr(exact_vectors, "_BATCH_ROWS", 3)
    parts = ExactVectors.load(dataset)
    assert len(whole.rows) == 16
    for name in ("rows", "vectors", "scales"):
        assert np.array_equal(getattr(parts, name), getattr(whole, name))


def cosine(one: list[float], other: list[float]) -> float:
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(np.dot(one, other) / lengths) if lengths else 0.0


def test_they_are_read_at_the_second_search_and_answer_as_the_index_does(lake: Lake) -> None:
    write(lake, np.random.default_rng(7).standard_normal((40, DIMENSIONS)).round(3).tolist(), tenant="a")
    reader, question = asyncio.run(open_reader(lake)), np.array([1.0, 2.0, 3.0, 4.0], "f4")
    answers = []
    for searches in range(4):
        assert bool(reader.memory.loaded) == (searches > 1)
        answers.append(asyncio.run(reader.search_vector(question, eq("tenant", "a"), limit=10)))
    by_index, exact = answers[0], answers[-1]
    assert [each.row_id for each in by_index] == [each.row_id for each in exact]
    assert [each.score for each in by_index] == pytest.approx([each.score for each in exact], abs=1e-5)


def test_a_second_look_reads_the_rows_that_match_alone_and_finds_the_same(lake: Lake) -> None:
    made = np.random.default_rng(7).standard_normal((60, DIMENSIONS)).round(3).tolist()
    write(lake, made[:40], tenant="a")
    write(lake, [None, *made[40:]], tenant="b")
    reader, question = asyncio.run(open_reader(lake)), np.array([1.0, 2.0, 3.0, 4.0], "f4")
    whole, memory, only_b = ExactVectors.load(reader.dataset), reader.memory, eq("tenant", "b")
    asyncio.run(reader.search_vector(question, MATCH_ALL, limit=10))
    found = asyncio.run(reader.search_vector(question, only_b, limit=10))
    ids, similarities = whole.search(question, only_b, limit=10)
    assert [tuple(each) for each in found] == list(zip(ids.tolist(), similarities.tolist(), strict=True))
    held = memory.find_holder(ids.tolist())
    assert memory.loaded is None and isinstance(held, ExactVectors) and len(held.rows) == 20
    assert np.array_equal(held.take_matrix(ids.tolist())[1], whole.take_matrix(ids.tolist())[1])
    assert memory.find_holder(whole.rows.tolist()) is None
    assert list(asyncio.run(reader.search_vector(question, only_b, limit=10))) == list(found)
    assert memory.loaded and memory.find_holder(whole.rows.tolist()) is memory.loaded


def test_a_table_that_is_too_large_is_never_held(lake: Lake) -> None:
    write(lake, [[1.0, 0.0, 0.0, 0.0]] * 3, tenant="a")
    dataset = asyncio.run(open_reader(lake)).dataset
    for max_bytes, is_held in ((3 * DIMENSIONS * 4 - 1, False), (3 * DIMENSIONS * 4, True)):
        memory = VectorMemory(dataset, DIMENSIONS, max_bytes=max_bytes)
        assert [bool(memory.load_if_due()) for _ in range(3)] == [False, is_held, is_held]


def test_searches_do_not_wait_for_the_one_that_reads(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    write(lake, [[1.0, 0.0, 0.0, 0.0]] * 3, tenant="a")
    dataset = asyncio.run(open_reader(lake)).dataset
    reading, may_end, read = threading.Event(), threading.Event(), ExactVectors.load

    def read_slowly(dataset: object, values: ColumnValues) -> ExactVectors:
        reading.set()
        assert may_end.wait(60)
        return read(dataset, values)

    monkeypatch.setattr(ExactVectors, "load", read_slowly)
    memory = VectorMemory(dataset, DIMENSIONS)
    assert memory.load_if_due() is None
    second = threading.Thread(target=memory.load_if_due)
    second.start()
    assert reading.wait(60)
    assert memory.load_if_due() is None
    may_end.set()
    second.join(60)
    assert memory.load_if_due() is not None
