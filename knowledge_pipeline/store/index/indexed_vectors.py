"""A large index of vectors whose files are all read in place, so that Lance need not compare its rows again.

The index of quantised vectors tells which rows are nearest, and only about how near. To read the vectors of a
hundred rows for that takes Lance as long as the search; in place it takes a twentieth. Rows that the index
lacks are few, and all are compared.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cachetools import LRUCache

from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.index.column_values import ColumnValues
from knowledge_pipeline.store.index.segments import list_fragments_beyond
from knowledge_pipeline.store.index.vector_files import VectorFiles, compute_cosines

MAX_NEWER_ROWS = 2_000  # that the index lacks; of more, Lance finds the nearest
MAX_CONDITIONS = 64  # whose newer rows are kept; at most 1 MB


@dataclass(frozen=True, slots=True)
class IndexedVectors:
    """The vectors of one version of an index. Threads may share it."""

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
        if not files.has_fragments(each.fragment_id for each in fragments):
            return None
        if sum(each.physical_rows for each in newer) > MAX_NEWER_ROWS:
            return None
        return cls(files, newer, dataset, values)

    def list_newer_rows(self, where: Filter) -> np.ndarray:
        """Ids of the rows that match and that the index lacks: int64."""
        if not self._newer:
            return np.empty(0, np.int64)
        with self._lock:
            known = self._rows.get(where.sql)
        if known is None:
            condition = self._values.resolve(where).sql
            scanner = self._dataset.scanner([], condition, with_row_id=True, fragments=self._newer)
            known = scanner.to_table()["_rowid"].to_numpy().astype(np.int64)
            with self._lock:
                self._rows[where.sql] = known
        return known

    def keep_nearest(
        self, rows: np.ndarray, vector: np.ndarray, *, limit: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of rows those that are nearest, best first: ids, and cosine similarities in [-1, 1]."""
        ids, vectors = self.files.take_matrix(rows)
        similarities = compute_cosines(vectors, vector)
        best = np.lexsort((ids, -similarities))[:limit]
        return ids[best], similarities[best]
