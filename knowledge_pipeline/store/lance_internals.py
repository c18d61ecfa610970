"""What Lance does not promise, and is used all the same: in this module alone.

Each assumption has a test in `knowledge_pipeline_tests/store/test_lance_internals.py`, which an upgrade of
Lance that breaks it fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.file_cache import FileCache

CACHE_BYTES = 1 << 20  # so little that what is read is read from the files, and not kept


def open_uncached(uri: str, version: int | None, options: Any = None, *, index_bytes: int = 0) -> Any:
    """Lance's dataset whose files are read from the disk, whatever this process has read of them before.

    Its cache takes `index_bytes` more, so that Lance keeps an index while it reads it whole. Without a
    session of its own a dataset would have the cache of all others of this process.
    """
    from lance import LanceDataset, Session  # pyright: ignore[reportPrivateImportUsage]

    session = Session(index_cache_size_bytes=CACHE_BYTES + index_bytes, metadata_cache_size_bytes=CACHE_BYTES)
    return LanceDataset(uri, version, storage_options=options, session=session)


def describe_location(dataset: Any) -> dict[str, Any]:
    """What opens a dataset in another process."""
    return {"uri": dataset.uri, "version": dataset.version, "options": dataset._storage_options}


def open_again(dataset: Any, *, index_bytes: int = 0) -> Any:
    """The same version of a dataset, as `open_uncached` opens it."""
    return open_uncached(**describe_location(dataset), index_bytes=index_bytes)


def set_indexes_aside(dataset: Any, columns: Collection[str]) -> Any:
    """The same version of a table, read without the indexes of some columns.

    A copy of a dataset is made without its constructor, which would read the manifest again.
    """
    sound: Any = copy(dataset)
    sound.__class__ = _define_sound_dataset()
    sound.columns_without_index = frozenset(columns)
    return sound


@cache
def _define_sound_dataset() -> type[Any]:
    """A class, because Lance is imported where it is used."""
    from lance import LanceDataset

    class SoundDataset(LanceDataset):
        """Reads rows without scalar indexes where one of them is damaged, and vectors without theirs."""

        columns_without_index: frozenset[str] = frozenset()

        def __copy__(self) -> SoundDataset:
            return set_indexes_aside(super().__copy__(), self.columns_without_index)

        def describe_indices(self) -> list[Any]:
            indexes = super().describe_indices()
            return [it for it in indexes if self.columns_without_index.isdisjoint(it.field_names)]

        def scanner(self, *args: Any, nearest: Any = None, **kwargs: Any) -> Any:
            if nearest and "vector" in self.columns_without_index:
                nearest = {**nearest, "use_index": False}
            if self.columns_without_index - {"words", "vector"}:
                kwargs["use_scalar_index"] = False
            return super().scanner(*args, nearest=nearest, **kwargs)

        def count_rows(self, filter: Any = None, **kwargs: Any) -> int:
            if filter is None:
                return super().count_rows()
            return self.scanner(columns=[], filter=filter, with_row_id=True, **kwargs).count_rows()

    return SoundDataset


ADDRESS = "_rowaddr"
"""The column of a row's address: its fragment in the upper 32 bits, and its place among the fragment's rows.

As no table has stable row ids, it is also the row's id, which searches give as `_rowid`.
"""
OFFSET_BITS = 32


def sample_addresses(dataset: Any, count: int) -> list[int]:
    """The addresses of about so many rows from all over a table."""
    addresses = dataset.to_table([], with_row_address=True)[ADDRESS].to_numpy()
    return addresses[:: max(1, len(addresses) // count)].tolist()


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
    remembered: RememberedVersion | None = None


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
        for fragment in copy(dataset).get_fragments():  # they refer to the copy: a cycle would stay for long
            metadata = fragment.metadata
            files = metadata.id, *(str(file.path) for file in metadata.files)  # each has a class of its own
            fragments[files] = ListedFragment(fragment, metadata.deletion_file)
        version.fragments = fragments
    return version.fragments


def list_version_files(dataset: Any) -> list[str]:
    """What a version consists of beside its manifest, by names within the table; indexes are folders."""
    names = list[str]()
    for fragment in dataset.get_fragments():
        names += (f"data/{file.path}" for file in fragment.data_files())
        names += filter(None, [fragment.deletion_file()])
    segments = (segment for index in dataset.describe_indices() for segment in index.segments)
    return names + [f"_indices/{segment.uuid}" for segment in segments]


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


_TRANSACTION = re.compile(rb"b.(\d+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.txn", re.DOTALL)
"""Field 12 of a manifest: the name of the transaction that made the version, which has a random id."""


@dataclass(frozen=True, slots=True)
class RememberedVersion:
    """A version that can be opened again without its manifest, which may be gone; equal ones are the same.

    A dataset would keep the session it was opened with, and so the handles of all indexes read in it.
    """

    identity: str
    """The transaction that made it, whose id is random: no other version of any table has the same.

    Neither a table that is made anew at the same path nor one that was restored and written since shares it
    with what had the version's number before; a copy does, as far as it has the same history.
    """
    version: int = field(compare=False)
    manifest: bytes = field(compare=False, repr=False)

    @classmethod
    def of(cls, dataset: Any) -> RememberedVersion:
        """The version of a dataset, in 2 µs."""
        described = describe_version(dataset)
        if described.remembered is None:
            manifest: bytes = dataset._ds.serialized_manifest()
            name = _TRANSACTION.search(manifest)
            identity = name[1].decode() if name else hash_strings(manifest.hex())
            described.remembered = cls(identity, dataset.version, manifest)
        return described.remembered

    def open(self, newer: Any) -> Any:
        """The version as a dataset beside that of a newer one of the table, in 0.2 ms."""
        from lance import LanceDataset

        dataset: Any = LanceDataset(
            newer.uri,
            self.version,
            serialized_manifest=self.manifest,
            storage_options=newer._storage_options,
            session=newer.session(),
        )
        describe_version(dataset, describe_version(newer).files)
        return dataset


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
