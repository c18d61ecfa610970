"""What is held in memory of a table's files: small columns and outlines; which of its rows change, and did.

A refresh asks the same keys and fingerprints of a table again and again, of version after version. Files of a
table never change, so what was read of one is never read again: a new version costs its new files, and the
marks of its deletions, which are left out of the rows. A scan of Lance costs one to three milliseconds,
whatever it finds, and ten where a hundred thousand keys are compared. What differs between two versions is in
files that only one of them has, or is marked as deleted in one of them. Lance's merge compares the key of
every row, and cannot remove what has gone in the same commit.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import chain, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.file_cache import FileCache, Kind, RecentValues
from knowledge_pipeline.store.filters import ColumnTest, Filter, one_of
from knowledge_pipeline.store.lance_internals import (
    ADDRESS,
    OFFSET_BITS,
    FragmentFiles,
    ListedFragment,
    count_rows,
    describe_version,
    list_columns,
    list_fragments,
    take_rows,
)
from knowledge_pipeline.store.lance_storage import StorePath, write_fragments

MAX_TABLE_ROWS = 131_072  # of more, Lance reads what is asked for
MAX_WRITTEN_ROWS = 20_000  # of one commit that are kept until they are asked for
MAX_TAKEN_ROWS = 2_000  # by their addresses
LARGE_FRAGMENT_ROWS = 16_384
_MAX_GONE_FILES = 32  # of a table, whose rows are held, besides as many as it has
_MAX_MASKS = 64  # of one fragment, a bit for each of its rows
_HELD_COLUMNS = frozenset(
    {"id", "uri", "path", "language", "source", "source_type", "kind", "archived", "skipped", "unembedded"}
    | {"revision", "content_hash", "fingerprint", "row_hash", "text_key", "made_of", "interface"}
    | {"node", "target_id", "archived_at", "indexed_at", "updated_at", "release"}
)
"""Keys, fingerprints, times: of each row some hundred bytes together."""


class FragmentRows(NamedTuple):
    """Rows of a fragment, and the addresses of those that a version has not: deleted ones."""

    rows: pa.Table
    deleted: np.ndarray  # uint64, sorted
    masks: RecentValues[Any]
    """Which of the rows match, by condition; of a large fragment, as the same is asked again and again."""


_NONE_DELETED = np.empty(0, np.uint64)


def _count_bytes(fragment: FragmentRows) -> int:
    masks = len(fragment.rows) * _MAX_MASKS // 8 if len(fragment.rows) >= LARGE_FRAGMENT_ROWS else 0
    return fragment.rows.nbytes + fragment.deleted.nbytes + masks


FRAGMENT_ROWS = Kind[FragmentRows](_count_bytes)  # by files, as some version has them
DELETED_ROWS = Kind[np.ndarray](lambda addresses: addresses.nbytes)  # by files and mark
READ_FILES = Kind[set[FragmentFiles]](lambda files: 0)  # of a table, as they were read
WRITTEN_ROWS = Kind[pa.Table](lambda rows: rows.nbytes)  # by files, in no version that was read
WANTED_COLUMNS = Kind[frozenset[str]](lambda names: 100 * len(names))  # of a table, as they were asked for


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
        large = [part for part in parts if len(part.rows) >= LARGE_FRAGMENT_ROWS]
        masks = (part.masks.load(test, partial(_evaluate, part.rows, test)) for part in large)
        selected = [part.rows.filter(mask) for part, mask in zip(large, masks, strict=True)]
        rows = pa.concat_tables([rows.filter(_evaluate(rows, test)), *selected])
    deleted = [part.deleted for part in parts if len(part.deleted)]
    if deleted and len(rows):
        rows = leave_out(rows, np.concatenate(deleted))
    return rows.select(list(columns))


def read_matching(dataset: Any, columns: Sequence[str], where: Filter | None) -> pa.Table | None:
    """Any columns of the rows that match, from memory, or by their addresses: no other row is looked at.

    Returns:
        None where it is not held which rows match, or many do.
    """
    if (rows := read_held(dataset, columns, where)) is not None:
        return rows
    addresses = read_addresses(dataset, where) if where else None
    if addresses is None or len(addresses) > MAX_TAKEN_ROWS:
        return None
    return take_rows(dataset, addresses, columns)


def read_addresses(dataset: Any, where: Filter) -> list[int] | None:
    """Where the rows that match are; None where that is not held."""
    rows: Any = read_held(dataset, [ADDRESS], where)
    return None if rows is None else rows[ADDRESS].to_pylist()


def count_held(dataset: Any, where: Filter) -> int | None:
    """How many rows match; None where that is not held."""
    rows = read_held(dataset, [ADDRESS], where)
    return None if rows is None else len(rows)


def read_fragment(
    dataset: Any, files: FragmentFiles, listed: ListedFragment, columns: Collection[str]
) -> FragmentRows:
    """These columns of the rows of a fragment, by name, then their addresses; also of rows deleted since."""
    cache, table = describe_version(dataset).files, dataset.uri
    with cache.reading:
        wanted = cache.get(WANTED_COLUMNS, table) or frozenset()
        if not wanted.issuperset(columns):
            wanted = wanted.union(columns)
            cache.put(WANTED_COLUMNS, table, None, wanted)
        wanted, deleted = wanted & list_columns(dataset), read_deleted(dataset, files, listed)
        current = cached = cache.get(FRAGMENT_ROWS, table, files)
        if current is None:  # this process may have written it
            number, *paths = files
            written = cache.take(WRITTEN_ROWS, table, tuple(paths))
            if written is not None:
                addresses = np.arange(len(written), dtype=np.uint64) + np.uint64(number << OFFSET_BITS)
                current = _hold(written.append_column(ADDRESS, pa.array(addresses)), _NONE_DELETED)
        if current is None or _lacks_rows(current, deleted):
            current = _hold(_scan(dataset, wanted, fragment=listed.fragment), deleted)
        elif missing := wanted.difference(current.rows.schema.names):
            current = _add_columns(dataset, listed.fragment, current._replace(deleted=deleted), missing)
        if cached is None:
            _drop_gone_files(dataset, cache, files)
        if current is not cached:
            cache.put(FRAGMENT_ROWS, table, files, current)
        return current._replace(rows=current.rows.select([*sorted(columns), ADDRESS]), deleted=deleted)


def _drop_gone_files(dataset: Any, cache: FileCache, added: FragmentFiles) -> None:
    """Hold nothing of files and deletions that a version lacks, once there are more files than its own."""
    read, listed = cache.get(READ_FILES, dataset.uri) or set[FragmentFiles](), list_fragments(dataset)
    read.add(added)
    if len(read) > 2 * len(listed) + _MAX_GONE_FILES:
        marks = ((files, fragment.deletion_file) for files, fragment in listed.items())
        present: Mapping[Kind[Any], Collection[Any]] = {
            FRAGMENT_ROWS: listed.keys(),
            DELETED_ROWS: {(files, mark.read_version, mark.id) for files, mark in marks if mark},
            WRITTEN_ROWS: {files[1:] for files in listed},  # without the number
        }
        for kind, keys in present.items():
            for table, key, _ in cache.items(kind):
                if table == dataset.uri and key not in keys:
                    cache.take(kind, table, key)
        read.intersection_update(listed)
    cache.put(READ_FILES, dataset.uri, None, read)


def _hold(rows: pa.Table, deleted: np.ndarray) -> FragmentRows:
    return FragmentRows(rows, deleted, RecentValues(_MAX_MASKS))


def _lacks_rows(cached: FragmentRows, deleted: np.ndarray) -> bool:
    """Whether rows of a version are not held, as one that has other deletions was read."""
    is_same = cached.deleted is deleted or not len(cached.deleted)
    return not is_same and not np.isin(cached.deleted, deleted, assume_unique=True).all()


def leave_out(rows: pa.Table, addresses: np.ndarray) -> pa.Table:
    """The rows that are not at these addresses."""
    if not (len(rows) and len(addresses)):
        return rows
    arrow: Any = pc  # whose stubs leave types out
    return rows.filter(arrow.invert(arrow.is_in(rows[ADDRESS], value_set=pa.array(addresses))))


def read_deleted(dataset: Any, files: FragmentFiles, listed: ListedFragment) -> np.ndarray:
    """The addresses of a fragment's deleted rows, sorted."""
    mark, fragment = listed.deletion_file, listed.fragment
    if mark is None:
        return _NONE_DELETED
    cache, key = describe_version(dataset).files, (files, mark.read_version, mark.id)
    addresses = cache.get(DELETED_ROWS, dataset.uri, key)
    if addresses is None:
        live = fragment.scanner(columns=[], with_row_address=True).to_table()[ADDRESS].to_numpy()
        is_deleted, first = np.ones(fragment.physical_rows, np.bool_), np.uint64(fragment.fragment_id << 32)
        is_deleted[live - first] = False
        addresses = np.flatnonzero(is_deleted).astype(np.uint64) + first
        cache.put(DELETED_ROWS, dataset.uri, key, addresses)
    return addresses


