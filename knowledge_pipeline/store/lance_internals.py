"""What Lance does not promise, and is used all the same: in this module alone.

Each assumption has a test in `knowledge_pipeline_tests/store/test_lance_internals.py`, which an upgrade of
Lance that breaks it fails.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from knowledge_pipeline.store.file_cache import FileCache

ADDRESS = "_rowaddr"
"""The column of a row's address: its fragment in the upper 32 bits, and its place among the fragment's rows.

As no table has stable row ids, it is also the row's id, which searches give as `_rowid`.
"""
OFFSET_BITS = 32


def take_rows(dataset: Any, addresses: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """Columns of rows by their addresses, in that order."""
    return dataset._take_rows(list(addresses), columns=list(columns))


def allow_rows(addresses: Sequence[int]) -> Mapping[str, Any]:
    """Arguments of `scanner` with which a search finds some rows alone."""
    from lance.dataset import serialize_row_addrs

    return {"row_addr_allowlist": serialize_row_addrs(addresses)}


FragmentFiles = tuple[Any, ...]
"""The id of a fragment and the names of its data files, which are random and never written again."""


class ListedFragment(NamedTuple):
    """A fragment of Lance, and the file that says which of its rows are deleted."""

    fragment: Any
    deletion_file: Any


@dataclass
class OpenVersion:
    """What is known of a dataset of Lance, whose version never changes; asking Lance again takes 0.1 ms."""

    files: FileCache  # of its store
    valid_schema: pa.Schema | None = None  # that it was compared with
    fragments: Mapping[FragmentFiles, ListedFragment] | None = None
    row_count: int | None = None
    column_names: frozenset[str] = frozenset()


def describe_version(dataset: Any, files: FileCache | None = None) -> OpenVersion:
    """What is known of a dataset, which carries it; `files` counts for one that was just opened."""
    version: OpenVersion | None = getattr(dataset, "open_version", None)
    if version is None:
        dataset.open_version = version = OpenVersion(FileCache() if files is None else files)
    return version


def list_fragments(dataset: Any) -> Mapping[FragmentFiles, ListedFragment]:
    """By their files, whatever is deleted in them; once for each dataset, as their files have all columns."""
    version = describe_version(dataset)
    if version.fragments is None:
        fragments = dict[FragmentFiles, ListedFragment]()
        for fragment in dataset.get_fragments():
            metadata = fragment.metadata
            files = metadata.id, *(file.path for file in metadata.files)
            fragments[files] = ListedFragment(fragment, metadata.deletion_file)
        version.fragments = fragments
    return version.fragments


def count_rows(dataset: Any) -> int:
    """Without deleted ones; once for each dataset."""
    version = describe_version(dataset)
    if version.row_count is None:
        version.row_count = int(dataset.count_rows())
    return version.row_count


def list_columns(dataset: Any) -> frozenset[str]:
    """The names of all columns; once for each dataset."""
    version = describe_version(dataset)
    version.column_names = version.column_names or frozenset(dataset.schema.names)
    return version.column_names


_VALUE_BYTES = 4


@dataclass(frozen=True)
class VectorFile:
    """Where the vectors of one data file are. It stays open, so that a cleanup takes nothing away.

    A column without nulls is plain: its vectors lie one after the other in the pages that the file's own
    metadata name. That is believed only if pages begin and end with what Lance reads there.
    """

    descriptor: int
    firsts: np.ndarray  # int64, ascending: the first row of each page
    offsets: np.ndarray  # int64: where each page begins, in bytes
    width: int  # of a vector, in bytes

    @classmethod
    def open(cls, path: Path, column: int, dimensions: int) -> VectorFile | None:
        """None where the file does not have a plain vector for each row."""
        from lance.file import LanceFileReader

        reader: Any = LanceFileReader(str(path), columns=["vector"])
        metadata, width = reader.metadata(), dimensions * _VALUE_BYTES
        pages = [page.buffers for page in metadata.columns[column].pages]
        counts = [buffers[0].size // width if len(buffers) == 1 else 0 for buffers in pages]
        if not counts or min(counts) == 0 or sum(counts) != metadata.num_rows:
            return None
        ends = np.cumsum(counts)
        offsets = np.array([buffers[0].position for buffers in pages], np.int64)
        file = cls(os.open(path, os.O_RDONLY), ends - counts, offsets, width)
        checked = np.union1d(file.firsts, ends - 1)
        stored = reader.take_rows(checked.tolist()).to_table()["vector"].combine_chunks()
        if stored.null_count or file.read_vectors(checked) != stored.flatten().to_numpy().tobytes():
            return None
        # Read ahead, so that no question waits for a disk.
        for start, count in zip(offsets.tolist(), counts, strict=True):
            os.posix_fadvise(file.descriptor, start, count * width, os.POSIX_FADV_WILLNEED)
        return file

    def __del__(self) -> None:
        os.close(self.descriptor)

    def read_vectors(self, places: np.ndarray) -> bytes:
        """The vectors of rows by their places in the file, one after the other."""
        pages = np.searchsorted(self.firsts, places, "right") - 1
        starts = self.offsets[pages] + (places - self.firsts[pages]) * self.width
        # Neighbours are read at once; the first row has none before it, wherever it is.
        runs = np.flatnonzero(np.diff(starts, prepend=-2 * self.width) != self.width)
        sizes = np.diff(runs, append=len(starts)) * self.width
        reads = zip(sizes.tolist(), starts[runs].tolist(), strict=True)
        return b"".join([os.pread(self.descriptor, size, start) for size, start in reads])


def open_vector_files(dataset: Any, dimensions: int, *, max_files: int) -> dict[int, VectorFile]:
    """Look into the largest files, in some milliseconds each; into none in an object store. By fragment."""
    folder = Path(dataset.uri) / "data"
    if not hasattr(os, "posix_fadvise") or not folder.is_dir():
        return {}
    column = dataset.lance_schema.field_case_insensitive("vector").id()
    files: dict[int, VectorFile] = {}
    largest = sorted(dataset.get_fragments(), key=lambda fragment: -fragment.physical_rows)[:max_files]
    for fragment in largest:
        for file in fragment.data_files():
            if column in file.fields and file.base_id is None:
                at = file.column_indices[file.fields.index(column)]
                if opened := VectorFile.open(folder / file.path, at, dimensions):
                    files[fragment.fragment_id] = opened
    return files
