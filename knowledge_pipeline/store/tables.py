"""One Lance table: read columns, upsert, delete, compact.

The first write creates a table, so that reading one that does not exist yet is empty, not an error. Every
commit goes through `Table._commit`, which an object store refuses to a writer that has lost its lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store import lance_storage, segments
from knowledge_pipeline.store.file_cache import FileCache, Kind
from knowledge_pipeline.store.filters import MATCH_NONE, Filter, format_literal, one_of
from knowledge_pipeline.store.fragments import (
    MAX_TAKEN_ROWS,
    RowChanges,
    StaleRows,
    count_held,
    find_changed_rows,
    find_fragments,
    read_matching,
    stage_replacement,
)
from knowledge_pipeline.store.lance_internals import ADDRESS, RememberedVersion, describe_version, take_rows
from knowledge_pipeline.store.lance_storage import StorePath, VersionStamp
from knowledge_pipeline.store.locks import confirm_lock
from knowledge_pipeline.store.object_store import ObjectPath
from knowledge_pipeline.store.schemas import VERSION


def read_schema_version(schema: pa.Schema) -> str:
    """The version of the schema that wrote a table; "none" where it does not say."""
    return (schema.metadata or {}).get(b"knowledge_schema", b"none").decode()


def _sort_fields(schema: pa.Schema) -> pa.Schema:
    """In the order of their names: columns that were added in place stand last."""
    fields: list[pa.Field[Any]] = list(schema)
    return pa.schema(sorted(fields, key=lambda field: field.name))


def _say_what_to_do(written_by: str) -> str:
    if not written_by.isdecimal() or written_by == VERSION:
        return "index into a new store folder, or use the program that wrote it"
    if int(written_by) < int(VERSION):
        return "run `knowledge migrate`, which brings the store up to date in place"
    return "use a newer knowledge_pipeline, which this store was written by"


KEYS_PER_FILTER = 1000  # in one IN list; longer ones cost more to plan than to run
RETAINED_VERSIONS = 4  # of every table, in addition to the tagged ones
COMMITS_BETWEEN_COMPACTIONS = 8
COMPACT_MIN_SMALL_FRAGMENTS = 8  # so many, or
COMPACT_MIN_DELETED_SHARE = 0.2  # so many of its rows deleted, and a table is worth rewriting
FULL_FRAGMENT_ROWS = 131_072  # a fragment of this size is not merged with small ones

_COMPACTION_OPTIONS = {"num_threads": 1, "batch_size": 1024, "target_rows_per_fragment": FULL_FRAGMENT_ROWS}
"""Fragments are merged one after the other, because each merge takes about 300 MB."""

_NEWEST_DATASET = Kind[tuple[VersionStamp, Any]](lambda _: 1 << 16)  # about, with its list of fragments

_READ_AHEAD_BATCHES, _READ_AHEAD_BYTES = 4, 64 << 20
"""How far a stream reads ahead of a slow consumer; Lance's default is 2 GB."""


def split_batches(items: Iterable[str], batch_size: int = KEYS_PER_FILTER) -> Iterator[list[str]]:
    """Cut a stream of keys into lists of at most `batch_size`."""
    iterator = iter(items)
    while batch := list(islice(iterator, batch_size)):
        yield batch


