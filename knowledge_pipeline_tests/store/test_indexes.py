"""Every kind of index on a real table: rows inside and beyond it are found, with filters too."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from knowledge_pipeline.config.store import VectorIndexSettings
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.store import fragments as held_columns
from knowledge_pipeline.store import indexes, segments
from knowledge_pipeline.store import search as readers
from knowledge_pipeline.store.filters import UNEMBEDDED, Filter, eq, one_of
from knowledge_pipeline.store.fragments import StaleRows
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import IndexReader, ScoredRow, open_index
from knowledge_pipeline.store.tables import Table

DIMENSIONS = 32
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def empty_value(type_: pa.DataType) -> Any:
    if pa.types.is_list(type_):
        return []
    if pa.types.is_timestamp(type_):
        return NOW
    if pa.types.is_boolean(type_):
        return False
    return 0 if pa.types.is_integer(type_) or pa.types.is_floating(type_) else ""


def write(table: Table, vectors: np.ndarray, first: int) -> None:
    """Rows that are told apart by one word and one vector each; every tenth belongs to `b`."""
    rows = []
    for number, vector in enumerate(vectors, start=first):
        row = {field.name: empty_value(field.type) for field in table.schema}
        row |= {
            "id": f"i{number}",
            "text_key": f"k{number}",
            "words": f"word{number}x common",
            "vector": vector,
        }
        rows.append(row | {"source": "b" if number % 10 == 0 else "a"})
    table.upsert([pa.RecordBatch.from_pylist(rows, schema=table.schema)])


async def misses(lake: Lake, vectors: np.ndarray, where: Filter, numbers: list[int]) -> tuple[int, int]:
    """Of the asked rows: how many a vector search, and a word search, for themselves do not find."""
    table = lake.index("space", DIMENSIONS)
    reader = await open_index(lake.root, "space", table.version)
    by_vector = by_word = 0
    for number in numbers:
        near = await reader.search_vector(vectors[number], where, limit=5)
        by_vector += f"i{number}" not in await ids_of(reader, near)
        found = await reader.search_text(f"word{number}x", where, limit=5)
        by_word += f"i{number}" not in await ids_of(reader, found)
    return by_vector, by_word


async def ids_of(reader: IndexReader, found: list[ScoredRow]) -> set[str]:
    return {row["id"] for row in (await reader.take_rows([each.row_id for each in found], ["id"])).values()}


@pytest.mark.slow
def test_rows_inside_and_beyond_every_index_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "SCALAR_INDEX_MIN_ROWS", 100)
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 1000)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(7).normal(size=(1600, DIMENSIONS)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    write(table, vectors[:1500], 0)
    indexes.maintain_indexes(table)
    kinds = {index.index_type for index in table.open_newest().describe_indices()}
    assert {"Inverted", "Bitmap", "BTree"} < kinds
    assert any("Hnsw" in kind or "HNSW" in kind for kind in kinds)
    write(table, vectors[1500:], 1500)
    assert indexes.count_unindexed_rows(table) == 100
    everything, only_b = Filter("true"), eq("source", "b")
    assert asyncio.run(misses(lake, vectors, everything, list(range(0, 1600, 7)))) == (0, 0)
    assert asyncio.run(misses(lake, vectors, only_b, list(range(0, 1600, 70)))) == (0, 0)
    assert asyncio.run(misses(lake, vectors, only_b, [1, 2, 3]))[0] == 3, "the filter holds"


@pytest.mark.parametrize(
    "where",
    [
        eq("source", "a") & one_of("uri", ["u7", "u301"]),
        eq("source", "a") & one_of("uri", ["u7", "u301"]) & one_of("id", ["i7", "i301", "i8"]),
        one_of("id", ["i7", "i301"]),
        eq("source", "a") & UNEMBEDDED,
    ],
)
def test_what_an_edit_asks_of_a_large_table_is_answered_by_its_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Filter
) -> None:
    for module in (indexes, held_columns):
        monkeypatch.setattr(module, "MAX_TABLE_ROWS", 200)
    monkeypatch.setattr(indexes, "SCALAR_INDEX_MIN_ROWS", 100)
    table = Lake(tmp_path).index("space", DIMENSIONS)
    rows = [
        {field.name: empty_value(field.type) for field in table.schema}
        | {"id": f"i{number}", "uri": f"u{number}", "source": "a", "vector": [1.0] * DIMENSIONS}
        | {"unembedded": True if number in (7, 301) else None}
        for number in range(400)
    ]
    table.append([pa.RecordBatch.from_pylist(rows[:300], schema=table.schema)])
    indexes.maintain_indexes(table)
    plan: str = table.open_version().scanner([], where.sql).explain_plan()
    assert "ScalarIndexQuery" in plan and "refine_filter=--" in plan, plan
    table.append([pa.RecordBatch.from_pylist(rows[300:], schema=table.schema)])  # beyond the indexes
    assert table.read_rows(["id"], where)["id"].to_pylist() == ["i7", "i301"]
    table.replace_rows([StaleRows("id", ["i7", "i301"], where)])
    assert table.count_rows(where) == 0 and table.count_rows() == 398


def test_a_large_graph_of_vectors_is_built_in_parts_that_are_all_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 1000)
    monkeypatch.setattr(indexes, "HNSW_PARTITION_ROWS", 200)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(10).normal(size=(1300, DIMENSIONS)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    write(table, vectors[:1200], 0)
    indexes.maintain_indexes(table)
    assert table.open_newest().stats.index_stats("vector_idx")["indices"][0]["num_partitions"] == 6
    write(table, vectors[1200:], 1200)
    monkeypatch.setattr(indexes, "MAX_UNINDEXED_ROWS", 50)
    indexes.maintain_indexes(table)
    assert table.open_newest().stats.index_stats("vector_idx")["num_unindexed_rows"] == 0
    everything, only_b = Filter("true"), eq("source", "b")
    assert asyncio.run(misses(lake, vectors, everything, list(range(0, 1300, 7)))) == (0, 0)
    assert asyncio.run(misses(lake, vectors, only_b, list(range(0, 1300, 70)))) == (0, 0)


def test_prewarmed_indexes_lie_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 1000)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    write(table, np.random.default_rng(9).normal(size=(1200, DIMENSIONS)).astype("f4"), 0)
    indexes.maintain_indexes(table)

    async def held() -> tuple[int, int, int]:
        reader = await open_index(lake.root, "space", table.version)
        session = reader.dataset.session()
        before = session.index_cache_size_bytes()
        await reader.prewarm()
        once = session.index_cache_size_bytes()
        await reader.prewarm()
        return before, once, session.index_cache_size_bytes()

    before, once, twice = asyncio.run(held())
    assert once > before + 1200 * DIMENSIONS, "a byte at least for each number of a vector"
    assert twice == once


@pytest.mark.parametrize(
    ("few_rows", "is_local", "has_words"), [(2000, True, True), (1000, True, False), (1000, False, True)]
)
def test_words_are_loaded_where_they_are_few_or_cost_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_rows: int, is_local: bool, has_words: bool
) -> None:
    monkeypatch.setattr(readers, "_FEW_ROWS", few_rows)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    write(table, np.random.default_rng(9).normal(size=(1200, DIMENSIONS)).astype("f4"), 0)
    indexes.maintain_indexes(table)

    async def load_words_after_prewarming() -> int:
        reader = replace(await open_index(lake.root, "space", table.version), is_local=is_local)
        await reader.prewarm()
        session = reader.dataset.session()
        before = session.index_cache_size_bytes()
        reader.dataset.prewarm_index("words_idx")
        return session.index_cache_size_bytes() - before

    assert (asyncio.run(load_words_after_prewarming()) == 0) is has_words


def test_a_long_unindexed_tail_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MAX_UNINDEXED_ROWS", 50)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.eye(DIMENSIONS, dtype="f4")[np.arange(400) % DIMENSIONS]
    write(table, vectors[:300], 0)
    indexes.maintain_indexes(table)
    write(table, vectors[300:], 300)
    assert indexes.count_unindexed_rows(table) == 100
    indexes.maintain_indexes(table)
    assert indexes.count_unindexed_rows(table) == 0


def test_a_similarity_is_the_cosine_whether_a_vector_is_indexed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 1000)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(8).normal(size=(1200, DIMENSIONS)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    write(table, vectors[:1100], 0)
    indexes.maintain_indexes(table)
    assert any("HNSW" in index.index_type.upper() for index in table.open_newest().describe_indices())
    write(table, vectors[1100:], 1100)

    async def read() -> list[tuple[float, float]]:
        reader = await open_index(lake.root, "space", table.version)
        pairs = []
        for asked in (vectors[3], vectors[1150]):
            near = await reader.search_vector(asked, Filter("true"), limit=40)
            exact = await reader.take_vectors([each.row_id for each in near])
            pairs += [(each.score, float(asked @ exact[each.row_id])) for each in near]
        return pairs

    told, exact = zip(*asyncio.run(read()), strict=True)
    np.testing.assert_allclose(told, exact, atol=1e-5)
    assert max(told) > 0.999


def segments_of(table: Table, column: str) -> list[str]:
    """The segments of a column's index, the oldest first."""
    (index,) = (each for each in table.open_newest().describe_indices() if each.field_names == [column])
    return [str(segment.uuid) for segment in index.segments]


