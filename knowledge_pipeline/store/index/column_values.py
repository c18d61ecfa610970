"""The values of a column of one version of an index, by which a pattern becomes a list of values.

A regular expression is compiled again for each batch of rows, and compared with each row, by each scan of a
question. An index has few repositories, authors and paths beside its rows, so the pattern is compared with
those once. They are kept as a small table of Lance in memory, because only the same program gives a regular
expression the same meaning.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from knowledge_pipeline.store import lance_storage
from knowledge_pipeline.store.filters import ColumnPattern, Filter, one_of

MAX_VALUES = 100_000  # of a column, about 10 MB; where there are more, patterns stay what they are
MAX_LISTED = 200  # values that a pattern becomes; a longer list takes longer than the pattern
MAX_PATTERNS = 1_000  # whose values are kept


class ColumnValues:
    """Rewrites conditions for one version of one table. Threads may share it."""

    def __init__(self, dataset: Any, *, max_values: int = MAX_VALUES) -> None:
        """Read nothing yet."""
        self._dataset, self._max_values = dataset, max_values
        self._tables: dict[str, Any] = {}  # of distinct values, by column; None: too many
        self._listed: LRUCache[ColumnPattern, Filter] = LRUCache(MAX_PATTERNS)
        self._lock = threading.Lock()

    def resolve(self, where: Filter) -> Filter:
        """A condition that the same rows meet, with lists in place of patterns where those are short."""
        sql = where.sql
        for pattern in dict.fromkeys(where.patterns):
            if isinstance(pattern, ColumnPattern):
                sql = sql.replace(pattern.sql, self._list_values(pattern).sql)
        return Filter(sql)

    def _list_values(self, pattern: ColumnPattern) -> Filter:
        with self._lock:
            if pattern not in self._listed:
                self._listed[pattern] = self._match(pattern)
            return self._listed[pattern]

    def _match(self, pattern: ColumnPattern) -> Filter:
        if pattern.column not in self._tables:
            self._tables[pattern.column] = self._read_values(pattern.column)
        if (values := self._tables[pattern.column]) is None:
            return Filter(pattern.sql)
        found = values.to_table(filter=pattern.sql, limit=MAX_LISTED + 1)[pattern.column].to_pylist()
        if len(found) > MAX_LISTED or any("\x00" in value for value in found):  # which no literal can hold
            return Filter(pattern.sql)
        return one_of(pattern.column, found)

    def _read_values(self, column: str) -> Any:
        values: Any = pc.unique(self._dataset.to_table(columns=[column])[column].combine_chunks()).drop_null()
        if len(values) > self._max_values:
            return None
        return lance_storage.create_in_memory(pa.Table.from_pydict({column: values}))
