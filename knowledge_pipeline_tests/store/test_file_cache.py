"""What is held of a store is found again by its kind, its table and its file, within one bound in bytes."""

from __future__ import annotations

import pickle
from pathlib import Path

from knowledge_pipeline.config.store import ObjectStore, StoreOptions
from knowledge_pipeline.store.file_cache import FileCache, Kind
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_internals import describe_version

TEXTS = Kind[str](len)
OTHER_TEXTS = Kind[str](len)
NEWEST = Kind[tuple[int, str]](lambda stamped: len(stamped[1]))


def test_a_value_is_found_by_all_that_it_was_held_by() -> None:
    cache = FileCache()
    cache.put(TEXTS, "table", "file", "text")
    assert cache.get(TEXTS, "table", "file") == "text"
    assert cache.get(OTHER_TEXTS, "table", "file") is None
    assert cache.get(TEXTS, "other table", "file") is None
    assert cache.get(TEXTS, "table", "other file") is None
    assert cache.items(TEXTS) == [("table", "file", "text")] and cache.items(OTHER_TEXTS) == []
    assert cache.take(TEXTS, "table", "file") == "text"
    assert cache.take(TEXTS, "table", "file") is None


def test_what_was_asked_for_longest_ago_goes_first_whatever_its_kind() -> None:
    cache = FileCache(max_bytes=10_000)
    for name in "abc":
        cache.put(TEXTS, "table", name, name * 2_000)
    assert cache.get(TEXTS, "table", "a")
    cache.put(OTHER_TEXTS, "table", "d", "d" * 6_500)
    assert [key for _, key, _ in cache.items(TEXTS)] == ["a"]
    cache.put(TEXTS, "table", "e", "e" * 10_000)  # which there is no room for
    assert cache.get(TEXTS, "table", "e") is None and cache.get(OTHER_TEXTS, "table", "d")


def test_the_newest_version_is_read_once_for_each_stamp() -> None:
    cache, reads = FileCache(), list[int]()

    def read() -> str:
        reads.append(len(reads))
        return str(reads[-1])

    stamps = [1, 1, 2, 2, 1]  # a backup has brought the first back
    assert [cache.load(NEWEST, "table", None, stamp, read) for stamp in stamps] == ["0", "0", "1", "1", "2"]


def test_all_lakes_of_a_store_share_one_cache_and_no_other_store_has_it(tmp_path: Path) -> None:
    files = Lake(tmp_path).files
    assert Lake(tmp_path).files is files and Lake(tmp_path).releases().files is files
    assert Lake(tmp_path / "other").files is not files
    url, options = "s3://bucket/store", StoreOptions.defaults()
    remote = Lake(ObjectStore(url=url, options=options)).files
    assert Lake(ObjectStore(url=url, options=options)).files is remote is not files
    other = StoreOptions.model_validate({"endpoint_url": "https://other.example"})
    assert Lake(ObjectStore(url=url, options=other)).files is not remote


def test_datasets_carry_the_cache_of_their_lake(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    table = lake.releases()
    newest = table.create_if_missing()
    for dataset in (newest, table.open_version(), table.open_version(table.version)):
        assert describe_version(dataset).files is lake.files


def test_another_process_begins_with_an_empty_cache(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.files.put(TEXTS, "table", "file", "text")
    copy: Lake = pickle.loads(pickle.dumps(lake))
    assert copy == lake and copy.files.items(TEXTS) == []
