"""The vectors of an index: of a small one in memory, of a large one read in place from its files.

Up to some ten thousand rows, one product compares all with a question. That takes a fifth of a search of the
index on disk, and the nearest rows are found exactly.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knowledge_pipeline.store.file_cache import RecentValues
from knowledge_pipeline.store.filters import MATCH_ALL, Filter
from knowledge_pipeline.store.lance_internals import VectorFile, count_rows, open_vector_files
from knowledge_pipeline.store.matching_rows import MAX_CONDITIONS, MAX_ROWS, ColumnValues, MatchingRows
from knowledge_pipeline.store.segments import list_fragments_beyond

MAX_FILES = 32  # of one version of an index: vectors of others are read by Lance


class VectorSource(ABC):
    """What has the vectors of rows at hand."""

    __slots__ = ()

    @abstractmethod
    def has_all(self, rows: Collection[int]) -> bool:
        """Whether each of the rows is here."""

    @abstractmethod
    def take_matrix(self, rows: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
        """Those of the rows that have a vector, int64, and their vectors: shape (rows, dimensions)."""

    def take(self, rows: Collection[int]) -> dict[int, np.ndarray]:
        """The vectors of rows; those without one are left out."""
        ids, vectors = self.take_matrix(rows)
        return dict(zip(ids.tolist(), vectors, strict=True))


@dataclass(frozen=True, slots=True)
class VectorFiles(VectorSource):
    """The files of one version of an index that can be read in place. Threads may share it.

    Lance takes 20 µs of the processor for a row, whatever is in it. In a file whose rows all have a vector
    these lie one after the other, where the file itself says: a hundred are read in a tenth of a
    millisecond, so that none needs to be kept. (Mapped into memory they take five times as long, for the
    faults.)
    """

    _files: Mapping[int, VectorFile]  # by fragment
    _dimensions: int

    @classmethod
    def open(cls, dataset: Any, dimensions: int) -> VectorFiles:
        """Look into the largest files, in some milliseconds each; into none in an object store."""
        return cls(open_vector_files(dataset, dimensions, max_files=MAX_FILES), dimensions)

    def has_fragments(self, fragments: Iterable[int]) -> bool:
        """Whether all rows of these fragments are in such files."""
        return self._files.keys() >= set(fragments)

    def has_all(self, rows: Collection[int]) -> bool:
        """See `VectorSource.has_all`."""
        return self.has_fragments((np.fromiter(rows, np.int64, len(rows)) >> 32).tolist())

    def take_matrix(self, rows: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
        """See `VectorSource.take_matrix`; in some order."""
        ids = np.fromiter(rows, np.int64, len(rows))
        fragments, places = ids >> 32, ids & 0xFFFFFFFF
        ordered, blocks = [np.empty(0, np.int64)], list[bytes]()
        for fragment in set(fragments.tolist()):
            own = fragments == fragment
            ordered.append(ids[own])
            blocks.append(self._files[fragment].read_vectors(places[own]))
        vectors = np.frombuffer(b"".join(blocks), np.float32)
        return np.concatenate(ordered), vectors.reshape(-1, self._dimensions)


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
    _rows: RecentValues[np.ndarray] = field(default_factory=lambda: RecentValues(MAX_CONDITIONS))

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

        def read() -> np.ndarray:
            condition = self._values.resolve(where).sql
            scanner = self._dataset.scanner([], condition, with_row_id=True, fragments=self._newer)
            return scanner.to_table()["_rowid"].to_numpy().astype(np.int64)

        return self._rows.load(where.sql, read)

    def keep_nearest(
        self, rows: np.ndarray, vector: np.ndarray, *, limit: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of rows those that are nearest, best first: ids, and cosine similarities in [-1, 1]."""
        ids, vectors = self.files.take_matrix(rows)
        similarities = compute_cosines(vectors, vector)
        best = np.lexsort((ids, -similarities))[:limit]
        return ids[best], similarities[best]


MAX_BYTES = 48_000_000  # 31,000 vectors of 384 dimensions; a larger table is searched by its index
_MIN_SEARCHES = 2  # of one version: a process that asks once would read more than it saves
_BATCH_ROWS = 1024  # read at a time: some MB
_SPARSE_SHARE = 8  # rows that are fewer than such a share of all are picked before they are compared