def _add_columns(dataset: Any, fragment: Any, cached: FragmentRows, names: Collection[str]) -> FragmentRows:
    """More columns of a fragment; where rows of it were deleted since, all columns of those that are left."""
    added = _scan(dataset, names, fragment=fragment)
    rows, schema = cached.rows, added.schema
    if not added[ADDRESS].equals(rows[ADDRESS]):
        cached = _hold(leave_out(rows, cached.deleted), cached.deleted)
        rows = cached.rows
        assert added[ADDRESS].equals(rows[ADDRESS])
    for name in sorted(names):
        rows = rows.append_column(schema.field(name), added[name])
    return cached._replace(rows=rows)


class WrittenRows:
    """Takes the small columns of rows that are about to be written, so that nobody has to read them."""

    def __init__(self, dataset: Any) -> None:
        """Read nothing yet; the rows are written to the table of this dataset."""
        self._cache, self._table = describe_version(dataset).files, dataset.uri
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
            files = tuple(str(file.path) for file in fragments[0].files)
            self._cache.put(WRITTEN_ROWS, self._table, files, pa.Table.from_batches(self._batches))


def can_hold(dataset: Any, columns: Collection[str], fragment: Any = None) -> bool:
    """Whether these columns of all rows are held, or of a fragment; of large tables small ones' are."""
    if not (_HELD_COLUMNS.issuperset(columns) and list_columns(dataset).issuperset(columns)):
        return False
    is_small = fragment is not None and fragment.physical_rows < LARGE_FRAGMENT_ROWS
    return is_small or count_rows(dataset) <= MAX_TABLE_ROWS


