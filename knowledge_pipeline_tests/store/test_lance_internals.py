"""Lance does what `lance_internals` takes for granted: a test for each; `test_vector_files` has the rest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from knowledge_pipeline.store.lance_internals import (
    ADDRESS,
    OFFSET_BITS,
    allow_rows,
    count_rows,
    describe_version,
    list_columns,
    list_fragments,
    take_rows,
)

DIMENSIONS = 8


def build_rows(first: int, last: int) -> pa.Table:
    vectors = np.random.default_rng(first).standard_normal((last - first, DIMENSIONS)).astype("f4")
    columns: dict[str, Any] = {
        "id": [str(number) for number in range(first, last)],
        "words": ["common"] * (last - first),
        "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIMENSIONS),
    }
    return pa.table(columns)


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    """Two fragments; a row of the first is deleted."""
    lance.write_dataset(build_rows(0, 300), tmp_path / "t.lance")
    dataset = lance.write_dataset(build_rows(300, 310), tmp_path / "t.lance", mode="append")
    dataset.delete("id = '7'")
    return lance.dataset(str(tmp_path / "t.lance"))


def test_the_id_of_a_row_is_its_address_and_says_its_fragment_and_its_place(dataset: Any) -> None:
    rows = dataset.to_table(columns=["id"], with_row_id=True, with_row_address=True).to_pylist()
    numbers = [number for number in range(310) if number != 7]
    places = [(0, number) if number < 300 else (1, number - 300) for number in numbers]
    assert [(row[ADDRESS] >> OFFSET_BITS, row[ADDRESS] & 0xFFFFFFFF) for row in rows] == places
    assert all(row["_rowid"] == row[ADDRESS] for row in rows)


def test_rows_are_taken_in_the_order_of_their_addresses(dataset: Any) -> None:
    addresses = [1 << OFFSET_BITS, 3, 299, 0]
    assert take_rows(dataset, addresses, ["id"])["id"].to_pylist() == ["300", "3", "299", "0"]


def test_a_search_finds_rows_of_its_mask_alone(dataset: Any) -> None:
    dataset.create_scalar_index("words", "INVERTED")
    dataset.create_index("vector", "IVF_HNSW_SQ", num_partitions=1, metric="cosine")
    rows = [2, 5, 1 << OFFSET_BITS]
    nearest = {"column": "vector", "q": np.ones(DIMENSIONS, "f4"), "k": 10, "metric": "cosine"}
    for query in ({"nearest": nearest}, {"full_text_query": "common"}):
        scanner = dataset.scanner(["id"], prefilter=True, with_row_id=True, **allow_rows(rows), **query)
        assert sorted(scanner.to_table()["_rowid"].to_pylist()) == rows


def test_files_stay_when_rows_are_deleted_or_added_and_no_table_anew_has_them(
    dataset: Any, tmp_path: Path
) -> None:
    before = list_fragments(dataset)
    lance.write_dataset(build_rows(310, 312), dataset, mode="append")
    lance.dataset(dataset.uri).delete("id = '8'")
    after = list_fragments(lance.dataset(dataset.uri))
    assert list(after)[:2] == list(before) and len(after) == 3
    marks = [(before[files].deletion_file, after[files].deletion_file) for files in before]
    assert marks[0][0] is not None and marks[0][0] != marks[0][1] and marks[1] == (None, None)
    shutil.rmtree(tmp_path / "t.lance")
    assert before.keys().isdisjoint(list_fragments(lance.write_dataset(build_rows(0, 300), dataset.uri)))


def test_a_dataset_carries_what_is_known_of_its_version_and_no_other_has_it(dataset: Any) -> None:
    assert describe_version(dataset) is describe_version(dataset)
    assert (count_rows(dataset), list_columns(dataset)) == (309, {"id", "words", "vector"})
    earlier = dataset.checkout_version(1)
    assert describe_version(earlier) is not describe_version(dataset) and count_rows(earlier) == 300
