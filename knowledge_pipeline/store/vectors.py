"""The vectors of an index: of a small one in memory, of a large one read in place from its files.

Up to some ten thousand rows, one product compares all with a question. That takes a fifth of a search of the
index on disk, and the nearest rows are found exactly.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cachetools import LRUCache

from knowledge_pipeline.store.filters import MATCH_ALL, Filter
from knowledge_pipeline.store.fragments import ColumnValues
from knowledge_pipeline.store.matching_rows import MAX_ROWS, MatchingRows
from knowledge_pipeline.store.segments import list_fragments_beyond

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


@dataclass(frozen=True, slots=True)
class VectorFiles:
    """The files of one version of an index that can be read in place. Threads may share it.

    Lance takes 20 µs of the processor for a row, whatever is in it. In a file whose rows all have a vector
    these lie one after the other, where the file itself says: a hundred are read in a tenth of a
    millisecond, so that none needs to be kept. (Mapped into memory they take five times as long, for the
    faults.) What a file says is believed only if its pages begin and end with what Lance reads there.
    """

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
        for fragment in sorted(fragments, key=lambda listed: -listed.physical_rows)[:MAX_FILES]:
            for file in fragment.data_files():
                if column in file.fields and file.base_id is None:
                    at = file.column_indices[file.fields.index(column)]
                    if opened := _VectorFile.open(folder / file.path, at, dimensions):
                        files[fragment.fragment_id] = opened
        return cls(files, dimensions)

    def has_fragments(self, fragments: Iterable[int]) -> bool:
        """Whether all rows of these fragments are in such files."""
        return self._files.keys() >= set(fragments)

    def has_all(self, rows: Collection[int]) -> bool:
        """Whether each of the rows is in such a file."""
        return self.has_fragments((np.fromiter(rows, np.int64, len(rows)) >> 32).tolist())

    def take(self, rows: Collection[int]) -> dict[int, np.ndarray]:
        """The vectors of rows."""
        ids, vectors = self.take_matrix(rows)
        return dict(zip(ids.tolist(), vectors, strict=True))

    def take_matrix(self, rows: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
        """Rows in some order, int64, and their vectors: shape (rows, dimensions)."""
        ids = np.fromiter(rows, np.int64, len(rows))
        fragments, places = ids >> 32, ids & 0xFFFFFFFF
        ordered, blocks = [np.empty(0, np.int64)], list[bytes]()
        for fragment in set(fragments.tolist()):
            own = fragments == fragment
            ordered.append(ids[own])
            blocks.append(self._files[fragment].read_vectors(places[own]))
        return np.concatenate(ordered), np.frombuffer(b"".join(blocks), np.float32).reshape(
            -1, self._dimensions
        )


def compute_cosines(vectors: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Of each row of a matrix with a vector, in [-1, 1]; 0 where one of the two is all zero."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    return multiply(vectors, vector) / np.where(lengths > 0, lengths, np.inf)


def multiply(vectors: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """The product, in this thread: those of BLAS wait in a loop, and under load take twenty times as long."""
    return np.einsum("ij,j->i", vectors, vector)


MAX_NEWER_ROWS = 2_000  # that the index lacks; of more, Lance finds the nearest


@dataclass(frozen=True, slots=True)
class IndexedVectors:
    """The vectors of an index whose files are all read in place, at one version. Threads may share it.

    The index of quantised vectors tells which rows are nearest, and only about how near. To read the vectors
    of a hundred rows for that takes Lance as long as the search; in place it takes a twentieth. Rows that the
    index lacks are few, and all are compared.
    """

    files: VectorFiles
    _newer: list[Any]  # Lance's fragments that the index lacks
    _dataset: Any
    _values: ColumnValues
    _rows: LRUCache[str, np.ndarray] = field(
        default_factory=lambda: LRUCache[str, np.ndarray](MAX_CONDITIONS)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, dataset: Any, values: ColumnValues, files: VectorFiles) -> IndexedVectors | None:
        """None where a file cannot be read in place, or the index lacks too many rows."""
        fragments, newer = dataset.get_fragments(), list_fragments_beyond(dataset, "vector")
        if not files.has_fragments(fragment.fragment_id for fragment in fragments):
            return None
        if sum(fragment.physical_rows for fragment in newer) > MAX_NEWER_ROWS:
            return None
        return cls(files, newer, dataset, values)

    def list_newer_rows(self, where: Filter) -> np.ndarray:
        """Ids of the rows that match and that the index lacks: int64."""
        if not self._newer:
            return np.empty(0, np.int64)
        with self._lock:
            rows = self._rows.get(where.sql)
        if rows is None:
            condition = self._values.resolve(where).sql
            scanner = self._dataset.scanner([], condition, with_row_id=True, fragments=self._newer)
            rows = scanner.to_table()["_rowid"].to_numpy().astype(np.int64)
            with self._lock:
                self._rows[where.sql] = rows
        return rows

    def keep_nearest(
        self, rows: np.ndarray, vector: np.ndarray, *, limit: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of rows those that are nearest, best first: ids, and cosine similarities in [-1, 1]."""
        ids, vectors = self.files.take_matrix(rows)
        similarities = compute_cosines(vectors, vector)
        best = np.lexsort((ids, -similarities))[:limit]
        return ids[best], similarities[best]


