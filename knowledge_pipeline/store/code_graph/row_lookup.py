"""Finds rows of the code graph by their keys: paths, nodes, names.

A read of a table that its indexes answer takes Lance two to five milliseconds, and a search needs four of
them. So the keys of a table are kept in memory, with the numbers that narrow what they find: then only the
rows that match are read.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from cachetools import LRUCache

from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import MATCH_ALL, MATCH_NONE, Filter
from knowledge_pipeline.store.readers import Row

MAX_ROWS = 1_000_000  # of a table, about 70 bytes each; a larger one is read by its indexes
MAX_CONDITIONS = 32  # whose rows are kept; a bit for each row
_MIN_LOOKUPS = 4  # of one version, or more where reading takes longer: a process that asks once loses by it
_ROWS_PER_LOOKUP = 20_000  # that are read in about the time that a lookup saves


@dataclass(frozen=True, slots=True)
class RowLookup:
    """Rows that have any of some keys, narrowed by what they are and where."""

    keys: Mapping[str, Collection[str]]  # column -> values; one of any column is enough
    sources: Collection[str] = ()  # none: of any source
    kinds: Collection[str] = ()  # none: of any kind
    excluded_kinds: Collection[str] = ()
    at_least: Mapping[str, float] = field(default_factory=dict[str, float])
    below: Mapping[str, float] = field(default_factory=dict[str, float])
    unbounded_kinds: Collection[str] = ()  # that match as well, whatever the bounds
    min_confidence: float | None = None

    def to_filter(self) -> Filter:
        """The condition for the store."""
        keyed = (filters.one_of(column, sorted(values)) for column, values in self.keys.items())
        bounds = [filters.at_least(column, value) for column, value in self.at_least.items()]
        bounds += [filters.below(column, value) for column, value in self.below.items()]
        if self.kinds:
            bounds.append(filters.one_of("kind", sorted(self.kinds)))
        bounds += [~filters.eq("kind", kind) for kind in self.excluded_kinds]
        narrowed = reduce(lambda one, other: one & other, bounds, MATCH_ALL)
        if self.unbounded_kinds:
            narrowed |= filters.one_of("kind", sorted(self.unbounded_kinds))
        found = reduce(lambda one, other: one | other, keyed, MATCH_NONE) & narrowed
        if self.sources:
            found &= filters.one_of("source", sorted(self.sources))
        return (
            found
            if self.min_confidence is None
            else found & filters.at_least("confidence", self.min_confidence)
        )


@dataclass(frozen=True, slots=True)
class _KeyIndex:
    """Where the rows of each key are."""

    hashes: np.ndarray  # int64, ascending: of the keys
    positions: np.ndarray  # int32: of a row with that key

    @classmethod
    def build(cls, column: Any) -> _KeyIndex:
        """Of all rows of a column of Arrow that have a key."""
        encoded = column.combine_chunks().dictionary_encode()
        hashes = np.fromiter(map(hash, encoded.dictionary.to_pylist()), np.int64, len(encoded.dictionary))
        codes = encoded.indices.fill_null(-1).to_numpy()
        positions = np.flatnonzero(codes >= 0).astype(np.int32)
        keys = hashes[codes[positions]]
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], positions[order])

    def find(self, values: Collection[str]) -> list[np.ndarray]:
        """The positions of rows with any of the keys."""
        asked = np.fromiter(map(hash, values), np.int64, len(values))
        starts = np.searchsorted(self.hashes, asked, "left")
        ends = np.searchsorted(self.hashes, asked, "right")
        return [self.positions[start:end] for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys and numbers of all rows of one version of a table, in its order."""

    rows: np.ndarray  # int64: row ids
    indexes: Mapping[str, _KeyIndex]  # by column
    numbers: Mapping[str, np.ndarray]  # by column
    codes: Mapping[str, tuple[np.ndarray, Mapping[str, int]]]  # of `kind` and `source`
    _visible: LRUCache[str, np.ndarray] = field(
        default_factory=lambda: LRUCache[str, np.ndarray](MAX_CONDITIONS)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(cls, dataset: Any, keys: Sequence[str], numbers: Sequence[str]) -> _Keys:
        """Read all rows."""
        rows: Any = dataset.to_table(columns=[*keys, *numbers, "kind", "source"], with_row_id=True)
        codes: dict[str, tuple[np.ndarray, Mapping[str, int]]] = {}
        for column in ("kind", "source"):
            encoded = rows[column].combine_chunks().dictionary_encode()
            known = {value: code for code, value in enumerate(encoded.dictionary.to_pylist())}
            codes[column] = encoded.indices.to_numpy(zero_copy_only=False), known
        return cls(
            rows["_rowid"].to_numpy().astype(np.int64),
            {column: _KeyIndex.build(rows[column]) for column in keys},
            {column: rows[column].to_numpy() for column in numbers},
            codes,
        )

    def find(self, lookup: RowLookup, visible: Filter, dataset: Any) -> np.ndarray:
        """The ids of the rows that match and are visible, in the table's order."""
        found = [each for column, values in lookup.keys.items() for each in self.indexes[column].find(values)]
        at = np.unique(np.concatenate([np.empty(0, np.int32), *found]))
        narrowed = np.ones(len(at), bool)
        for column, value in lookup.at_least.items():
            narrowed &= self.numbers[column][at] >= value
        for column, value in lookup.below.items():
            narrowed &= self.numbers[column][at] < value
        if lookup.kinds:
            narrowed &= self._is_one_of("kind", at, lookup.kinds)
        if lookup.excluded_kinds:
            narrowed &= ~self._is_one_of("kind", at, lookup.excluded_kinds)
        if lookup.unbounded_kinds:
            narrowed |= self._is_one_of("kind", at, lookup.unbounded_kinds)
        if lookup.sources:
            narrowed &= self._is_one_of("source", at, lookup.sources)
        if lookup.min_confidence is not None:
            narrowed &= self.numbers["confidence"][at] >= lookup.min_confidence
        if visible != MATCH_ALL:
            narrowed &= self._find_visible(visible, dataset)[at]
        return self.rows[at[narrowed]]

    def _is_one_of(self, column: str, at: np.ndarray, values: Collection[str]) -> np.ndarray:
        codes, known = self.codes[column]
        return np.isin(codes[at], [known[value] for value in values if value in known])

    def _find_visible(self, visible: Filter, dataset: Any) -> np.ndarray:
        """Of each row, whether it matches: as the store says, for the last conditions."""
        with self._lock:
            packed = self._visible.get(visible.sql)
        if packed is None:
            matching = dataset.to_table(columns=[], filter=visible.sql, with_row_id=True)["_rowid"]
            packed = np.packbits(np.isin(self.rows, matching.to_numpy().astype(np.int64)))
            with self._lock:
                self._visible[visible.sql] = packed
        return np.unpackbits(packed, count=len(self.rows)).astype(bool)


class KeyedTable:
    """One version of a table, read by its keys: in memory once that pays, else by its indexes. For threads.

    Which rows a caller may see is part of each read.
    """

    def __init__(
        self, dataset: Any, keys: Sequence[str], numbers: Sequence[str], *, max_rows: int = MAX_ROWS
    ) -> None:
        self._dataset, self._keys, self._numbers, self._max_rows = dataset, keys, numbers, max_rows
        self._lookups = 0
        self._loaded: _Keys | None = None
        self._rows: int | None = None
        self._reading = threading.Lock()

    def read(self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows that match and are visible, in no particular order."""
        if not any(lookup.keys.values()) or visible == MATCH_NONE:
            return []
        loaded = self._load_if_due()
        if loaded is None:
            where = visible & lookup.to_filter()
            found = self._dataset.to_table(columns=list(columns), filter=where.sql, limit=limit)
            return found.to_pylist()
        rows = loaded.find(lookup, visible, self._dataset)[:limit].tolist()
        return self._dataset._take_rows(rows, columns=list(columns)).to_pylist() if rows else []

    def _load_if_due(self) -> _Keys | None:
        self._lookups += 1
        if self._loaded or self._lookups < _MIN_LOOKUPS:
            return self._loaded
        if not self._reading.acquire(blocking=False):
            return None  # another search reads them
        try:
            rows: int = self._dataset.count_rows() if self._rows is None else self._rows
            self._rows = rows
            is_due = rows <= min(self._max_rows, self._lookups * _ROWS_PER_LOOKUP)
            if is_due and self._loaded is None:
                self._loaded = _Keys.load(self._dataset, self._keys, self._numbers)
            return self._loaded
        finally:
            self._reading.release()
