"""Which rows name a term, held in memory by files; and which rows changed since nothing was left to do.

A file of a table never changes, so a new version costs its new files. Of a hundred thousand chunks of code
the terms take some 6 MB: the names that files define, and those that files ask about.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.file_cache import Kind
from knowledge_pipeline.store.filters import Filter, one_of
from knowledge_pipeline.store.fragments import KeyIndex, find_changed_rows, read_held, read_matching
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_internals import (
    ADDRESS,
    OFFSET_BITS,
    FragmentFiles,
    ListedFragment,
    RememberedVersion,
    list_fragments,
)
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table

FEW_ROWS = 2_000  # of files that are not held
_BATCH_ROWS = 256
_TERMS = pa.list_(pa.string())


class _FileTerms(NamedTuple):
    """The terms of the rows of one fragment, also of rows deleted since."""

    deletion_file: Any  # which rows were deleted before, as Lance says
    rows: KeyIndex  # by term, their places among these
    keys: list[str]  # of the rows
    addresses: np.ndarray  # of the rows

    @property
    def nbytes(self) -> int:
        arrays = (self.rows.hashes, self.rows.starts, self.rows.rows, self.addresses)
        return sum(array.nbytes for array in arrays) + sum(map(len, self.keys)) + 64 * len(self.keys)


_TERMS_BY_FILES = Kind[Mapping[FragmentFiles, _FileTerms]](
    lambda files: sum(own.nbytes for own in files.values())
)
"""By columns and condition, of the version that was read last: files of earlier ones are dropped."""
_WAS_ASKED = Kind[bool](lambda _: 0)  # by columns and condition


class TermLookup:
    """Finds rows of the newest version of a table by a term that one of their columns names."""

    def __init__(
        self,
        table: Table,
        key: str,
        column: str,
        where: Filter | None = None,
        *,
        list_terms: Callable[[list[Any]], list[list[str]]] | None = None,
    ) -> None:
        """Read nothing yet. The column has lists of terms, or `list_terms` makes them of its values."""
        self._dataset, self._key, self._column = table.open_version(), key, column
        self._where, self._list_terms = where, list_terms
        self._cache, self._table = table.files, str(table.path)
        self._name = key, column, where.sql if where else ""
        self._files: list[tuple[_FileTerms, np.ndarray | None]] | None = None  # with which rows are left

    def is_worth_reading(self) -> bool:
        """Whether few rows have to be read, or it was asked before: a single question is a scan."""
        was_asked = self._cache.get(_WAS_ASKED, self._table, self._name)
        self._cache.put(_WAS_ASKED, self._table, self._name, True)
        if was_asked or self._dataset is None:
            return True
        cached, listed = self._find_terms(), list_fragments(self._dataset)
        missing = [listed[files].fragment for files in listed if files not in cached]
        return sum(fragment.physical_rows for fragment in missing) <= FEW_ROWS

    def _find_terms(self) -> Mapping[FragmentFiles, _FileTerms]:
        return self._cache.get(_TERMS_BY_FILES, self._table, self._name) or {}

    def find_keys(self, term: str) -> list[str]:
        """The keys of the rows that name a term."""
        if self._files is None:
            self._files = list(self._load_files())
        keys = list[str]()
        for terms, live in self._files:
            rows = terms.rows.find(term)
            keys += [terms.keys[row] for row in (rows if live is None else rows[live[rows]]).tolist()]
        return keys

    def _load_files(self) -> Iterator[tuple[_FileTerms, np.ndarray | None]]:
        """The terms of each file, with a mask of the rows that are left, if some were deleted since."""
        if self._dataset is None:
            return
        listed, cached = list_fragments(self._dataset), self._find_terms()
        new = self._read_terms({files: listed[files] for files in listed if files not in cached})
        terms = {files: new[files] if files in new else cached[files] for files in listed}
        differing = [files for files in listed if listed[files].deletion_file != terms[files].deletion_file]
        live, left = np.empty(0, np.uint64), dict[FragmentFiles, np.ndarray]()
        if differing:
            rows = read_held(self._dataset, [ADDRESS], self._where)
            live = (self._scan([]).to_table() if rows is None else rows)[ADDRESS].to_numpy()
        for files in differing:
            mask = np.isin(terms[files].addresses, live, assume_unique=True)
            if mask.sum() == (live >> OFFSET_BITS == listed[files].fragment.fragment_id).sum():
                left[files] = mask
            else:  # an earlier version is back, with rows that were deleted when this was read
                terms |= self._read_terms({files: listed[files]})
        self._cache.put(_TERMS_BY_FILES, self._table, self._name, terms)
        yield from ((own, left.get(files)) for files, own in terms.items())

    def _scan(self, columns: list[str], **options: Any) -> Any:
        where = self._where.sql if self._where else None
        return self._dataset.scanner(columns=columns, filter=where, with_row_address=True, **options)

    def _read_terms(self, listed: Mapping[FragmentFiles, ListedFragment]) -> dict[FragmentFiles, _FileTerms]:
        """The terms of some fragments."""
        terms_by_files, arrow = dict[FragmentFiles, _FileTerms](), cast("Any", pa)  # whose stubs lack types
        if not listed:
            return terms_by_files
        fragments = [fragment.fragment for fragment in listed.values()]
        scanner = self._scan([self._key, self._column], fragments=fragments, batch_size=_BATCH_ROWS)
        schema = pa.schema([(self._key, pa.string()), (ADDRESS, pa.uint64()), (self._column, _TERMS)])
        tables = [schema.empty_table()]
        for batch in scanner.to_batches():  # of long texts the terms alone are kept
            terms = batch[self._column]
            if self._list_terms:
                terms = arrow.array(self._list_terms(terms.to_pylist()), _TERMS)
            tables.append(pa.table([batch[self._key], batch[ADDRESS], terms], schema=schema))
        rows: Any = pa.concat_tables(tables)
        numbers = rows[ADDRESS].to_numpy() >> OFFSET_BITS
        for files, (fragment, deletion_file) in listed.items():
            own = rows.filter(pa.array(numbers == fragment.fragment_id))
            lists = own[self._column].combine_chunks()
            encoded = lists.flatten().dictionary_encode()
            uses = cast("Any", pc).list_parent_indices(lists).to_numpy().astype(np.uint32)
            index = KeyIndex.build(encoded.dictionary.to_pylist(), encoded.indices.to_numpy(), uses)
            keys, addresses = own[self._key].to_pylist(), own[ADDRESS].to_numpy()
            terms_by_files[files] = _FileTerms(deletion_file, index, keys, addresses)
        return terms_by_files


MAX_MOVED_ROWS = 20_000  # by a compaction: of more, it is simpler to compare all
_COMPARED_COLUMNS = ("id", "uri", "path", "text_key", "node", "target_id", "source")
"""Whose values are asked for: read together, as one stage after the other asks for the same rows."""


@dataclass(frozen=True, slots=True)
class _Complete:
    """The versions at which nothing was left to do."""

    digest: str
    versions: tuple[RememberedVersion | None, ...]  # None: there was no table
    count: int  # see `count_values`


class _Changes(NamedTuple):
    """Rows that differ between earlier versions of a table and the newest that was compared."""

    now: RememberedVersion
    rows: dict[RememberedVersion, pa.Table | None]  # None: they are many, or not known


_COMPLETE = Kind[_Complete](lambda complete: sum(len(it.manifest) for it in complete.versions if it))
"""By source, and stage or check."""
_CHANGES = Kind[_Changes](lambda it: sum(rows.nbytes for rows in it.rows.values() if rows is not None))


class ChangeTracker:
    """Finds the rows that changed since nothing was left to do. Needs the source's lock, or the index's.

    A stage compares keys and fingerprints of all rows that it reads and writes, and so does a check. A
    process that goes on running remembers at which versions of the tables nothing was left to do; rows that
    are the same since then need no second comparison. A version never changes, so what follows from it is
    exact; a new process, or one with other settings, compares everything.
    """

    def __init__(
        self,
        lake: Lake,
        source: str,
        name: str,
        digest: str,
        tables: Sequence[Table],
        *,
        forget: bool = False,
    ) -> None:
        """Take note of the tables, before any is read: those that are compared, then the one that is written.

        `digest` is of everything besides the tables that decides what is left to do. With `forget` all rows
        count as changed.
        """
        self._files, self._key = lake.files, (source, name)
        self._source, self._digest = source, digest
        self._tables = tables
        self._datasets = [table.open_version() for table in tables]
        self._versions = tuple(map(_remember, self._datasets))
        self._known = None if forget else self._files.get(_COMPLETE, "", self._key)
        self._count: int | None = None

    def find_changed_values(self, *columns: str) -> set[str] | None:
        """Values in the changed rows, by a column of each table; None where any row may have changed."""
        complete, changed = self._known, set[str]()
        if complete is None or complete.digest != self._digest:
            return None
        if None in (*complete.versions, *self._versions):
            return None
        for column, table, then, now in zip(
            columns, self._tables, complete.versions, self._datasets, strict=True
        ):
            if then is None or then == RememberedVersion.of(now):
                continue
            rows = _load_changes(table, then, now)
            if rows is None:
                return None
            if "source" in rows.schema.names:
                arrow: Any = pc  # whose stubs leave types out
                rows = rows.filter(arrow.equal(rows["source"], self._source))
            values: list[Any] = rows[column].unique().to_pylist()
            changed.update(value for value in values if value is not None)
        return changed if len(changed) <= KEYS_PER_FILTER else None

    def count_values(self, column: str, where: Filter, changed: Collection[str] | None) -> int:
        """How many values a column of the first table has in the rows that match.

        Beside those that `changed` they are as many as when they were remembered; None: all are counted.
        """
        now, count = self._datasets[0], None
        if self._known is not None and changed is not None:
            among, then = where & one_of(column, sorted(changed)), self._known.versions[0]
            with suppress(OSError, ValueError):  # a compaction has dropped the files of the earlier version
                more = 0
                if changed and then is not None:
                    more = _count_values(now, column, among) - _count_values(then.open(now), column, among)
                count = self._known.count + more
        self._count = _count_values(now, column, where) if count is None else count
        return self._count

    def remember(self, *, has_written: bool = False) -> None:
        """Nothing is left to do, with the tables as they were noted; or the last as written since."""
        versions = self._versions
        if has_written:
            versions = (*versions[:-1], _remember(self._tables[-1].open_version()))
        complete = _Complete(self._digest, versions, self._count or 0)
        self._files.put(_COMPLETE, "", self._key, complete)


def _remember(dataset: Any) -> RememberedVersion | None:
    return None if dataset is None else RememberedVersion.of(dataset)


def carry_over(lake: Lake, before: Any, after: Any) -> None:
    """What was in order at a version is in order at a later one that has the same rows in other files.

    Needs the lock of the table since before the first of the two, and nothing but a compaction between them.
    """
    if before is None or after is None:
        return
    then, now = RememberedVersion.of(before), RememberedVersion.of(after)
    for _, key, complete in lake.files.items(_COMPLETE):
        if then in complete.versions:
            moved = tuple(now if version == then else version for version in complete.versions)
            lake.files.put(_COMPLETE, "", key, replace(complete, versions=moved))


def _count_values(dataset: Any, column: str, where: Filter) -> int:
    if dataset is None:
        return 0
    rows: Any = read_matching(dataset, [column], where)
    if rows is None:
        rows = dataset.to_table(columns=[column], filter=where.sql)
    return len(rows[column].unique())


def _load_changes(table: Table, then: RememberedVersion, now: Any) -> pa.Table | None:
    """The rows that one of two versions has and the other lacks; None where those are many, or not known."""
    newest, path = RememberedVersion.of(now), str(table.path)
    changes = table.files.get(_CHANGES, path)
    if changes is None or changes.now != newest:  # changes up to an earlier version are of no use
        changes = _Changes(newest, {})
    if then not in changes.rows:
        names = [name for name in _COMPARED_COLUMNS if name in table.schema.names]
        try:
            tables = find_changed_rows(then.open(now), now, names, max_rows=MAX_MOVED_ROWS)
        except (OSError, ValueError):  # a compaction has dropped the files of the earlier version
            tables = None
        rows = None if tables is None else pa.concat_tables(tables)
        changes = changes._replace(rows={**changes.rows, then: rows})
        table.files.put(_CHANGES, path, None, changes)
    return changes.rows[then]