def _scan(dataset: Any, columns: Collection[str], where: Filter | None = None, fragment: Any = None) -> Any:
    """Columns, by name, and addresses, of a fragment or of all."""
    return dataset.scanner(
        columns=sorted(columns),
        filter=where.sql if where else None,
        fragments=[fragment] if fragment else None,
        with_row_address=True,
    ).to_table()


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
            is_in = arrow.is_in(column, value_set=values)
            return arrow.if_else(column.is_valid(), is_in, pa.scalar(None, pa.bool_()))


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Where the rows of each key are. Keys are known by their hashes, which for 64 bits do not meet."""

    hashes: np.ndarray  # int64, ascending: of the keys
    starts: np.ndarray  # int32: where the rows of each key begin, and the end of all
    rows: np.ndarray  # by key

    @classmethod
    def build(cls, keys: Sequence[str], codes: np.ndarray, rows: np.ndarray) -> KeyIndex:
        """Of some keys, each once; of each use of a key its position among them, and the row that uses it."""
        hashes = np.fromiter(map(hash, keys), np.int64, len(keys))
        order = np.argsort(hashes)
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        uses = ranks[codes]
        starts = np.concatenate([[0], np.cumsum(np.bincount(uses, minlength=len(order)))]).astype(np.int32)
        return cls(hashes[order], starts, rows[np.argsort(uses, kind="stable")])

    def find(self, key: str) -> np.ndarray:
        """The rows with a key."""
        hashed, starts = hash(key), self.starts
        first, end = self.hashes.searchsorted(hashed, "left"), self.hashes.searchsorted(hashed, "right")
        return self.rows[starts[first] : starts[end]]


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
    if not rows.values:
        return
    if len(rows.values) <= MAX_FILTER_VALUES:
        where = one_of(rows.column, sorted(rows.values))
        where = rows.within & where if rows.within else where
        addresses = read_addresses(dataset, where)
        yield from _scan(dataset, [], where)[ADDRESS].to_pylist() if addresses is None else addresses
        return
    candidates, arrow = _scan(dataset, [rows.column], rows.within), cast("Any", pc)  # whose stubs lack types
    is_stale = arrow.is_in(candidates[rows.column], value_set=pa.array(list(rows.values), pa.string()))
    yield from candidates.filter(is_stale)[ADDRESS].to_pylist()


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


def find_covered_fragments(then: Any, now: Any) -> set[int]:
    """Fragments of which one version has all rows of another: a rollback brings deleted rows back."""
    before, after = list_fragments(then), list_fragments(now)

    def is_covered(files: FragmentFiles) -> bool:
        if before[files].deletion_file == after[files].deletion_file:
            return True
        deleted = read_deleted(then, files, before[files]), read_deleted(now, files, after[files])
        return bool(np.isin(*deleted, assume_unique=True).all())

    return {files[0] for files in before.keys() & after.keys() if is_covered(files)}


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
        return _scan(dataset, names, fragment=own.fragment)
    rows = take_rows(dataset, lost.tolist(), sorted(names))
    return rows.append_column(ADDRESS, pa.array(lost))


_BATCH_ROWS = 1024  # whose metadata are in memory at a time
_COLUMNS = ("id", "source", "path", "source_type")


class ChunkOutline(NamedTuple):
    """What ranking needs of a row: of two hundred candidates a handful are shown."""

    id: str
    source: str
    path: str
    symbols: tuple[str, ...]  # qualified names of what its text defines, each once
    source_type: str


class OutlineFile(NamedTuple):
    """What the chunks of a file, or of a document, have in common."""

    source: str
    path: str
    source_type: str


def order_by_id(ids: Sequence[str]) -> np.ndarray:
    """Positions in the order of ids, those of equal ones in their own: int64."""
    return np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)


class Outlines:
    """The outlines of some rows, as columns: objects would take longer to make than to use."""

    def __init__(
        self,
        ids: list[str],
        files: list[OutlineFile],
        file_numbers: np.ndarray,
        read_symbols: Callable[[], Iterable[tuple[str, ...]]],
    ) -> None:
        """Ids and symbols of each row; symbols are read when a question names any.

        `file_numbers` are the positions in `files` of each row's: int64.
        """
        self.ids, self.files, self.file_numbers = ids, files, file_numbers
        self._read_symbols = read_symbols

    @classmethod
    def of(cls, outlines: Iterable[ChunkOutline]) -> Outlines:
        """The columns of some outlines."""
        listed, numbers = list(outlines), dict[OutlineFile, int]()
        files = [OutlineFile(outline.source, outline.path, outline.source_type) for outline in listed]
        own = np.array([numbers.setdefault(file, len(numbers)) for file in files], np.int64)
        ids = [outline.id for outline in listed]
        return cls(ids, list(numbers), own, lambda: [outline.symbols for outline in listed])

    @classmethod
    def join(cls, parts: Sequence[Outlines]) -> Outlines:
        """Those of several tables' files, one after the other."""
        if len(parts) == 1:
            return parts[0]
        numbers, joined = dict[OutlineFile, int](), [np.empty(0, np.int64)]
        for part in parts:
            own = np.array([numbers.setdefault(file, len(numbers)) for file in part.files], np.int64)
            joined.append(own[part.file_numbers])
        ids = [id_ for part in parts for id_ in part.ids]
        symbols = (part.symbols for part in parts)
        return cls(ids, list(numbers), np.concatenate(joined), lambda: chain.from_iterable(symbols))

    @cached_property
    def symbols(self) -> list[tuple[str, ...]]:
        """Qualified names of what the text of each row defines, each once."""
        return list(self._read_symbols())

    @cached_property
    def by_id(self) -> np.ndarray:
        """See `order_by_id`."""
        return order_by_id(self.ids)

    def mark_files(self, is_marked: Callable[[OutlineFile], bool]) -> np.ndarray:
        """For each row whether its file is one of some."""
        return np.fromiter(map(is_marked, self.files), bool, len(self.files))[self.file_numbers]

    def take(self, at: np.ndarray) -> Outlines:
        """Those of some rows, by their positions."""
        listed: list[int] = at.tolist()
        ids = [self.ids[position] for position in listed]
        return Outlines(
            ids, self.files, self.file_numbers[at], lambda: [self.symbols[position] for position in listed]
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, at: int) -> ChunkOutline:
        file = self.files[int(self.file_numbers[at])]
        return ChunkOutline(self.ids[at], file.source, file.path, self.symbols[at], file.source_type)

    def __iter__(self) -> Iterator[ChunkOutline]:
        return map(self.__getitem__, range(len(self)))


