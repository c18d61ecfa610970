"""Lance does what `lance_internals` takes for granted: a test for each; `test_vector_files` has the rest."""

from __future__ import annotations

import gc
import shutil
import weakref
from copy import copy
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from knowledge_pipeline.store.damage import LANCE_ERRORS
from knowledge_pipeline.store.lance_internals import (
    ADDRESS,
    OFFSET_BITS,
    RememberedVersion,
    allow_rows,
    count_rows,
    describe_version,
    list_columns,
    list_fragments,
    list_version_files,
    open_again,
    sample_addresses,
    set_indexes_aside,
    take_rows,
)
from knowledge_pipeline.store.lance_storage import name_manifest

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


def test_a_version_is_a_manifest_and_the_files_that_are_listed(dataset: Any, tmp_path: Path) -> None:
    dataset.create_scalar_index("words", "INVERTED")
    dataset.delete("id = '301'")
    dataset = lance.dataset(dataset.uri)
    copied = tmp_path / "copied.lance"
    for name in (*list_version_files(dataset), f"_versions/{name_manifest(dataset.version)}"):
        (copied / name).parent.mkdir(parents=True, exist_ok=True)
        copy_file = shutil.copytree if (tmp_path / "t.lance" / name).is_dir() else shutil.copy
        copy_file(tmp_path / "t.lance" / name, copied / name)
    shutil.rmtree(tmp_path / "t.lance")
    other = lance.dataset(str(copied))
    assert other.count_rows() == 308
    assert other.scanner(["id"], full_text_query="common").to_table().num_rows == 308
    other.delete("id = '9'")
    assert lance.dataset(str(copied)).count_rows() == 307


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


def test_a_version_is_known_by_the_transaction_that_its_manifest_names(dataset: Any) -> None:
    identities = []
    for number in (1, 2, 3):
        version = dataset.checkout_version(number)
        identities.append(RememberedVersion.of(version).identity)
        assert identities[-1].endswith(version.read_transaction(number).uuid)
    assert len(set(identities)) == 3


def test_a_version_is_opened_without_its_manifest(dataset: Any, tmp_path: Path) -> None:
    first = RememberedVersion.of(dataset.checkout_version(1))
    (tmp_path / "t.lance" / "_versions" / f"{(1 << 64) - 2:020}.manifest").unlink()
    opened = first.open(dataset)
    assert (opened.version, count_rows(opened)) == (1, 300)
    assert opened.session().is_same_as(dataset.session())


def test_a_dataset_is_read_without_some_of_its_indexes(dataset: Any) -> None:
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_index("vector", "IVF_HNSW_SQ", num_partitions=1, metric="cosine")
    for folder in (Path(dataset.uri) / "_indices").iterdir():
        for file in folder.iterdir():
            file.write_bytes(bytes(file.stat().st_size))
    damaged = open_again(dataset)
    nearest = {"column": "vector", "q": np.ones(DIMENSIONS, "f4"), "k": 3, "metric": "cosine"}
    with pytest.raises(BaseException, match="rust"):  # Rust's panic is no Exception
        damaged.to_table(["id"], filter="id = '5'")
    for sound in (
        set_indexes_aside(damaged, ["id", "vector"]),
        copy(set_indexes_aside(damaged, ["id", "vector"])),
    ):
        assert sound.to_table(["id"], filter="id = '5'")["id"].to_pylist() == ["5"]
        assert sound.count_rows("id = '5'") == 1 and sound.count_rows() == 309
        assert sound.to_table(["id"], nearest=nearest).num_rows == 3
        assert sound.describe_indices() == [] and sound.version == dataset.version
    assert type(damaged) is lance.LanceDataset
    assert [it.field_names for it in set_indexes_aside(damaged, ["id"]).describe_indices()] == [["vector"]]


def test_a_dataset_is_read_again_from_its_files(dataset: Any) -> None:
    assert dataset.to_table(["id"]).num_rows == 309
    (Path(dataset.uri) / "data" / dataset.get_fragment(1).data_files()[0].path).write_bytes(b"")
    again = open_again(dataset)
    assert (again.version, again.uri) == (dataset.version, dataset.uri)
    assert not again.session().is_same_as(dataset.session())
    with pytest.raises(LANCE_ERRORS, match="Invalid range"):
        again.to_table(["id"])


def test_a_sample_of_rows_is_from_all_of_the_table(dataset: Any) -> None:
    addresses = sample_addresses(dataset, 10)
    assert 10 <= len(addresses) <= 11 and addresses[0] == 0 and addresses[-1] >= 1 << OFFSET_BITS
    ids = take_rows(dataset, addresses, ["id"])["id"].to_pylist()
    assert "7" not in ids and len(set(ids)) == len(ids)


def test_a_dataset_ends_with_its_last_user(dataset: Any) -> None:
    version = dataset.checkout_version(2)
    assert list_fragments(version)
    ended = weakref.ref(version)
    gc.disable()
    try:
        del version
        assert ended() is None
    finally:
        gc.enable()
