"""Small columns of tables that are not large, held in memory by the files that they come from.

A refresh asks the same keys and fingerprints of a table again and again, of version after version. Files of a
table never change, so what was read of one is never read again; a new version costs its new files, and the
marks of its deletions, which are left out of what is found. A scan of Lance costs one to three milliseconds,
whatever it finds, and ten where a hundred thousand keys are compared.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from knowledge_pipeline.store.filters import ColumnTest, Filter

MAX_TABLE_ROWS = 131_072  # of more, Lance reads what is asked for
MAX_HELD_ROWS = 600_000  # of all tables: 150 MB at most
MAX_WRITTEN_ROWS = 20_000  # of one commit that are kept until they are asked for
MAX_TAKEN_ROWS = 2_000  # by their addresses
LARGE_FRAGMENT_ROWS = 16_384
_MAX_MASKS = 64  # of one fragment, a bit for each of its rows
ADDRESS = "_rowaddr"
_HELD_COLUMNS = frozenset(
    {"id", "uri", "path", "language", "source", "source_type", "kind", "archived", "skipped", "unembedded"}
    | {"revision", "content_hash", "fingerprint", "row_hash", "text_key", "made_of", "interface"}
    | {"node", "target_id", "archived_at", "indexed_at", "updated_at", "release"}
)
"""Keys, fingerprints, times: of each row some hundred bytes together."""


class ListedFragment(NamedTuple):
    """A fragment of Lance, and the file that says which of its rows are deleted."""

    fragment: Any
    deletion_file: Any


class FragmentRows(NamedTuple):
    """Rows of a fragment, and the addresses of those that a version has not: deleted ones."""

    rows: pa.Table
    deleted: np.ndarray  # uint64, sorted
    masks: LRUCache[ColumnTest, Any]
    """Which of the rows match, by condition; of a large fragment, as the same is asked again and again."""


_NONE_DELETED = np.empty(0, np.uint64)
_held: LRUCache[tuple[Any, ...], FragmentRows] = LRUCache(
    MAX_HELD_ROWS, getsizeof=lambda held: 64 + len(held.rows)
)
"""By table and files, as some version has it."""
_deleted: LRUCache[tuple[Any, ...], np.ndarray] = LRUCache(
    MAX_HELD_ROWS, getsizeof=lambda rows: 64 + len(rows)
)
"""By table, files and mark."""
_written: LRUCache[tuple[str, ...], pa.Table] = LRUCache(64)  # by their files, in no version that was read
_asked: defaultdict[str, set[str]] = defaultdict(set)  # the columns of each table that were asked for
_lock = threading.RLock()


def list_fragments(dataset: Any) -> dict[tuple[Any, ...], ListedFragment]:
    """By their files, whatever is deleted in them; once for each dataset, as their files have all columns."""
    found: dict[tuple[Any, ...], ListedFragment] | None = getattr(dataset, "listed_fragments", None)
    if found is None:
        found = {}
        for fragment in dataset.get_fragments():
            metadata = fragment.metadata
            files = metadata.id, *(file.path for file in metadata.files)
            found[files] = ListedFragment(fragment, metadata.deletion_file)
        dataset.listed_fragments = found
    return found


def read_held(dataset: Any, columns: Collection[str], where: Filter | None = None) -> pa.Table | None:
    """Columns of the rows that match, `ADDRESS` among them if it is asked for.

    Returns:
        None where they are not held: the table or a column is large, or the condition is not simple.
    """
    test = where.test if where else None
    if where and test is None:
        return None
    needed = {*columns, *(test.columns if test else ())} - {ADDRESS}
    if not can_hold(dataset, needed):
        return None
    parts = [
        read_fragment(dataset, files, listed, needed) for files, listed in list_fragments(dataset).items()
    ]
    small = [part.rows for part in parts if not test or len(part.rows) < LARGE_FRAGMENT_ROWS]
    rows = pa.concat_tables(small) if small else make_empty(dataset, needed)
    if test:
        large = [_select(part, test) for part in parts if len(part.rows) >= LARGE_FRAGMENT_ROWS]
        rows = pa.concat_tables([rows.filter(_evaluate(rows, test)), *large])
    deleted = [part.deleted for part in parts if len(part.deleted)]
    if deleted and len(rows):
        rows = leave_out(rows, np.concatenate(deleted))
    return rows.select(list(columns))


def _select(held: FragmentRows, test: ColumnTest) -> pa.Table:
    """The rows of a large fragment that match, deleted or not."""
    with _lock:
        mask = held.masks.get(test)
    if mask is None:
        mask = _evaluate(held.rows, test)
        with _lock:
            held.masks[test] = mask
    return held.rows.filter(mask)


def read_matching(dataset: Any, columns: Sequence[str], where: Filter | None) -> pa.Table | None:
    """Any columns of the rows that match, from memory, or by their addresses: no other row is looked at.

    Returns:
        None where it is not held which rows match, or many do.
    """
    if (held := read_held(dataset, columns, where)) is not None:
        return held
    found = read_addresses(dataset, where) if where else None
    if found is None or len(found) > MAX_TAKEN_ROWS:
        return None
    return dataset._take_rows(found, columns=list(columns))


def read_addresses(dataset: Any, where: Filter) -> list[int] | None:
    """Where the rows that match are; None where that is not held."""
    found: Any = read_held(dataset, [ADDRESS], where)
    return None if found is None else found[ADDRESS].to_pylist()


def count_held(dataset: Any, where: Filter) -> int | None:
    """How many rows match; None where that is not held."""
    found = read_held(dataset, [ADDRESS], where)
    return None if found is None else len(found)


def read_fragment(
    dataset: Any, files: tuple[Any, ...], listed: ListedFragment, columns: Collection[str]
) -> FragmentRows:
    """These columns of the rows of a fragment, by name, then their addresses; also of rows deleted since."""
    with _lock:
        _asked[dataset.uri].update(columns)
        asked = _asked[dataset.uri] & _list_names(dataset)
        key, deleted = (dataset.uri, files), read_deleted(dataset, files, listed)
        held = known = _held.get(key)
        if held is None and (written := _recall_written(files)) is not None:
            held = _hold(written, _NONE_DELETED)
        if held is None or _lacks_rows(held, deleted):
            held = _hold(_scan(dataset, listed.fragment, asked), deleted)
        elif missing := asked.difference(held.rows.schema.names):
            held = _add_columns(dataset, listed.fragment, held._replace(deleted=deleted), missing)
        if held is not known:
            _held[key] = held
        return held._replace(rows=held.rows.select([*sorted(columns), ADDRESS]), deleted=deleted)


def _hold(rows: pa.Table, deleted: np.ndarray) -> FragmentRows:
    return FragmentRows(rows, deleted, LRUCache(_MAX_MASKS))


def _lacks_rows(held: FragmentRows, deleted: np.ndarray) -> bool:
    """Whether rows of a version are not held, as one that has other deletions was read."""
    is_same = held.deleted is deleted or not len(held.deleted)
    return not is_same and not np.isin(held.deleted, deleted, assume_unique=True).all()


def leave_out(rows: pa.Table, addresses: np.ndarray) -> pa.Table:
    """The rows that are not at these addresses."""
    if not (len(rows) and len(addresses)):
        return rows
    arrow: Any = pc  # whose stubs leave types out
    return rows.filter(arrow.invert(arrow.is_in(rows[ADDRESS], value_set=pa.array(addresses))))


def read_deleted(dataset: Any, files: tuple[Any, ...], listed: ListedFragment) -> np.ndarray:
    """The addresses of a fragment's deleted rows, sorted."""
    mark, fragment = listed.deletion_file, listed.fragment
    if mark is None:
        return _NONE_DELETED
    key = dataset.uri, files, mark.read_version, mark.id
    with _lock:
        known = _deleted.get(key)
    if known is None:
        live = fragment.scanner(columns=[], with_row_address=True).to_table()[ADDRESS].to_numpy()
        is_deleted, first = np.ones(fragment.physical_rows, np.bool_), np.uint64(fragment.fragment_id << 32)
        is_deleted[live - first] = False
        known = np.flatnonzero(is_deleted).astype(np.uint64) + first
        with _lock, suppress(ValueError):  # too many
            _deleted[key] = known
    return known


