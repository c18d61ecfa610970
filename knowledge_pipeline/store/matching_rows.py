"""The rows that a condition leaves of one version of an index, so that searches do not evaluate it again.

Callers who may see the same ask under the same condition, and Lance looks into its indexes for each part of
it at each search, which takes as long as the search. A version never changes, so the rows are read once and
handed to Lance as a mask. Its index of vectors looks up each row there, which takes as long as finding the
nearest. So where many match, the nearest of all are asked for, and those that match are kept.

Of rows beyond the index of words Lance counts those alone that meet a filter, but all of them beside a mask,
which gives other scores. So while there are any, conditions are evaluated.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from cachetools import LRUCache

from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.fragments import ColumnValues
from knowledge_pipeline.store.segments import list_fragments_beyond

MAX_ROWS = 300_000  # of the index: packing the rows of a condition holds a thread. Of more, few rows are kept
MAX_CONDITIONS = 64  # whose rows are kept: two bits for each row, at most 5 MB
MIN_FEW, MAX_FEW = 2_000, 10_000  # rows that are compared in less time than a search under a filter takes
_FEW_SHARE = 100  # of a large index, where such a search takes longer: one row in so many; at most 5 MB
MANY_SHARE = 0.4  # of all rows: of fewer, more would have to be found than a mask takes to look up
_MIN_SEARCHES = 2  # under one condition: one that is asked once would read more than it saves

ScanOptions = Mapping[str, Any]
"""Arguments of Lance's `scanner` that leave the rows of a condition."""


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows of one version of an index, as bits."""

    share: float  # of all rows
    _fragments: np.ndarray  # int64, ascending
    _starts: np.ndarray  # int64: the first bit of each fragment; one more, for the end
    _bits: np.ndarray  # uint8

    @classmethod
    def of(cls, rows: np.ndarray, count: int) -> RowSet:
        """Those of some ids, int64, ascending, of `count` rows that the version has."""
        fragments, first = np.unique(rows >> 32, return_index=True)
        last = np.append(first[1:], len(rows)) - 1
        starts = np.concatenate([[0], np.cumsum((rows[last] & 0xFFFFFFFF) + 1)])
        bits = np.zeros(starts[-1], bool)
        bits[np.repeat(starts[:-1], np.diff(first, append=len(rows))) + (rows & 0xFFFFFFFF)] = True
        return cls(len(rows) / max(count, 1), fragments, starts, np.packbits(bits, bitorder="little"))

    def contains(self, rows: np.ndarray) -> np.ndarray:
        """For each id whether it is one of them."""
        at = np.searchsorted(self._fragments, rows >> 32).clip(max=len(self._fragments) - 1)
        bits = self._starts[at] + (rows & 0xFFFFFFFF)
        has_bit = (self._fragments[at] == rows >> 32) & (bits < self._starts[at + 1])
        bits = np.where(has_bit, bits, 0)
        return has_bit & (self._bits[bits >> 3] >> (bits & 7) & 1).astype(bool)


class MatchingRows:
    """The rows of the conditions asked last, of one version of an index. Threads may share it."""

    def __init__(self, dataset: Any, values: ColumnValues, *, max_rows: int = MAX_ROWS) -> None:
        """Read nothing yet."""
        self._dataset, self._values, self._max_rows = dataset, values, max_rows
        self._count: int | None = None  # rows of the index
        self._asked: LRUCache[str, int] = LRUCache(MAX_CONDITIONS)  # searches, of conditions without a mask
        self._masks: LRUCache[str, ScanOptions] = LRUCache(MAX_CONDITIONS)
        self._few: LRUCache[str, np.ndarray] = LRUCache(MAX_CONDITIONS)
        self._many: LRUCache[str, RowSet] = LRUCache(MAX_CONDITIONS)
        self._lock = threading.Lock()

    def restrict(self, where: Filter) -> ScanOptions:
        """What makes a search find matching rows alone."""
        with self._lock:
            if (mask := self._masks.get(where.sql)) is not None:
                return mask
            searches = self._asked[where.sql] = self._asked.get(where.sql, 0) + 1
        condition = {"filter": self._values.resolve(where).sql}
        if searches != _MIN_SEARCHES or not self._max_rows:  # later ones need not wait for its rows
            return condition
        count = self._count_rows()
        few = max(MIN_FEW, min(count // _FEW_SHARE, MAX_FEW))
        limit = few + 1 if count > self._max_rows else None
        ids: Any = self._dataset.to_table(columns=[], with_row_id=True, limit=limit, **condition)["_rowid"]
        if len(ids) == limit:
            return condition
        mask, rows = self._build_mask(ids, condition), np.sort(ids.to_numpy().astype(np.int64))
        is_many = few < len(rows) < count and len(rows) >= MANY_SHARE * count
        many = RowSet.of(rows, count) if is_many else None
        with self._lock:
            self._masks[where.sql] = mask
            if len(rows) <= few:
                self._few[where.sql] = rows
            if many:
                self._many[where.sql] = many
            self._asked.pop(where.sql, None)
        return mask

    def find_few(self, where: Filter) -> np.ndarray | None:
        """Ids of the matching rows, ascending, where they are known by now and few enough to compare all."""
        with self._lock:
            return self._few.get(where.sql)

    def find_many(self, where: Filter) -> RowSet | None:
        """The matching rows, where they are known by now and at least `MANY_SHARE` of all, but not all."""
        with self._lock:
            return self._many.get(where.sql)

    def _count_rows(self) -> int:
        if self._count is None:
            self._count = int(self._dataset.count_rows())
        return self._count

    def _build_mask(self, ids: Any, condition: ScanOptions) -> ScanOptions:
        from lance.dataset import serialize_row_addrs

        if len(ids) == self._count:
            return {}
        if list_fragments_beyond(self._dataset, "words"):
            return condition
        return {"row_addr_allowlist": serialize_row_addrs(ids.to_pylist())}
