"""Tables of the index are LanceDB's: it makes them, builds their indexes, and answers from them alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import lancedb
import numpy as np
import pytest

from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import create_dataset
from knowledge_pipeline.store.schemas import build_index_schema
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.full_disk import limited_files
from knowledge_pipeline_tests.store.test_indexes import DIMENSIONS, write

VECTORS = np.random.default_rng(11).normal(size=(1200, DIMENSIONS)).astype("f4")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """1,200 rows in a table of the index that gets all its indexes at this size; none is built yet."""
    monkeypatch.setattr(indexes, "SCALAR_INDEX_MIN_ROWS", 100)
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 1000)
    table = Lake(tmp_path).index("space", DIMENSIONS)
    write(table, VECTORS, 0)
    return table


def test_plain_lancedb_lists_the_indexes_of_a_table_and_answers_from_it(tmp_path: Path, table: Table):
    indexes.maintain_indexes(table)
    opened: Any = lancedb.connect(tmp_path / "index").open_table("space")
    kinds = {index.columns[0]: index.index_type for index in opened.list_indices()}
    assert kinds.keys() == table.indexes.keys() >= {"vector", "words", "source", "text_key", "names"}
    assert (kinds["vector"], kinds["words"], kinds["source"]) == ("IvfHnswSq", "FTS", "Bitmap")

    nearest = opened.search(VECTORS[7], vector_column_name="vector").distance_type("cosine").limit(1)
    assert [row["id"] for row in nearest.to_list()] == ["i7"]
    by_words = opened.search("word7x", query_type="fts", fts_columns="words").limit(5)
    assert [row["id"] for row in by_words.to_list()] == ["i7"]
    assert "ScalarIndexQuery" in opened.search().where("source = 'b'").explain_plan()
    assert opened.search().where("source = 'b'").limit(1000).to_arrow().num_rows == 120


def test_a_table_that_lancedb_makes_has_the_format_of_those_that_lance_makes(tmp_path: Path):
    def read_format(folder: str) -> tuple[Any, ...]:
        path, schema = tmp_path / folder / "space.lance", build_index_schema(DIMENSIONS)
        (path / "data").mkdir(parents=True)  # as a kill may leave it
        for _ in range(2):
            create_dataset(path, schema)
        dataset: Any = lance.dataset(path)
        assert dataset.version == 1
        key = dataset.schema.field("id").metadata
        versions = sorted(file.name for file in (path / "_versions").iterdir())
        return (
            dataset.schema.metadata,
            key,
            dataset.data_storage_version,
            dataset.has_stable_row_ids,
            versions,
        )

    assert read_format("index") == read_format("snapshot")


def test_indexes_have_the_parameters_that_lance_is_told(tmp_path: Path, table: Table):
    shutil.copytree(table.path, tmp_path / "other.lance")
    indexes.maintain_indexes(table)
    other: Any = lance.dataset(tmp_path / "other.lance")
    other.create_scalar_index("words", "FTS", **indexes.FTS_OPTIONS)
    graph: dict[str, Any] = {"metric": "cosine", "m": 20, "ef_construction": 150}
    other.create_index("vector", "IVF_HNSW_SQ", num_partitions=1, **graph)

    def describe(dataset: Any) -> dict[str, Any]:
        described = {index.field_names[0]: index for index in dataset.describe_indices()}
        return {
            column: (index.name, index.index_type, index.details, index.segments[0].index_version)
            for column, index in described.items()
            if column in ("words", "vector")
        }

    assert describe(table.open_newest()) == describe(other)


def test_a_full_disk_is_the_error_that_lance_raises(table: Table):
    with limited_files(2_000), pytest.raises(OSError, match="LanceError"):
        indexes.maintain_indexes(table)
    indexes.maintain_indexes(table)
    assert not indexes.lacks_index(table)