def _add_columns(dataset: Any, fragment: Any, held: FragmentRows, names: Collection[str]) -> FragmentRows:
    """More columns of a fragment; where rows of it were deleted since, all columns of those that are left."""
    found = _scan(dataset, fragment, names)
    rows, schema = held.rows, cast("Any", found.schema)  # whose stubs give fields no type
    if not found[ADDRESS].equals(rows[ADDRESS]):
        held = _hold(leave_out(rows, held.deleted), held.deleted)
        rows = held.rows
        assert found[ADDRESS].equals(rows[ADDRESS])
    for name in sorted(names):
        rows = rows.append_column(schema.field(name), found[name])
    return held._replace(rows=rows)


class WrittenRows:
    """Takes the small columns of rows that are about to be written, so that nobody has to read them."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._count = 0

    def pass_on(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches as they are."""
        for batch in batches:
            self._count += batch.num_rows
            if self._count <= MAX_WRITTEN_ROWS:
                self._batches.append(batch.select([n for n in batch.schema.names if n in _HELD_COLUMNS]))
            yield batch

    def remember(self, fragments: Sequence[Any]) -> None:
        """They are in these fragments now, which no version has yet."""
        if len(fragments) == 1 and 0 < self._count <= MAX_WRITTEN_ROWS:
            with _lock:
                _written[tuple(file.path for file in fragments[0].files)] = pa.Table.from_batches(
                    self._batches
                )