@dataclass(frozen=True, slots=True)
class ExactVectors(VectorSource):
    """The vectors of one version of an index: all, or those of a condition's rows. Threads may share it."""

    rows: np.ndarray  # int64, shape (vectors,): ids of the rows, ascending
    vectors: np.ndarray  # float32, shape (vectors, dimensions)
    scales: np.ndarray  # float32, shape (vectors,): 1 / length, 0 where the length is 0
    _dataset: Any
    _values: ColumnValues
    _positions: RecentValues[np.ndarray] = field(default_factory=lambda: RecentValues(MAX_CONDITIONS))

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
            loaded._positions.put(where.sql, np.arange(len(loaded.rows), dtype=np.int32))
        return loaded

    def advance_to(self, dataset: Any, values: ColumnValues, unchanged: Collection[int]) -> ExactVectors:
        """Those of a later version, of which other fragments than the unchanged ones are read.

        Rows that were deleted meanwhile stay until their fragment is rewritten; no condition finds them.
        """
        kept = np.isin(self.rows >> 32, np.fromiter(unchanged, np.int64, len(unchanged)))
        others = [fragment for fragment in dataset.get_fragments() if fragment.fragment_id not in unchanged]
        added = _read_vectors(dataset, "vector IS NOT NULL", others)
        before = (self.rows[kept], self.vectors[kept], self.scales[kept])
        joined = _sort_by_row(*map(np.concatenate, zip(before, added, strict=True)))
        return ExactVectors(*joined, dataset, values)

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
        return self._positions.get(where.sql) is not None

    def has_all(self, rows: Collection[int]) -> bool:
        """See `VectorSource.has_all`."""
        return bool(np.isin(np.fromiter(rows, np.int64, len(rows)), self.rows).all())

    def take_matrix(self, rows: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
        """See `VectorSource.take_matrix`."""
        ids = np.fromiter(rows, np.int64, len(rows))
        at = np.searchsorted(self.rows, ids).clip(max=max(len(self.rows) - 1, 0))
        is_stored = self.rows[at] == ids if len(self.rows) else np.zeros(len(ids), bool)
        return ids[is_stored], self.vectors[at[is_stored]]

    def _find_positions(self, where: Filter) -> np.ndarray:
        """Where the matching rows are, ascending: int32."""

        def read() -> np.ndarray:
            condition = self._values.resolve(where).sql
            matching = self._dataset.to_table(columns=[], filter=condition, with_row_id=True)["_rowid"]
            return np.flatnonzero(np.isin(self.rows, matching.to_numpy())).astype(np.int32)

        return self._positions.load(where.sql, read)


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
        resolve_branches: Callable[[Filter], Filter] | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        max_rows: int = MAX_ROWS,
        opens_files: bool = True,
    ) -> None:
        """Read nothing yet. Of an index of more bytes no vectors are held, of one of more rows few matches.

        Vectors that are too many to be held are read in place, where `opens_files` allows it.
        """
        self.values = ColumnValues(dataset, resolve_branches)
        self.matching = MatchingRows(dataset, self.values, max_rows=max_rows)
        self.loaded: ExactVectors | None = None
        self.indexed_vectors: IndexedVectors | None = None  # if all vectors of a large version are in files
        self._dataset, self._dimensions, self._max_bytes = dataset, dimensions, max_bytes
        self._opens_files = opens_files
        self._searches, self._first_condition = 0, ""
        self._of_condition: ExactVectors | None = None  # of the condition of the second search alone
        self._files: VectorFiles | None = None  # of a version that is too large to be held
        self._reading = threading.Lock()

    def find_holder(self, rows: Collection[int]) -> VectorSource | None:
        """What has the vectors of rows, as far as they have any; None if Lance has to read them."""
        if self.loaded:
            return self.loaded
        sources = (self._of_condition, self._files)
        return next((source for source in sources if source and source.has_all(rows)), None)

    def advance_from(self, earlier: VectorMemory, unchanged: Collection[int]) -> None:
        """Hold at once what an earlier version held, if it did, and what was added since.

        `unchanged` are the fragments that have the same data files in both versions, and no row more in this.
        """
        with self._reading:
            if earlier.loaded and not self.loaded and not self._has_too_many():
                self.loaded = earlier.loaded.advance_to(self._dataset, self.values, unchanged)

    def load_if_due(self, where: Filter = MATCH_ALL) -> ExactVectors | None:
        """The vectors for a search; None if it had better use the index.

        A second search under another condition is the second look of the first question, which may be the
        only one: it reads the rows that match, and the third search all.
        """
        self._searches += 1
        if self._searches == 1:
            self._first_condition = where.sql
        if self.loaded or self._searches < _MIN_SEARCHES or self._files:
            return self.loaded
        if not self._reading.acquire(blocking=False):
            return None  # another search reads them
        try:
            return self.loaded or self._load(where)
        finally:
            self._reading.release()

    def _load(self, where: Filter) -> ExactVectors | None:
        if self._has_too_many():
            if self._opens_files and self._searches > _MIN_SEARCHES:  # the second may be of the only question
                self._files = VectorFiles.open(self._dataset, self._dimensions)
                self.indexed_vectors = IndexedVectors.open(self._dataset, self.values, self._files)
            return None
        if self._searches == _MIN_SEARCHES and where.sql != self._first_condition:
            self._of_condition = ExactVectors.load(self._dataset, self.values, where)
            return self._of_condition
        self.loaded, self._of_condition = ExactVectors.load(self._dataset, self.values), None
        return self.loaded

    def _has_too_many(self) -> bool:
        return count_rows(self._dataset) * self._dimensions * 4 > self._max_bytes
