"""What conditions mean in one version of an index, so that searches do not evaluate them again.

Callers who may see the same ask under the same condition, and Lance looks into its indexes for each part of
it at each search, which takes as long as the search. A version never changes, so the rows are read once and
handed to Lance as a mask. Its index of vectors looks up each row there, which takes as long as finding the
nearest. So where many match, the nearest of all are asked for, and those that match are kept.

Of rows beyond the index of words Lance counts those alone that meet a filter, but all of them beside a mask,
which gives other scores. So while there are any, conditions are evaluated.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store import lance_storage
from knowledge_pipeline.store.file_cache import DueValue, RecentValues
from knowledge_pipeline.store.filters import ColumnPattern, Filter
from knowledge_pipeline.store.lance_internals import allow_rows
from knowledge_pipeline.store.segments import list_fragments_beyond

MAX_VALUES = 100_000  # of a column, about 10 MB; where there are more, patterns stay what they are
MAX_LISTED = 200  # values that a pattern becomes; a longer list takes longer than the pattern
MAX_PATTERNS = 1_000  # whose values are kept


class ColumnValues:
    """Says what a condition means in one version of one table: its SQL. Threads may share it.

    Each scan compiles a regular expression again for each batch of rows, and compares it with each row. An
    index has few repositories, authors and paths beside its rows, so the pattern is compared with those once,
    and becomes a list of them. They are kept as a table of Lance in memory: only the same program gives a
    pattern the same meaning.
    """

    def __init__(
        self,
        dataset: Any,
        resolve_branches: Callable[[Filter], Filter] | None = None,
        *,
        max_values: int = MAX_VALUES,
    ) -> None:
        """Read nothing yet; conditions on branches are resolved before patterns."""
        self._dataset, self._resolve_branches, self._max_values = dataset, resolve_branches, max_values
        self._tables = RecentValues[tuple[Any]](MAX_PATTERNS)  # of distinct values, by column; None: too many
        self._lists = RecentValues[str](MAX_PATTERNS)

    def resolve(self, where: Filter) -> Filter:
        """A condition that the same rows meet, with lists in place of patterns where those are short."""
        if self._resolve_branches:
            where = self._resolve_branches(where)
        sql = where.sql
        for pattern in dict.fromkeys(where.patterns):
            if isinstance(pattern, ColumnPattern):
                listed = self._lists.load(pattern, lambda pattern=pattern: self._list_values(pattern))
                sql = sql.replace(pattern.sql, listed)
        return Filter(sql)

    def _list_values(self, pattern: ColumnPattern) -> str:
        column = pattern.column

        def read_values() -> tuple[Any]:
            rows = self._dataset.to_table(columns=[column])[column].combine_chunks()
            values: Any = pc.unique(rows.flatten() if pattern.of_list else rows).drop_null()
            if len(values) > self._max_values:
                return (None,)
            return (lance_storage.create_in_memory(pa.Table.from_pydict({column: values})),)

        (values,) = self._tables.load(column, read_values)
        if values is None:
            return pattern.sql
        condition = replace(pattern, of_list=False).sql
        matches = values.to_table(filter=condition, limit=MAX_LISTED + 1)[column].to_pylist()
        # No literal can hold a zero character.
        is_list = len(matches) <= MAX_LISTED and not any("\x00" in value for value in matches)
        return pattern.list_values(matches).sql if is_list else pattern.sql


def count_values(dataset: Any, columns: Sequence[str], condition: str) -> Counter[tuple[Any, ...]]:
    """How many rows that meet a condition have which values; of a batch only its counts are kept."""
    counts = Counter[tuple[Any, ...]]()
    for batch in dataset.scanner(list(columns), condition).to_batches():
        groups: Any = pa.Table.from_batches([batch]).group_by(list(columns)).aggregate([([], "count_all")])
        rows = zip(*(groups[name].to_pylist() for name in (*columns, "count_all")), strict=True)
        counts.update({tuple(values): rows_of for *values, rows_of in rows})
    return counts


MAX_LISTED_VALUES = 200_000  # of a column; about 100 bytes each
_MIN_SEARCHES = 2  # of one version: a process that asks once would read more than it saves


class ListedValues:
    """What the list columns of one version of an index hold, whoever may see it. Threads may share it.

    Most names that a text mentions are none of them, and a question in a store of code asks for little else:
    asking the index for names that no row has takes it some milliseconds.
    """

    def __init__(self, dataset: Any, *, max_values: int = MAX_LISTED_VALUES) -> None:
        """Read nothing yet."""
        self._dataset, self._max_values = dataset, max_values
        self._columns = dict[str, DueValue[tuple[frozenset[str] | None]]]()  # None: too many

    def knows(self, column: str) -> bool:
        """Whether the values of a column are known, so that asking reads nothing."""
        return column in self._columns and self._columns[column].value is not None

    def keep_listed(self, column: str, values: Collection[str]) -> list[str]:
        """Those of the values that a row may have in the column; all of them where that is not known."""
        if not values:
            return []
        due = self._columns.setdefault(column, DueValue(min_uses=_MIN_SEARCHES))
        (listed,) = due.use(lambda _: (self._read(column),)) or (None,)
        return list(values) if listed is None else [value for value in values if value in listed]

    def _read(self, column: str) -> frozenset[str] | None:
        values = set[str]()
        for batch in self._dataset.to_batches(columns=[column]):
            values.update(batch.column(0).flatten().unique().to_pylist())
            if len(values) > self._max_values:
                return None
        return frozenset(values)


def read_values(dataset: Any, column: str, where: Filter) -> Sequence[str]:
    """The distinct values of a column of text, or of lists, in the rows that match, or enough, sorted."""
    values = set[str]()
    for batch in dataset.to_batches(columns=[column], filter=where.sql):
        cells: Any = batch.column(0)
        texts = cells.flatten() if pa.types.is_list(cells.type) else cells
        values.update(pc.unique(texts).drop_null().to_pylist())
        if len(values) > MAX_LISTED_VALUES:
            break
    return sorted(values)


MAX_ROWS = 300_000  # of the index: packing the rows of a condition holds a thread. Of more, few rows are kept
MAX_CONDITIONS = 64  # whose rows are kept: two bits for each row, at most 5 MB
MIN_FEW, MAX_FEW = 2_000, 10_000  # rows that are compared in less time than a search under a filter takes
_FEW_SHARE = 100  # of a large index, where such a search takes longer: one row in so many; at most 5 MB
MANY_SHARE = 0.4  # of all rows: of fewer, more would have to be found than a mask takes to look up

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


class Matches(NamedTuple):
    """The rows of a condition, in the forms that searches need."""

    mask: ScanOptions
    few: np.ndarray | None = None  # ids, ascending, where they are few enough to compare all
    many: RowSet | None = None  # where they are at least `MANY_SHARE` of all, but not all


class MatchingRows:
    """The rows of the conditions asked last, of one version of an index. Threads may share it."""

    def __init__(self, dataset: Any, values: ColumnValues, *, max_rows: int = MAX_ROWS) -> None:
        """Read nothing yet."""
        self._dataset, self._values, self._max_rows = dataset, values, max_rows
        self._searches = RecentValues[int](MAX_CONDITIONS)  # of conditions whose rows are not known
        self._matches = RecentValues[Matches](MAX_CONDITIONS)

    def find(self, where: Filter) -> Matches | None:
        """What is known by now of the rows of a condition."""
        return self._matches.get(where.sql)

    def restrict(self, where: Filter) -> ScanOptions:
        """What makes a search find matching rows alone."""
        if matches := self.find(where):
            return matches.mask
        searches = (self._searches.get(where.sql) or 0) + 1
        self._searches.put(where.sql, searches)
        condition = {"filter": self._values.resolve(where).sql}
        # One that is asked once would read more than it saves; later ones need not wait for its rows.
        if searches != _MIN_SEARCHES or not self._max_rows or not (matches := self._read(condition)):
            return condition
        self._matches.put(where.sql, matches)
        return matches.mask

    def _read(self, condition: ScanOptions) -> Matches | None:
        """The rows of a condition; None of a large index where they are not few."""
        count = int(self._dataset.count_rows())
        most_few = max(MIN_FEW, min(count // _FEW_SHARE, MAX_FEW))
        limit = most_few + 1 if count > self._max_rows else None
        ids: Any = self._dataset.to_table(columns=[], with_row_id=True, limit=limit, **condition)["_rowid"]
        if len(ids) == limit:
            return None
        rows = np.sort(ids.to_numpy().astype(np.int64))
        is_many = most_few < len(rows) < count and len(rows) >= MANY_SHARE * count
        mask: ScanOptions = {}
        if len(rows) < count:
            mask = condition if list_fragments_beyond(self._dataset, "words") else allow_rows(ids.to_pylist())
        return Matches(
            mask, rows if len(rows) <= most_few else None, RowSet.of(rows, count) if is_many else None
        )