def _recall_written(files: tuple[Any, ...]) -> pa.Table | None:
    """The rows of a fragment that this process has written, deleted or not."""
    number, *paths = files
    rows = _written.pop(tuple(paths), None)
    if rows is None:
        return None
    addresses = pa.array(np.arange(len(rows), dtype=np.uint64) + np.uint64(number << 32))
    return rows.append_column(ADDRESS, addresses)


def can_hold(dataset: Any, columns: Collection[str], fragment: Any = None) -> bool:
    """Whether these columns of all rows are held, or of a fragment; of large tables small ones' are."""
    if not (_HELD_COLUMNS.issuperset(columns) and _list_names(dataset).issuperset(columns)):
        return False
    is_small = fragment is not None and fragment.physical_rows < LARGE_FRAGMENT_ROWS
    return is_small or _count_rows(dataset) <= MAX_TABLE_ROWS


def _count_rows(dataset: Any) -> int:
    """Of a version, which never changes; asking Lance takes 0.1 ms."""
    found: int | None = getattr(dataset, "row_count", None)
    if found is None:
        dataset.row_count = found = int(dataset.count_rows())
    return found


def _list_names(dataset: Any) -> frozenset[str]:
    """Of its columns; asking Lance for them takes 0.1 ms."""
    found: frozenset[str] | None = getattr(dataset, "column_names", None)
    if found is None:
        dataset.column_names = found = frozenset(dataset.schema.names)
    return found


def _scan(dataset: Any, fragment: Any, columns: Collection[str]) -> pa.Table:
    return dataset.scanner(columns=sorted(columns), fragments=[fragment], with_row_address=True).to_table()


def make_empty(dataset: Any, columns: Collection[str]) -> pa.Table:
    """No rows, with these columns, by name, and `ADDRESS`."""
    fields: list[Any] = [dataset.schema.field(name) for name in sorted(columns)]
    return pa.schema([*fields, pa.field(ADDRESS, pa.uint64())]).empty_table()


def _evaluate(rows: pa.Table, test: ColumnTest) -> Any:
    """What SQL says of each row: null where a column that is compared is null."""
    arrow: Any = pc  # whose stubs leave types out
    if test.kind in ("and", "or"):
        join = arrow.and_kleene if test.kind == "and" else arrow.or_kleene
        return reduce(join, [_evaluate(rows, part) for part in test.parts])
    if test.kind == "not":
        return arrow.invert(_evaluate(rows, test.parts[0]))
    column: Any = rows[test.column]
    to_array: Any = pa.array
    values = to_array(test.values, column.type)
    match test.kind:
        case "null":
            return arrow.is_null(column)
        case "=":
            return arrow.equal(column, values[0])
        case ">=":
            return arrow.greater_equal(column, values[0])
        case "starts":
            return arrow.starts_with(column, str(test.values[0]))
        case _:
            found = arrow.is_in(column, value_set=values)
            return arrow.if_else(column.is_valid(), found, pa.scalar(None, pa.bool_()))
