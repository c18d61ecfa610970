"""Finds the rows that differ between two versions of a table, at a cost that follows those rows.

Files of a table never change. So what differs is in files that only one of the versions has, or is marked as
deleted in one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.changes.held_columns import (
    ADDRESS,
    ListedFragment,
    can_hold,
    leave_out,
    list_fragments,
    make_empty,
    read_deleted,
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
    dataset: Any, files: tuple[Any, ...], own: ListedFragment, other: ListedFragment | None, names: list[str]
) -> pa.Table:
    """Rows that one state of a fragment has and another lacks, or all where there is no other."""
    is_held, lost = can_hold(dataset, names, own.fragment), np.empty(0, np.uint64)
    if other is not None:
        others, mine = read_deleted(dataset, files, other), read_deleted(dataset, files, own)
        lost = np.setdiff1d(others, mine, assume_unique=True)
        if not len(lost):
            return make_empty(dataset, names)
    if is_held:
        held, is_in = read_fragment(dataset, files, own, names), cast("Any", pc).is_in
        if other is None:
            return leave_out(held.rows, held.deleted)
        return held.rows.filter(is_in(held.rows[ADDRESS], value_set=pa.array(lost)))
    if other is None:
        return dataset.scanner(
            columns=sorted(names), fragments=[own.fragment], with_row_address=True
        ).to_table()
    rows = dataset._take_rows(lost.tolist(), columns=sorted(names))
    return rows.append_column(ADDRESS, pa.array(lost))