@pytest.mark.slow
def test_tails_become_segments_that_are_taken_in_by_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "MAX_UNINDEXED_ROWS", 10)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.eye(DIMENSIONS, dtype="f4")[np.arange(400) % DIMENSIONS]
    counted = []
    for start in range(0, 400, 20):
        write(table, vectors[start : start + 20], start)
        indexes.maintain_indexes(table)
        assert indexes.count_unindexed_rows(table) == 0
        counted.append(len(segments_of(table, "words")))
    assert 1 < max(counted) <= 4
    assert asyncio.run(misses(lake, vectors, Filter("true"), list(range(0, 400, 9))))[1] == 0


@pytest.mark.parametrize("name", ["symbols", "edges"])
def test_a_graph_table_has_every_index_that_its_questions_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(indexes, "GRAPH_INDEX_MIN_ROWS", 20)
    table = Lake(tmp_path).graph_table(name)
    row = {field.name: empty_value(field.type) for field in table.schema}
    rows = [{**row, table.key: f"id-{number}"} for number in range(30)]
    table.append(pa.Table.from_pylist(rows, schema=table.schema).to_batches())
    assert indexes.needs_maintenance(table)
    indexes.maintain_indexes(table)
    assert {"principals", "tenant", "path"} <= table.indexes.keys()
    assert not indexes.needs_maintenance(table)
    indexes.rebuild_indexes(table)
    assert not indexes.needs_maintenance(table)
    assert table.count_rows() == 30


