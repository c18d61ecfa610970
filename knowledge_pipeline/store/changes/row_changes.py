"""Finds the rows that differ between two versions of a table, at a cost that follows those rows.

Files of a table never change. So what differs is in files that only one of the versions has, or is marked as
deleted in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


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
        columns: to read.
        max_rows: None is returned where the files that one of the versions has alone hold more.

    Raises:
        OSError, ValueError: files of a version are gone.
    """
    before, after = _list_fragments(then), _list_fragments(now)
    gone = [before[files] for files in before.keys() - after.keys()]
    new = [after[files] for files in after.keys() - before.keys()]
    if max_rows is not None and sum(fragment.physical_rows for fragment in (*gone, *new)) > max_rows:
        return None
    none, names = now.schema.empty_table().select(columns), list(columns)
    rows_before = [none, *(each.to_table(columns=names) for each in gone)]
    rows_after = [none, *(each.to_table(columns=names) for each in new)]
    for files in before.keys() & after.keys():
        if before[files].metadata.deletion_file != after[files].metadata.deletion_file:
            own, other = _read_addresses(before[files]), _read_addresses(after[files])
            rows_before += _take_missing(before[files], own, other, names)
            rows_after += _take_missing(after[files], other, own, names)
    return RowChanges(pa.concat_tables(rows_before), pa.concat_tables(rows_after))


def _list_fragments(dataset: Any) -> dict[tuple[Any, ...], Any]:
    """By their files, whatever is deleted in them."""
    found: dict[tuple[Any, ...], Any] = {}
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        found[metadata.id, *(file.path for file in metadata.files)] = fragment
    return found


def _read_addresses(fragment: Any) -> np.ndarray:
    scanner = fragment.scanner(columns=[], with_row_address=True)
    return scanner.to_table()["_rowaddr"].to_numpy()


def _take_missing(
    fragment: Any, own: np.ndarray, other: np.ndarray, columns: list[str]
) -> Iterator[pa.Table]:
    """Rows of a fragment that another state of it lacks."""
    positions = np.flatnonzero(~np.isin(own, other, assume_unique=True))
    if len(positions):
        yield fragment.take(positions.tolist(), columns=columns)
