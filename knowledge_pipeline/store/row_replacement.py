"""Replaces rows in one commit, and finds those that differ between versions, at a cost that follows them.

Lance's merge compares the key of every row of the table, and cannot remove what has gone in the same commit.
Files of a table never change: what differs is in files that only one version has, or is marked as deleted in
one of them.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.filters import Filter, one_of
from knowledge_pipeline.store.fragments import (
    WrittenRows,
    can_hold,
    leave_out,
    make_empty,
    read_addresses,
    read_deleted,
    read_fragment,
)
from knowledge_pipeline.store.lance_internals import (
    ADDRESS,
    OFFSET_BITS,
    FragmentFiles,
    ListedFragment,
    list_fragments,
    take_rows,
)
from knowledge_pipeline.store.lance_storage import StorePath, write_fragments

MAX_FILTER_VALUES = 1000  # more are compared in Arrow: a longer list costs more to plan than to run


class StaleRows(NamedTuple):
    """Rows to remove: those whose column holds one of the values, within a condition."""

    column: str
    values: Collection[Any]  # strings, or whole numbers
    within: Filter | None = None


def stage_replacement(
    dataset: Any, path: StorePath, stale: Iterable[StaleRows], batches: Iterable[pa.RecordBatch]
) -> Any:
    """Write files that hold the new rows and mark the stale ones as deleted.

    Returns:
        Lance's operation, to be committed; None where there is nothing to remove and nothing to add.
    """
    from lance import LanceOperation

    updated, removed = _delete_rows(dataset, stale)
    added = _write_rows(dataset, path, batches)
    if not (updated or removed or added):
        return None
    return LanceOperation.Update(
        removed_fragment_ids=removed, updated_fragments=updated, new_fragments=added, fields_modified=[]
    )


def find_fragments(dataset: Any, rows: StaleRows) -> set[int]:
    """The fragments that hold some rows."""
    return {address >> OFFSET_BITS for address in _iter_addresses(dataset, rows)}


def _write_rows(dataset: Any, path: StorePath, batches: Iterable[pa.RecordBatch]) -> list[Any]:
    """Fragments with the rows, in no version yet; none without a row."""
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return []
    written = WrittenRows(dataset)
    reader = pa.RecordBatchReader.from_batches(first.schema, written.pass_on(chain([first], rows)))
    fragments = write_fragments(reader, dataset, path)
    written.remember(fragments)
    return fragments


def _delete_rows(dataset: Any, stale: Iterable[StaleRows]) -> tuple[list[Any], list[int]]:
    """Fragments without their stale rows, and the ids of those that have no other."""
    offsets_by_fragment: defaultdict[int, set[int]] = defaultdict(set)
    for rows in stale:
        for address in _iter_addresses(dataset, rows):
            offsets_by_fragment[address >> OFFSET_BITS].add(address & ((1 << OFFSET_BITS) - 1))
    updated, removed = list[Any](), list[int]()
    for fragment, offsets in sorted(offsets_by_fragment.items()):
        rest = dataset.get_fragment(fragment).delete_rows(sorted(offsets))
        if rest is None:
            removed.append(fragment)
        else:
            updated.append(rest)
    return updated, removed


def _iter_addresses(dataset: Any, rows: StaleRows) -> Iterator[int]:
    if len(rows.values) <= MAX_FILTER_VALUES:
        where = one_of(rows.column, sorted(rows.values)) if rows.values else None
        if where is None:
            return
        where = rows.within & where if rows.within else where
        if (addresses := read_addresses(dataset, where)) is not None:
            yield from addresses
            return
        yield from _read_addresses(dataset, [], where)[ADDRESS].to_pylist()
        return
    candidates = _read_addresses(dataset, [rows.column], rows.within)
    values: Any = pa.array(rows.values, pa.string())
    yield from candidates.filter(pc.is_in(candidates[rows.column], value_set=values))[ADDRESS].to_pylist()


def _read_addresses(dataset: Any, columns: list[str], where: Filter | None) -> Any:
    return dataset.scanner(
        columns=columns, filter=where.sql if where else None, with_row_address=True
    ).to_table()


class RowChanges(NamedTuple):
    """Rows that one of two versions has and the other lacks; a row that was moved or replaced is in both."""

    before: pa.Table
    after: pa.Table


def find_changed_rows(
    then: Any, now: Any, columns: Sequence[str], *, max_rows: int | None = None
) -> RowChanges | None:
    """Columns of the rows that differ.

    Args:
        then: Lance's dataset at a version.
        now: the same table at another version.
        columns: to read; `ADDRESS` is where a row is.
        max_rows: None is returned where the files that one of the versions has alone hold more.

    Raises:
        OSError, ValueError: files of a version are gone.
    """
    before, after = list_fragments(then), list_fragments(now)
    moved = [(before.get(files) or after[files]).fragment for files in before.keys() ^ after.keys()]
    if max_rows is not None and sum(fragment.physical_rows for fragment in moved) > max_rows:
        return None
    stored = [name for name in columns if name != ADDRESS]
    empty = make_empty(then, stored)
    rows_before, rows_after = [empty], [empty]
    for files in before.keys() | after.keys():
        own, newer = before.get(files), after.get(files)
        if own and newer and own.deletion_file == newer.deletion_file:
            continue
        if own:
            rows_before.append(_find_rows_of_one(then, files, own, newer, stored))
        if newer:
            rows_after.append(_find_rows_of_one(now, files, newer, own, stored))
    return RowChanges(*(pa.concat_tables(rows).select(list(columns)) for rows in (rows_before, rows_after)))


def _find_rows_of_one(
    dataset: Any, files: FragmentFiles, own: ListedFragment, other: ListedFragment | None, names: list[str]
) -> pa.Table:
    """Rows that one state of a fragment has and another lacks, or all where there is no other."""
    is_held, lost = can_hold(dataset, names, own.fragment), np.empty(0, np.uint64)
    if other is not None:
        others, mine = read_deleted(dataset, files, other), read_deleted(dataset, files, own)
        lost = np.setdiff1d(others, mine, assume_unique=True)
        if not len(lost):
            return make_empty(dataset, names)
    if is_held:
        fragment, is_in = read_fragment(dataset, files, own, names), cast("Any", pc).is_in
        if other is None:
            return leave_out(fragment.rows, fragment.deleted)
        return fragment.rows.filter(is_in(fragment.rows[ADDRESS], value_set=pa.array(lost)))
    if other is None:
        return dataset.scanner(
            columns=sorted(names), fragments=[own.fragment], with_row_address=True
        ).to_table()
    rows = take_rows(dataset, lost.tolist(), sorted(names))
    return rows.append_column(ADDRESS, pa.array(lost))