@pytest.mark.parametrize(
    ("sizes", "tail", "most_rows", "count"),
    [
        ([], 10, None, 0),
        ([1000, 40, 10], 10, None, 2),
        ([1000, 41, 10], 10, None, 2),
        ([1000, 41], 10, None, 0),
        ([200, 40], 10, None, 2),
        ([200, 40], 10, 100, 1),
    ],
)
def test_segments_are_taken_in_while_the_newer_rows_are_a_fair_part_of_them(
    sizes: list[int], tail: int, most_rows: int | None, count: int
) -> None:
    assert segments.count_merged_segments(sizes, tail, max_rows=most_rows) == count


@pytest.mark.slow
def test_edits_beside_a_large_graph_of_vectors_leave_it_as_it_is_until_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "MAX_UNINDEXED_ROWS", 30)
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 1000)
    monkeypatch.setattr(segments, "EXPENSIVE_GRAPH_ROWS", 500)
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(9).normal(size=(1800, DIMENSIONS)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    write(table, vectors[:1200], 0)
    indexes.maintain_indexes(table)
    large = segments_of(table, "vector")
    for start in range(1200, 1800, 20):  # as a refresh does: changed rows, removed rows, tidying, indexes
        write(table, vectors[start : start + 20], start)
        write(table, vectors[start - 600 : start - 580], start - 600)
        table.delete_where(one_of("id", [f"i{number}" for number in range(start - 1200, start - 1190)]))
        table.compact_if_due()
        indexes.maintain_indexes(table)
        assert segments_of(table, "vector")[:1] == large
    fragments = len(table.open_newest().get_fragments())
    assert fragments < 25, "small ones are merged all the same"
    kept = [number for number in range(1800) if number >= 600 or number % 20 >= 10]
    assert table.count_rows() == len(kept)
    assert asyncio.run(misses(lake, vectors, Filter("true"), kept[::37])) == (0, 0)
    monkeypatch.setattr(segments, "MAX_GRAPH_SEGMENTS", 1)
    assert indexes.needs_maintenance(table)
    indexes.merge_segments(table)
    assert len(segments_of(table, "vector")) == 1
    assert not indexes.needs_maintenance(table)
    assert asyncio.run(misses(lake, vectors, Filter("true"), kept[::37])) == (0, 0)


def test_a_copy_that_was_put_back_and_written_to_is_read_as_it_is(tmp_path: Path) -> None:
    table = Lake(tmp_path).index("space", DIMENSIONS)
    vectors = np.eye(DIMENSIONS, dtype="f4")
    write(table, vectors[:3], 0)
    kept = tmp_path / "kept"
    shutil.copytree(table.path, kept)
    for first in (3, 10):
        write(table, vectors[:3], first)
        found = {f"i{number}" for number in (0, 1, 2, first, first + 1, first + 2)}
        assert set(table.read_rows(["id"])["id"].to_pylist()) == found
        shutil.rmtree(table.path)
        shutil.copytree(kept, table.path)


@pytest.mark.parametrize(
    ("keys", "kind", "figures"),
    [
        ({"partitions": 3, "m": 8}, "IVF_HNSW_SQ", {"num_partitions": 3}),
        ({"type": "ivf_flat", "partitions": 7}, "IVF_FLAT", {"num_partitions": 7}),
        (
            {"type": "ivf_pq", "partitions": 2, "sub_vectors": 4, "bits": 8},
            "IVF_PQ",
            {"num_partitions": 2, "num_sub_vectors": 4, "nbits": 8},
        ),
    ],
)
def test_settings_decide_how_the_index_of_vectors_is_built(
    tmp_path: Path, keys: dict[str, object], kind: str, figures: dict[str, int]
) -> None:
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(10).normal(size=(1300, DIMENSIONS)).astype("f4")
    write(table, vectors, 0)
    indexes.maintain_indexes(table)
    assert "vector" not in table.indexes, "too few rows, where nothing is said"
    options = VectorIndexSettings.model_validate({"min_rows": 500, **keys}).describe()
    indexes.choose_vector_options(table, options)
    indexes.maintain_indexes(table)
    built = {index.name: index.index_type for index in table.open_newest().describe_indices()}
    (index,) = table.open_newest().stats.index_stats("vector_idx")["indices"]
    described = index | index["sub_index"]
    assert built["vector_idx"] == kind and {name: described[name] for name in figures} == figures
    assert asyncio.run(misses(lake, vectors, Filter("true"), list(range(0, 1300, 70)))) == (0, 0)
    version = table.version
    indexes.choose_vector_options(table, options)
    indexes.maintain_indexes(table)
    assert table.version == version, "the same settings again change nothing"
    indexes.choose_vector_options(table, None)
    assert "vector" not in table.indexes and indexes.has_vector_options(table, None)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"sub_vectors": 4}, "sub_vectors does not apply to type 'hnsw_sq', only to those with pq"),
        ({"type": "ivf_pq", "m": 8}, "m does not apply to type 'ivf_pq', only to those with hnsw"),
        ({"type": "ivf_pq", "bits": 5}, "multiple of 4"),
        ({"type": "ivf_pq", "bits": 4, "sub_vectors": 5}, "bits 4 need an even number of sub_vectors"),
        ({"min_rows": 10}, "greater than or equal to 256"),
    ],
)
def test_an_index_of_vectors_that_cannot_be_built_is_refused(keys: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        VectorIndexSettings.model_validate(keys)


def test_parts_of_a_vector_have_to_divide_it() -> None:
    with pytest.raises(
        ConfigError, match=r"sub_vectors \(5\) must divide the 32 .* one of 1, 2, 4, 8, 16, 32,"
    ):
        VectorIndexSettings.model_validate({"type": "ivf_pq", "sub_vectors": 5}).require_divisor(32)
    with pytest.raises(ConfigError, match=r"sub_vectors \(10\) must divide the 12 .* one of 2, 4, 6, 12,"):
        VectorIndexSettings.model_validate({"type": "ivf_pq", "bits": 4, "sub_vectors": 10}).require_divisor(
            12
        )
    VectorIndexSettings.model_validate({"type": "ivf_pq", "sub_vectors": 4}).require_divisor(32)
    assert VectorIndexSettings().describe() is None


async def find_nearest(lake: Lake, vector: np.ndarray, limit: int) -> set[str]:
    """By the index: an open version reads the vectors themselves for its later questions."""
    reader = await open_index(lake.root, "space", lake.index("space", DIMENSIONS).version)
    return await ids_of(reader, list(await reader.search_vector(vector, Filter("true"), limit=limit)))


def test_settings_decide_how_far_questions_look_in_the_index(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(10).normal(size=(1300, DIMENSIONS)).astype("f4")
    write(table, vectors, 0)
    similarity = vectors @ vectors[0] / np.linalg.norm(vectors, axis=1)
    nearest = {f"i{number}" for number in np.argsort(-similarity)[:40]}

    def count_nearest(**keys: object) -> tuple[int, str]:
        """Of the 40 nearest rows, those that are found, and the index that was built."""
        options = VectorIndexSettings.model_validate({"min_rows": 500, **keys}).describe()
        indexes.choose_vector_options(table, options)
        indexes.maintain_indexes(table)
        built = table.open_newest().describe_indices()
        (uuid,) = [segment.uuid for index in built for segment in index.segments if "vector" in index.name]
        return len(nearest & asyncio.run(find_nearest(lake, vectors[0], 40))), uuid

    parts: dict[str, object] = {"type": "ivf_flat", "partitions": 8}
    few, of_one = count_nearest(**parts, nprobes=1)
    all_found, of_all = count_nearest(**parts, nprobes=8)
    assert few < 30 < all_found == 40 and of_one == of_all
    codes: dict[str, object] = {"type": "ivf_pq", "partitions": 1, "sub_vectors": 4, "bits": 4}
    coded, of_codes = count_nearest(**codes)
    refined, of_refined = count_nearest(**codes, refine_factor=30)
    assert coded < 30 < refined and of_codes == of_refined != of_all
    refined, _ = count_nearest(type="hnsw_sq", refine_factor=10)
    assert refined == 40


def test_more_results_than_the_index_looks_at_are_found(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    table = lake.index("space", DIMENSIONS)
    vectors = np.random.default_rng(10).normal(size=(600, DIMENSIONS)).astype("f4")
    write(table, vectors, 0)
    indexes.choose_vector_options(table, VectorIndexSettings(min_rows=500).describe())
    indexes.maintain_indexes(table)
    assert len(asyncio.run(find_nearest(lake, vectors[0], 300))) == 300
