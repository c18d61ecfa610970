"""The vectors of a large index, read in place from its files on this machine.

Lance takes 20 µs of the processor for a row, whatever is in it. In a file whose rows all have a vector these
lie one after the other, where the file itself says: a hundred are read in a tenth of a millisecond, so that
none needs to be kept. (Mapped into memory they take five times as long, for the faults.) What a file says is
believed only if its pages begin and end with what Lance reads there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MAX_FILES = 32  # of one version of an index: vectors of others are read by Lance
_VALUE_BYTES = 4


@dataclass(frozen=True)
class _VectorFile:
    """Where the vectors of one file are. It stays open, so that a cleanup takes nothing away."""

    descriptor: int
    firsts: np.ndarray  # int64, ascending: the first row of each page
    offsets: np.ndarray  # int64: where each page begins, in bytes
    width: int  # of a vector, in bytes

    @classmethod
    def open(cls, path: Path, column: int, dimensions: int) -> _VectorFile | None:
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
        found = cls(os.open(path, os.O_RDONLY), ends - counts, offsets, width)
        checked = np.union1d(found.firsts, ends - 1)
        stored = reader.take_rows(checked.tolist()).to_table()["vector"].combine_chunks()
        if stored.null_count or found.read_vectors(checked) != stored.flatten().to_numpy().tobytes():
            return None
        # Read ahead, so that no question waits for a disk.
        for start, count in zip(offsets.tolist(), counts, strict=True):
            os.posix_fadvise(found.descriptor, start, count * width, os.POSIX_FADV_WILLNEED)
        return found

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


@dataclass(frozen=True, slots=True)
class VectorFiles:
    """The files of one version of an index that can be read in place. Threads may share it."""

    _files: Mapping[int, _VectorFile]  # by fragment
    _dimensions: int

    @classmethod
    def open(cls, dataset: Any, dimensions: int) -> VectorFiles:
        """Look into the files, in some milliseconds each; into none in an object store."""
        folder, fragments = Path(dataset.uri) / "data", dataset.get_fragments()
        if not hasattr(os, "posix_fadvise") or not folder.is_dir():
            return cls({}, dimensions)
        column = dataset.lance_schema.field_case_insensitive("vector").id()
        files: dict[int, _VectorFile] = {}
        for fragment in sorted(fragments, key=lambda each: -each.physical_rows)[:MAX_FILES]:
            for file in fragment.data_files():
                if column in file.fields and file.base_id is None:
                    at = file.column_indices[file.fields.index(column)]
                    if found := _VectorFile.open(folder / file.path, at, dimensions):
                        files[fragment.fragment_id] = found
        return cls(files, dimensions)

    def has_fragments(self, fragments: Iterable[int]) -> bool:
        """Whether all rows of these fragments are in such files."""
        return self._files.keys() >= set(fragments)

    def has_all(self, rows: Collection[int]) -> bool:
        """Whether each of the rows is in such a file."""
        return self.has_fragments((np.fromiter(rows, np.int64, len(rows)) >> 32).tolist())

    def take(self, rows: Collection[int]) -> dict[int, np.ndarray]:
        """The vectors of rows."""
        known, vectors = self.take_matrix(rows)
        return dict(zip(known.tolist(), vectors, strict=True))

    def take_matrix(self, rows: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
        """Rows in some order, int64, and their vectors: shape (rows, dimensions)."""
        asked = np.fromiter(rows, np.int64, len(rows))
        fragments, places = asked >> 32, asked & 0xFFFFFFFF
        known, found = [np.empty(0, np.int64)], list[bytes]()
        for fragment in set(fragments.tolist()):
            own = fragments == fragment
            known.append(asked[own])
            found.append(self._files[fragment].read_vectors(places[own]))
        return np.concatenate(known), np.frombuffer(b"".join(found), np.float32).reshape(-1, self._dimensions)


def compute_cosines(vectors: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Of each row of a matrix with a vector, in [-1, 1]; 0 where one of the two is all zero."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    return multiply(vectors, vector) / np.where(lengths > 0, lengths, np.inf)


def multiply(vectors: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """The product, in this thread: those of BLAS wait in a loop, and under load take twenty times as long."""
    return np.einsum("ij,j->i", vectors, vector)
