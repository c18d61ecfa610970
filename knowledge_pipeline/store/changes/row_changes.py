"""Finds the rows that differ between two versions of a table, at a cost that follows those rows.

Files of a table never change. So what differs is in files that only one of the versions has, or is marked as
deleted in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.changes.held_columns import (
    ADDRESS,
    FragmentRows,
    can_hold_changes,
    leave_out,
    list_fragments,
    make_empty,
    read_fragment,
)


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
        columns: to read; `ADDRESS`, last, is where a row is.
        max_rows: None is returned where the files that one of the versions has alone hold more.

    Raises:
        OSError, ValueError: files of a version are gone.
    """
    before, after = list_fragments(then), list_fragments(now)
    gone = [before[files].fragment for files in before.keys() - after.keys()]
    new = [after[files].fragment for files in after.keys() - before.keys()]
    if max_rows is not None and sum(fragment.physical_rows for fragment in (*gone, *new)) > max_rows:
        return None
    names = list(columns)
    if can_hold_changes((then, now), {*names} - {ADDRESS}):
        return _find_held_changes(then, now, names)
    rows_before, rows_after = [_read_fragments(then, gone, names)], [_read_fragments(now, new, names)]
    for files in before.keys() & after.keys():
        if before[files].deletion_file != after[files].deletion_file:
            former, newer = before[files].fragment, after[files].fragment
            own, other = _read_addresses(former), _read_addresses(newer)
            rows_before += _take_missing(former, own, other, names)
            rows_after += _take_missing(newer, other, own, names)
    return RowChanges(pa.concat_tables(rows_before), pa.concat_tables(rows_after))


def _find_held_changes(then: Any, now: Any, columns: list[str]) -> RowChanges:
    """The same of columns in memory."""
    before, after = list_fragments(then), list_fragments(now)
    stored = {*columns} - {ADDRESS}
    empty = make_empty(then, stored).select(columns)
    rows_before, rows_after = [empty], [empty]
    for files in before.keys() | after.keys():
        own, newer = before.get(files), after.get(files)
        if own and newer and own.deletion_file == newer.deletion_file:
            continue
        held = read_fragment(then, files, own, stored) if own else None
        other = read_fragment(now, files, newer, stored) if newer else None
        if held:
            rows_before.append(_find_rows_of_one(held, other).select(columns))
        if other:
            rows_after.append(_find_rows_of_one(other, held).select(columns))
    return RowChanges(pa.concat_tables(rows_before), pa.concat_tables(rows_after))


def _find_rows_of_one(held: FragmentRows, other: FragmentRows | None) -> pa.Table:
    """Rows that one state of a fragment has and another lacks, or all where there is no other."""
    if other is None:
        return leave_out(held.rows, held.deleted)
    arrow: Any = pc  # whose stubs leave types out
    lost = pa.array(np.setdiff1d(other.deleted, held.deleted, assume_unique=True))
    return held.rows.filter(arrow.is_in(held.rows[ADDRESS], value_set=lost))


def _read_fragments(dataset: Any, fragments: list[Any], columns: list[str]) -> pa.Table:
    stored = [name for name in columns if name != ADDRESS]
    if not fragments:
        return make_empty(dataset, stored).select(columns)
    has_address = len(stored) < len(columns)
    return dataset.scanner(columns=stored, fragments=fragments, with_row_address=has_address).to_table()


def _read_addresses(fragment: Any) -> np.ndarray:
    scanner = fragment.scanner(columns=[], with_row_address=True)
    return scanner.to_table()[ADDRESS].to_numpy()


def _take_missing(
    fragment: Any, own: np.ndarray, other: np.ndarray, columns: list[str]
) -> Iterator[pa.Table]:
    """Rows of a fragment that another state of it lacks."""
    positions = np.flatnonzero(~np.isin(own, other, assume_unique=True))
    if len(positions):
        stored = [name for name in columns if name != ADDRESS]
        rows = fragment.take(positions.tolist(), columns=stored)
        yield rows.append_column(ADDRESS, pa.array(own[positions])).select(columns)