class Table:
    """A Lance table with one schema and one primary key, opened at its newest version."""

    def __init__(
        self,
        path: StorePath,
        schema: pa.Schema,
        *,
        former_names: Mapping[str, str] | None = None,
        files: FileCache | None = None,
    ) -> None:
        self.path = path  # "<root>/chunks/code/docs.lance"
        self.schema = schema
        self.files = files or FileCache()  # of the lake, where it has the table
        self.former_names = former_names or {}  # of columns -> the names in `schema`
        fields: list[pa.Field[Any]] = list(schema)
        self.key = next((field.name for field in fields if field.metadata), fields[0].name)
        self._exists_remotely = False  # on an object store, where every check costs a request

    @property
    def name(self) -> str:
        """The table's name within its folder."""
        return self.path.name.removesuffix(".lance")

    @property
    def exists(self) -> bool:
        """Whether a first write has created the table."""
        if self._exists_remotely:
            return True
        exists = lance_storage.has_version(self.path)
        self._exists_remotely = exists and isinstance(self.path, ObjectPath)
        return exists

    @property
    def version(self) -> int:
        """Newest version; 0 before the first write."""
        dataset = self.open_version()
        return 0 if dataset is None else dataset.version

    @property
    def version_stamp(self) -> VersionStamp:
        """Identifies the newest version; see `lance_storage.read_version_stamp`."""
        return lance_storage.read_version_stamp(self.path)

    def open_newest(self) -> Any:
        """Lance's dataset at the newest version, to change or to read.

        Raises `StoreError`: the table was written with another schema.
        """
        dataset = self._open_dataset()
        if self._migrate(dataset.schema):
            dataset = self._open_dataset()
        self.require_schema(dataset.schema)
        return dataset

    def _open_dataset(self) -> Any:
        return lance_storage.open_dataset(self.path, files=self.files)

    def open_version(self, version: int | None = None) -> Any:
        """Lance's dataset at a kept version, or at the newest, only to be read; None before the first.

        It is opened once for each newest version, and threads share it.
        """
        stamp = self.version_stamp
        if not lance_storage.is_written(stamp):
            return None
        dataset = self._open_by_stamp(stamp)
        if describe_version(dataset).valid_schema is not self.schema:
            if self._migrate(dataset.schema):
                dataset = self._open_by_stamp(self.version_stamp)
            self.require_schema(dataset.schema)
            describe_version(dataset).valid_schema = self.schema
        if version is not None:
            dataset = dataset.checkout_version(version)
            describe_version(dataset, self.files)
        return dataset

    def identify_version(self, version: int) -> str:
        """What no other version of any table has, not even one with this number that was written anew."""
        return RememberedVersion.of(self.open_version(version)).identity

    def _open_by_stamp(self, stamp: VersionStamp) -> Any:
        """In 0.05 ms instead of 0.3 where it is open already."""
        return self.files.load(_NEWEST_DATASET, str(self.path), None, stamp, self._open_dataset)

    def _migrate(self, stored: pa.Schema) -> bool:
        """Rename columns, make some nullable and add others, without rewriting rows; whether there were any.

        None in a table of another schema version. Of several processes that do so at once, one commits and
        the others are refused by Lance.
        """
        if stored.equals(self.schema) or read_schema_version(stored) != VERSION:
            return False
        former = [(old, name) for old, name in self.former_names.items() if old in stored.names]
        altered: list[dict[str, Any]] = [{"path": old, "name": name} for old, name in former]
        stored_fields: list[pa.Field[Any]] = list(stored)
        required = {field.name for field in stored_fields if not field.nullable}
        fields: list[pa.Field[Any]] = list(self.schema)
        nullable = [field for field in fields if field.nullable]
        altered += [{"path": field.name, "nullable": True} for field in nullable if field.name in required]
        existing = {*stored.names, *self.former_names.values()}
        added = [field for field in nullable if field.name not in existing]
        with suppress(OSError, ValueError):
            if altered:
                lance_storage.open_dataset(self.path).alter_columns(*altered)
            if added:
                lance_storage.open_dataset(self.path).add_columns(pa.schema(added))
        return bool(altered or added)

    def require_schema(self, schema: pa.Schema) -> None:
        """Raise `StoreError` unless the schema is this program's: another version wrote the table."""
        written_by = read_schema_version(schema)
        is_own = schema.equals(self.schema) or _sort_fields(schema).equals(_sort_fields(self.schema))
        if written_by != VERSION or not is_own:
            raise StoreError(
                f"table {self.path.parent.name}/{self.name} was written with schema version {written_by}, "
                f"and this program writes version {VERSION}: {_say_what_to_do(written_by)}"
            )

    def read_rows(
        self, columns: Sequence[str], where: Filter | None = None, *, version: int | None = None
    ) -> pa.Table:
        """Chosen columns of the rows that match, in no particular order, now or at a kept version."""
        dataset = None if where == MATCH_NONE else self.open_version(version)
        if dataset is None:
            return self.schema.empty_table().select(columns)
        if (rows := read_matching(dataset, columns, where)) is not None:
            return rows
        return dataset.to_table(columns=list(columns), filter=where.sql if where else None)

    def iter_rows_by_values(
        self, column: str, values: Iterable[str], columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Rows whose column holds one of many values, in batches."""
        for batch in split_batches(values):
            yield self.read_rows(columns, one_of(column, batch))

    def iter_batches(
        self,
        columns: Sequence[str],
        where: Filter | None = None,
        *,
        batch_rows: int = 1024,
        version: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The same as `read_rows`, streamed."""
        if (dataset := self.open_version(version)) is not None:
            count = count_held(dataset, where) if where else None
            if count is not None and count <= min(batch_rows, MAX_TAKEN_ROWS):
                yield from self.read_rows(columns, where, version=version).to_batches()
                return
            scanner = dataset.scanner(
                columns=list(columns),
                filter=where.sql if where else None,
                batch_size=batch_rows,
                batch_readahead=_READ_AHEAD_BATCHES,
                io_buffer_size=_READ_AHEAD_BYTES,
            )
            yield from scanner.to_batches()

    def diff_rows(self, columns: Sequence[str], version: int | None) -> RowChanges:
        """Rows that differ between a kept version and now; a row that only moved is in both.

        Without a version, all rows of now, and none of then. A column may be `ADDRESS`.
        """
        newest = self.open_version()
        if newest is None:
            rows = self.schema.empty_table().append_column(ADDRESS, pa.array([], pa.uint64())).select(columns)
            return RowChanges(rows, rows)
        if version is None:
            rows = self.read_rows(columns)
            return RowChanges(rows.slice(0, 0), rows)
        changes = find_changed_rows(self.open_version(version), newest, columns)
        assert changes is not None  # without a limit
        return changes

    def take_rows(self, addresses: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Columns of rows by where they are in the newest version, in that order; see `ADDRESS`."""
        return take_rows(self.open_version(), addresses, columns)

    def count_rows(self, where: Filter | None = None, *, version: int | None = None) -> int:
        """How many rows match, now or at a kept version."""
        dataset = self.open_version(version)
        if dataset is None or where is None:
            return 0 if dataset is None else dataset.count_rows()
        count = count_held(dataset, where)
        return dataset.count_rows(where.sql) if count is None else count

    def append(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows whose keys the table does not hold, in one commit."""
        reader, dataset = self._to_reader(batches), self.create_if_missing()
        self._commit(
            lambda: lance_storage.append_to_dataset(reader, dataset, self.path),
            stage=lambda: lance_storage.stage_append(reader, dataset, self.path),
        )

    def upsert(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Insert rows, replacing those with the same key, in one commit.

        Keys must be unique within one call. The index is bypassed, because
        its code path doubles rows when two writers meet (lancedb#3377).
        """
        reader = self._to_reader(batches)
        merge = self.create_if_missing().merge_insert(self.key).use_index(False)
        self._merge(merge.when_matched_update_all().when_not_matched_insert_all(), reader)

    def replace_rows(
        self, stale: Iterable[StaleRows] = (), batches: Iterable[pa.RecordBatch] = (), *, create: bool = False
    ) -> None:
        """Remove rows and add others, in one commit; there is none where there is nothing to do.

        Args:
            stale: rows to remove.
            batches: rows whose keys no other row holds afterwards.
            create: also make the table where there is none and no row is added.

        Raises:
            Busy: another process wrote the table meanwhile.
        """
        if not self.exists and not create:
            first = next(batches := iter(batches), None)
            if first is None:
                return
            batches = chain([first], batches)
        dataset = self.create_if_missing()
        operation = stage_replacement(dataset, self.path, stale, batches)
        if operation is not None:
            self._commit(lambda: lance_storage.commit_operation(self.path, dataset, operation))

    def update_columns(self, rows: pa.Table) -> None:
        """Set some columns, which `rows` holds with the key, in one commit; unknown keys are ignored.

        The columns alone are rewritten, so that the indexes of others go on holding these rows; whole rows,
        where they lie beside those of a large graph of vectors, which would have to be built anew.
        """
        newest, expensive = self.open_newest(), segments.expensive_fragments(self.open_newest())
        keys: list[Any] = rows[self.key].to_pylist() if expensive else []
        is_beside = not find_fragments(newest, StaleRows(self.key, keys)).isdisjoint(expensive)
        mode = "rewrite_rows" if is_beside else "rewrite_columns"
        merge = newest.merge_insert(self.key).use_index(False).write_mode(mode)
        self._merge(merge.when_matched_update_all(), rows)

    def delete_keys_in_one_commit(self, keys: pa.ChunkedArray[Any]) -> None:
        """Remove any number of rows by key, in one commit."""
        merge = self.open_newest().merge_insert(self.key).when_matched_delete()
        self._merge(merge, pa.Table.from_pydict({self.key: keys}))

    def drop_fragments(self, fragments: Sequence[int]) -> None:
        """Leave out whole fragments, which are not read, in one commit."""
        from lance import LanceOperation

        dataset, operation = self.open_newest(), LanceOperation.Delete([], list(fragments), "true")
        self._commit(lambda: lance_storage.commit_operation(self.path, dataset, operation))

    def delete_where(self, where: Filter) -> None:
        """Remove all rows that match, in one commit; there is none when nothing matches."""
        if self.count_rows(where):
            self._commit(lambda: self.open_newest().delete(where.sql))

    def update_where(self, where: Filter, **values: str) -> None:
        """Set text columns of all rows that match, in one commit."""
        if 0 < (count := self.count_rows(where)) <= KEYS_PER_FILTER:  # takes a third of what Lance's takes
            rows = self.read_rows(self.schema.names, where)
            schema: Any = self.schema  # whose stubs give fields no type
            for column, value in values.items():
                at = schema.get_field_index(column)
                rows = rows.set_column(at, schema.field(at), [[value] * count])
            keys: list[Any] = rows[self.key].to_pylist()
            self.replace_rows([StaleRows(self.key, keys, where)], rows.combine_chunks().to_batches())
        elif count:
            literals = {column: format_literal(value) for column, value in values.items()}
            self._commit(lambda: self.open_newest().update(literals, where=where.sql))

    def restore_version(self, version: int) -> None:
        """Make the rows and indexes of a kept version the newest again, in one commit."""
        if version != self.version:
            self._commit(lambda: self.open_newest().checkout_version(version).restore())

    def read_notes(self, *, version: int | None = None) -> dict[str, str]:
        """The notes that `write_notes` put on the table, now or at a kept version."""
        dataset = self.open_version(version)
        return {} if dataset is None else dict(dataset.metadata)

    def build_index(self, build: Callable[[], Any]) -> None:
        """Build or drop an index, in one commit."""
        self._commit(build)

    def write_notes(self, **notes: str | None) -> None:
        """Put notes on the table itself, or with None remove them, in one commit.

        There is none where the table has them already.
        """
        notes_now = self.read_notes()
        if any(notes_now.get(name) != text for name, text in notes.items()):
            self._commit(lambda: self.create_if_missing().update_metadata(notes))

    def note_in_schema(self, **notes: str) -> None:
        """Put notes into the metadata of the stored schema, in one commit."""
        self._commit(lambda: self.open_newest().update_schema_metadata(notes))

    def _merge(self, merge: Any, rows: pa.RecordBatchReader | pa.Table) -> None:
        self._commit(lambda: merge.execute(rows), stage=lambda: merge.execute_uncommitted(rows)[0])

    def _commit(self, write: Callable[[], Any], *, stage: Callable[[], Any] | None = None) -> None:
        """Write in one commit; in an object store, only while this process has the table's lock.

        Args:
            write: uploads and commits.
            stage: where Lance can, uploads and returns the transaction, so that the lock is confirmed
                between the two: an upload may take minutes, and a paused process any time.

        Raises:
            Busy: the lock was lost; nothing was committed.
        """
        if stage and isinstance(self.path, ObjectPath):
            transaction = stage()
            confirm_lock(self.path)
            lance_storage.commit_transaction(self.path, transaction)
        else:
            confirm_lock(self.path)
            write()

    def _to_reader(self, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, iter(batches))

    def create_if_missing(self) -> Any:
        """Lance's dataset at the newest version, of an empty table where there was none."""
        if not self.exists:
            if isinstance(self.path, Path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
            lance_storage.create_dataset(self.path, self.schema)
        return self.open_newest()

    @property
    def indexes(self) -> dict[str, str]:
        """Indexed columns, each with the name of its index; none before the first write."""
        dataset = self.open_version()
        indexes: list[Any] = [] if dataset is None else dataset.describe_indices()
        return {index.field_names[0]: index.name for index in indexes}

    def compact_if_due(
        self, *, after_versions: int = RETAINED_VERSIONS + COMMITS_BETWEEN_COMPACTIONS
    ) -> None:
        """Compact small fragments and drop old versions, every few commits; tagged versions stay.

        Each new release ends the tag of an old one, so it is their number that counts, not their age.
        """
        if not self.exists or (versions := self._count_versions()) <= after_versions:  # without opening any
            return
        if versions - len(_list_tagged_versions(self.open_version())) > after_versions:
            self.compact()

    def compact(self) -> None:
        """Merge small fragments, except with far larger ones, or with those of a large graph of vectors.

        Old versions are dropped.
        """
        newest = self.open_newest()
        kept = {*segments.expensive_fragments(newest), *segments.settled_fragments(newest)}
        self.merge_fragments(excluded_fragments=sorted(kept))
        self.delete_old_versions()

    @property
    def needs_compaction(self) -> bool:
        """Whether rewriting pays: many small fragments, or many deleted rows, can be merged."""
        from lance.optimize import Compaction

        newest = self.open_newest()
        stats = newest.stats.dataset_stats(max_rows_per_group=FULL_FRAGMENT_ROWS)
        deleted = stats["num_deleted_rows"]
        many_deleted = deleted > COMPACT_MIN_DELETED_SHARE * (newest.count_rows() + deleted)
        if stats["num_small_files"] < COMPACT_MIN_SMALL_FRAGMENTS and not many_deleted:
            return False
        return Compaction.plan(newest, {"target_rows_per_fragment": FULL_FRAGMENT_ROWS}).num_tasks() > 0

    def merge_fragments(self, *, excluded_fragments: Sequence[int] = ()) -> None:
        """Merge small fragments and rewrite those with many deleted rows, in bounded memory."""
        self._compact(excluded_fragment_ids=list(excluded_fragments))

    def extend_indexes(self, *, merge_graphs: bool = False, with_graphs: bool = True) -> None:
        """Take the rows that no index holds yet into the indexes; see `segments.plan_merges`."""
        merges = segments.plan_merges(self.open_newest(), merge_graphs=merge_graphs, with_graphs=with_graphs)
        for count, names in merges.items():
            optimize = self.open_newest().optimize.optimize_indices
            self._commit(partial(optimize, num_indices_to_merge=count, index_names=names))

    def delete_old_versions(self, *, keep: int = RETAINED_VERSIONS, delete_unfinished: bool = False) -> None:
        """Drop all but the newest versions, and the files that only they need; tagged ones stay.

        Args:
            keep: how many versions stay, the newest one included.
            delete_unfinished: also drop what killed writers left; only where no other writer can be.
        """
        self._commit(
            lambda: self.open_newest().cleanup_old_versions(
                older_than=timedelta(0),
                retain_versions=keep,
                error_if_tagged_old_versions=False,
                delete_unverified=delete_unfinished,
            )
        )

    def count_old_versions(self, *, keep: int) -> int:
        """How many versions `delete_old_versions` would drop."""
        written = self._count_versions()
        if written <= keep or not (self.path / "_refs" / "tags").is_dir():
            return max(0, written - keep)
        newest = self.open_newest()
        older = sorted(version["version"] for version in newest.versions())[:-keep]
        return len(set(older) - _list_tagged_versions(newest))

    def _count_versions(self) -> int:
        """Tagged ones too; without opening any."""
        return sum(1 for _ in (self.path / "_versions").glob("*.manifest"))

    def purge_deleted_rows(self) -> None:
        """Rewrite the files that still hold deleted rows; old versions keep theirs until they are dropped."""
        self._compact(materialize_deletions=True, materialize_deletions_threshold=0.0)

    def _compact(self, **options: Any) -> None:
        options = {**_COMPACTION_OPTIONS, **options}
        self._commit(lambda: self.open_newest().optimize.compact_files(**options))


def _list_tagged_versions(dataset: Any) -> set[int]:
    return {tag["version"] for tag in dataset.tags.list().values()}