@dataclass(frozen=True, slots=True)
class OutlineColumns:
    """The outlines of the rows that a file has in one version of an index.

    A search has two hundred candidates and shows five. Taking so many rows from the file costs more than
    either search does; a row takes about a hundred bytes here.
    """

    places: np.ndarray  # int64, ascending: of the rows in the file
    _ids: Any  # of Arrow
    _files: list[OutlineFile]  # each once
    _file_numbers: np.ndarray  # int32: of each row
    _symbols: Any  # of Arrow: a list for each row

    @classmethod
    def read_fragment(cls, dataset: Any, fragment: int) -> OutlineColumns:
        """Read the rows of a fragment, in some ten microseconds of the processor each.

        Metadata are read by themselves: what is kept of a batch keeps all of it in memory.
        """
        rows = dataset.get_fragment(fragment).to_table(columns=list(_COLUMNS), with_row_id=True)
        batches = dataset.get_fragment(fragment).to_batches(
            columns=["symbol", "metadata"], batch_size=_BATCH_ROWS, batch_readahead=1
        )
        symbols = (pa.array(_list_symbols(batch), pa.list_(pa.string())) for batch in batches)
        files, file_numbers = _number_files(*(rows[name] for name in OutlineFile._fields))
        return cls(
            (rows["_rowid"].to_numpy() & 0xFFFFFFFF).astype(np.int64),
            rows["id"].combine_chunks(),
            files,
            file_numbers,
            pa.chunked_array(symbols).combine_chunks(),
        )

    def find(self, places: np.ndarray) -> Outlines | None:
        """The outlines of the rows at some places; None unless the version that was read had all of them."""
        at = np.searchsorted(self.places, places).clip(max=len(self.places) - 1)
        if not np.array_equal(self.places[at], places):
            return None

        def read_symbols() -> Iterator[tuple[str, ...]]:
            lists = self._symbols.take(pa.array(at))
            names, ends = lists.values.to_pylist(), lists.offsets.to_pylist()
            return (tuple(names[start:end]) for start, end in pairwise(ends))

        ids = self._ids.take(pa.array(at)).to_pylist()
        numbers, own = np.unique(self._file_numbers[at], return_inverse=True)
        return Outlines(ids, [self._files[number] for number in numbers.tolist()], own, read_symbols)


def _number_files(*columns: Any) -> tuple[list[OutlineFile], np.ndarray]:
    """The files of some rows, each once, and which of them each row is of."""
    encoded = [column.combine_chunks().dictionary_encode() for column in columns]
    values: list[list[str]] = [column.dictionary.to_pylist() for column in encoded]
    sizes = [max(len(value), 1) for value in values]
    keys = np.ravel_multi_index([column.indices.to_numpy() for column in encoded], sizes)
    distinct, numbers = np.unique(keys, return_inverse=True)
    of_files = np.unravel_index(distinct, sizes)
    fields = (map(value.__getitem__, at.tolist()) for value, at in zip(values, of_files, strict=True))
    return list(map(OutlineFile, *fields)), numbers.astype(np.int32)


def _list_symbols(rows: Any) -> Iterator[list[str]]:
    """Each row's own symbol, then those in its metadata."""
    for own, text in zip(rows["symbol"].to_pylist(), rows["metadata"].to_pylist(), strict=True):
        further = json.loads(text).get("symbols", ()) if '"symbols"' in text else ()
        yield list(dict.fromkeys(filter(None, (own, *further))))
