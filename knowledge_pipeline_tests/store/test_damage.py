"""Which indexes count as damaged."""

# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from knowledge_pipeline.store import damage
from knowledge_pipeline.store.lance_internals import CACHE_BYTES


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    """A table whose index of words takes more memory than a probe has at least."""
    choose = random.Random(1).choices
    words = [f"word{number}" for number in range(20_000)]
    table = pa.table({"words": [" ".join(choose(words, k=40)) for _ in range(10_000)]})
    dataset = lance.write_dataset(table, str(tmp_path_factory.mktemp("indexed") / "rows.lance"))
    dataset.create_scalar_index("words", "INVERTED", base_tokenizer="simple")
    (index,) = dataset.describe_indices()
    assert (index.total_size_bytes or 0) > CACHE_BYTES
    return dataset


def test_a_sound_index_is_no_damage_however_large_it_is(
    indexed: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert damage.find_damaged_indexes(indexed) == {}
    monkeypatch.setattr(damage, "MOST_INDEX_BYTES", 0)
    assert damage.find_damaged_indexes(indexed) == {}  # larger than all that a probe may take


def test_a_zeroed_file_of_an_index_is_damage(indexed: lance.LanceDataset) -> None:
    folder = Path(indexed.uri) / "_indices"
    largest = max(folder.glob("*/*"), key=lambda file: file.stat().st_size)
    largest.write_bytes(bytes(largest.stat().st_size))
    assert list(damage.find_damaged_indexes(indexed)) == ["words"]


def test_indexes_are_not_read_whole_for_each_question_that_fails(
    indexed: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = damage.IndexProbe()
    first = probe.find_damaged(indexed)
    monkeypatch.setattr("knowledge_pipeline.store.lance_internals.open_again", pytest.fail)
    assert probe.find_damaged(indexed) == first


def test_what_the_operating_system_refuses_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), damage.explain_damage("source 'main'"):
        (tmp_path / "rows.lance").read_bytes()