MAX_BYTES = 48_000_000  # 31,000 vectors of 384 dimensions; a larger table is searched by its index
MAX_CONDITIONS = 64  # whose rows are kept; at most 8 MB
_MIN_SEARCHES = 2  # of one version: a process that asks once would read more than it saves
_BATCH_ROWS = 1024  # read at a time: some MB
_SPARSE_SHARE = 8  # rows that are fewer than such a share of all are picked before they are compared


@dataclass(frozen=True, slots=True)
class ExactVectors:
    """The vectors of one version of an index: all, or those of a condition's rows. Threads may share it."""

    rows: np.ndarray  # int64, shape (vectors,): ids of the rows, ascending
    vectors: np.ndarray  # float32, shape (vectors, dimensions)
    scales: np.ndarray  # float32, shape (vectors,): 1 / length, 0 where the length is 0
    _dataset: Any
    _values: ColumnValues
    _positions: LRUCache[str, np.ndarray] = field(
        default_factory=lambda: LRUCache[str, np.ndarray](MAX_CONDITIONS)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(
        cls, dataset: Any, values: ColumnValues | None = None, where: Filter | None = None
    ) -> ExactVectors:
        """Read the rows that have a vector, in batches: a second copy of all takes as long as reading.

        With a condition, those that match: they alone can be searched for then, and under no other condition.
        """
        values = values or ColumnValues(dataset)
        embedded = f"({values.resolve(where).sql}) AND vector IS NOT NULL" if where else "vector IS NOT NULL"
        loaded = cls(*_read_vectors(dataset, embedded), dataset, values)
        if where:
            loaded._positions[where.sql] = np.arange(len(loaded.rows), dtype=np.int32)
        return loaded

    def advance_to(self, dataset: Any, values: ColumnValues, unchanged: Collection[int]) -> ExactVectors:
        """Those of a later version, of which other fragments than the unchanged ones are read.

        Rows that were deleted meanwhile stay until their fragment is rewritten; no condition finds them.
        """
        kept = np.isin(self.rows >> 32, np.fromiter(unchanged, np.int64, len(unchanged)))
        others = [fragment for fragment in dataset.get_fragments() if fragment.fragment_id not in unchanged]
        added = _read_vectors(dataset, "vector IS NOT NULL", others)
        before = (self.rows[kept], self.vectors[kept], self.scales[kept])
        return ExactVectors(
            *_sort_by_row(*map(np.concatenate, zip(before, added, strict=True))), dataset, values
        )

    def search(self, vector: np.ndarray, where: Filter, *, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows that match and are nearest, best first: ids, and cosine similarities in [-1, 1]."""
        length = float(np.linalg.norm(vector))
        unit = (vector / length if length > 0 else vector).astype(np.float32)
        positions = self._find_positions(where)
        if len(positions) * _SPARSE_SHARE < len(self.rows):
            similarities = multiply(self.vectors[positions], unit) * self.scales[positions]
        else:
            similarities = (multiply(self.vectors, unit) * self.scales)[positions]
        if limit < len(positions):
            best = np.argpartition(similarities, -limit)[-limit:]
            positions, similarities = positions[best], similarities[best]
        order = np.argsort(-similarities, kind="stable")
        return self.rows[positions[order]], similarities[order]

    def knows(self, where: Filter) -> bool:
        """Whether the rows that match are known, so that a search reads nothing."""
        return where.sql in self._positions

    def has_all(self, rows: Collection[int]) -> bool:
        """Whether each of the rows is among those that are held."""
        return bool(np.isin(np.fromiter(rows, np.int64, len(rows)), self.rows).all())

    def take(self, rows: Collection[int]) -> dict[int, np.ndarray]:
        """The vectors of rows; those without one are left out."""
        ids, vectors = self.take_matrix(rows)
        return dict(zip(ids.tolist(), vectors, strict=True))

    def take_matrix(self, rows: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
        """Those of the rows that have a vector, int64, and their vectors: shape (rows, dimensions)."""
        ids = np.fromiter(rows, np.int64, len(rows))
        at = np.searchsorted(self.rows, ids).clip(max=max(len(self.rows) - 1, 0))
        is_stored = self.rows[at] == ids if len(self.rows) else np.zeros(len(ids), bool)
        return ids[is_stored], self.vectors[at[is_stored]]

    def _find_positions(self, where: Filter) -> np.ndarray:
        """Where the matching rows are, ascending: int32."""
        with self._lock:
            positions = self._positions.get(where.sql)
        if positions is None:
            condition = self._values.resolve(where).sql
            matching = self._dataset.to_table(columns=[], filter=condition, with_row_id=True)["_rowid"]
            positions = np.flatnonzero(np.isin(self.rows, matching.to_numpy())).astype(np.int32)
            with self._lock:
                self._positions[where.sql] = positions
        return positions


def _read_vectors(
    dataset: Any, embedded: str, fragments: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, vectors and scales, as `ExactVectors` has them, of what matches; without fragments, of all."""
    most = dataset.count_rows() if fragments is None else sum(fragment.count_rows() for fragment in fragments)
    dimensions = dataset.schema.field("vector").type.list_size
    rows, scales = np.empty(most, np.int64), np.zeros(most, np.float32)
    vectors = np.empty((most, dimensions), np.float32)
    end = 0
    scanner = dataset.scanner(
        columns=["vector"], filter=embedded, with_row_id=True, batch_size=_BATCH_ROWS, fragments=fragments
    )
    for batch in scanner.to_batches():
        start, end = end, end + len(batch)
        rows[start:end] = batch["_rowid"].to_numpy()
        vectors[start:end] = batch["vector"].flatten().to_numpy().reshape(-1, dimensions)
        lengths = np.linalg.norm(vectors[start:end], axis=1)
        np.divide(1.0, lengths, out=scales[start:end], where=lengths > 0)
    return _sort_by_row(rows[:end], vectors[:end], scales[:end])


def _sort_by_row(
    rows: np.ndarray, vectors: np.ndarray, scales: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if np.any(rows[1:] < rows[:-1]):
        order = np.argsort(rows)
        rows, vectors, scales = rows[order], vectors[order], scales[order]
    return rows, vectors, scales


class VectorMemory:
    """Holds the vectors of one version once that pays: it is small, and is searched again. For threads.

    Those of a larger one are read in place, where its files allow that.
    """

    def __init__(
        self,
        dataset: Any,
        dimensions: int,
        *,
        max_bytes: int = MAX_BYTES,
        max_rows: int = MAX_ROWS,
        opens_files: bool = True,
    ) -> None:
        """Read nothing yet.

        Args:
            dataset: of Lance, at one version.
            dimensions: of each vector.
            max_bytes: of vectors that are held.
            max_rows: of an index whose matching rows are kept.
            opens_files: whether vectors that are too many to be held are read in place.
        """
        self.values = ColumnValues(dataset)
        self.matching = MatchingRows(dataset, self.values, max_rows=max_rows)
        self._dataset, self._dimensions, self._max_bytes = dataset, dimensions, max_bytes
        self._searches = 0
        self._first_condition = ""
        self._loaded: ExactVectors | None = None
        self._matching: ExactVectors | None = None  # of the condition of the second search alone
        self._files: VectorFiles | None = None  # of a version that is too large to be held
        self._indexed_vectors: IndexedVectors | None = None  # if those are all of its files
        self._opens_files = opens_files
        self._is_too_large: bool | None = None
        self._reading = threading.Lock()

    @property
    def loaded(self) -> ExactVectors | None:
        """The vectors, if they are loaded by now."""
        return self._loaded

    @property
    def indexed_vectors(self) -> IndexedVectors | None:
        """The vectors that are read in place after a search of the index, if all can be by now."""
        return self._indexed_vectors

    def find_holder(self, rows: Collection[int]) -> ExactVectors | VectorFiles | None:
        """What has the vectors of rows, as far as they have any; None if Lance has to read them."""
        if self._loaded:
            return self._loaded
        for source in (self._matching, self._files):
            if source and source.has_all(rows):
                return source
        return None

    def advance_from(self, earlier: VectorMemory, unchanged: Collection[int]) -> None:
        """Hold at once what an earlier version held, if it did, and what was added since.

        `unchanged` are the fragments that have the same data files in both versions.
        """
        with self._reading:
            if earlier.loaded and not self._loaded and not self._has_too_many():
                self._loaded = earlier.loaded.advance_to(self._dataset, self.values, unchanged)

    def load_if_due(self, where: Filter = MATCH_ALL) -> ExactVectors | None:
        """The vectors for a search; None if it had better use the index.

        A second search under another condition is the second look of the first question, which may be the
        only one: it reads the rows that match, and the third search all.
        """
        self._searches += 1
        if self._searches == 1:
            self._first_condition = where.sql
        if self._loaded or self._searches < _MIN_SEARCHES or self._files:
            return self._loaded
        if not self._reading.acquire(blocking=False):
            return None  # another search reads them
        try:
            if self._has_too_many():
                # the second search may be of the only question
                if self._opens_files and self._searches > _MIN_SEARCHES:
                    self._files = VectorFiles.open(self._dataset, self._dimensions)
                    self._indexed_vectors = IndexedVectors.open(self._dataset, self.values, self._files)
                return None
            if self._loaded:
                return self._loaded
            if self._searches == _MIN_SEARCHES and where.sql != self._first_condition:
                self._matching = ExactVectors.load(self._dataset, self.values, where)
                return self._matching
            self._loaded, self._matching = ExactVectors.load(self._dataset, self.values), None
            return self._loaded
        finally:
            self._reading.release()

    def _has_too_many(self) -> bool:
        if self._is_too_large is None:
            self._is_too_large = self._dataset.count_rows() * self._dimensions * 4 > self._max_bytes
        return bool(self._is_too_large)
