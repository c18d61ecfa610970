"""A store of an earlier schema becomes one of the present, in place; until a commit there is a way back.

Every table is migrated by itself, under its own lock. The table of releases is the last: with its commit the
releases name the migrated versions, and until then this program refuses the store. So a kill anywhere leaves
a store that the next call completes. The way back makes the table of releases the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from knowledge_pipeline.errors import NotFound, StoreError
from knowledge_pipeline.store import graph as symbol_payload
from knowledge_pipeline.store import search as index_payload
from knowledge_pipeline.store.lake import Lake, lock_log
from knowledge_pipeline.store.lance_storage import StorePath, has_version, open_dataset
from knowledge_pipeline.store.locks import acquire_lock, confirm_lock
from knowledge_pipeline.store.schemas import HELD_LISTS, VERSION, list_held
from knowledge_pipeline.store.tables import Table, read_schema_version

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """Columns that a version added to a table, and how a row that has none gets them: pure functions.

    Columns that may be null are no step: `Table` adds them when it opens.
    """

    columns: tuple[str, ...]
    reads: tuple[str, ...]  # columns of the row that `build` is given
    build: Callable[[Row], dict[str, Any]]


def _read_names(row: Row) -> dict[str, Any]:
    """What a document is called, and what it mentions, where its metadata say so."""
    metadata: dict[str, Any] = json.loads(row["metadata"] or "{}")
    names: list[str] = metadata.get("names", []) if metadata.get("leads") else []
    return {"names": names, "mentions": sorted({mention["name"] for mention in metadata.get("mentions", ())})}


STEPS: dict[str, dict[str, ColumnStep]] = {
    "1": {"index": ColumnStep(("names", "mentions"), ("metadata",), _read_names)},
    "2": {
        "graph/symbols": ColumnStep(
            ("shown",),
            symbol_payload.PAYLOAD_COLUMNS,
            lambda row: {"shown": symbol_payload.build_payload(row)},
        ),
        "logs/queries": ColumnStep(("interface",), (), lambda _: {"interface": "unknown"}),
    },
    "3": {
        "index": ColumnStep(
            ("shown",), index_payload.PAYLOAD_COLUMNS, lambda row: {"shown": index_payload.build_payload(row)}
        )
    },
    "4": {
        "index": ColumnStep(
            (*HELD_LISTS,),
            ("symbol", "symbol_kind", "section", "metadata"),
            lambda row: list_held(row, json.loads(row["metadata"] or "{}")),
        )
    },
}
"""Version -> table -> what the next version added to it. The tables of one stage are one: "index".

A version without entries changed the meaning of no row; every one before the present has its place here."""


_HEAD, _OLD, _NEW = "before-migration", "unmigrated-", "migrated-"
_BATCH_ROWS = 4096
_SCHEMA_KEY = "knowledge_schema"


def list_migrated_versions(path: StorePath) -> dict[int, int]:
    """Versions from before the migration, each with the version that took its place; empty once committed."""
    return {
        int(tag.removeprefix(_NEW)): details["version"]
        for tag, details in open_dataset(path).tags.list().items()
        if tag.startswith(_NEW)
    }


def migrate_table(
    table: Table,
    kind: str,
    released: Collection[int],
    *,
    before_columns: Callable[[], None] | None = None,
) -> bool:
    """Bring the newest version and those that releases name to the present schema; whether it had to.

    The table's lock is held. Each version that somebody may read, the newest and those that releases name,
    is restored, gets its new columns beside the others, so that no row is rewritten and every index stays,
    and becomes a version of its own. What a kill left is dropped. Two tags join them, `unmigrated-7` and
    `migrated-7`, until the migration is committed: they keep both from cleanup, and say what is done. The tag
    `before-migration` is made first and deleted first; without it the others mean nothing.

    Args:
        table: in any version.
        kind: as `STEPS` names it.
        released: versions that releases name.
        before_columns: changes rows; called when a version is the newest, before it gets its columns.
    """
    head = _begin(table.path)
    if head is None:
        return False
    done, changed = list_migrated_versions(table.path), False
    for version in [*sorted(set(released) - {head}), head]:
        if version not in done:
            _tag(table.path, f"{_OLD}{version}", version)
            _restore(table.path, version)
            if before_columns:
                before_columns()
            _add_columns(table, kind)
            _tag(table.path, f"{_NEW}{version}", table.open_newest().version)
            changed = True
    return changed


def _begin(path: StorePath) -> int | None:
    """The version to migrate; None where the present schema wrote the table."""
    dataset = open_dataset(path)
    head, is_current = _find_head(dataset), read_schema_version(dataset.schema) == VERSION
    if head is not None and (is_current or head not in list_migrated_versions(path)):
        return head
    drop_tags(path)  # of an undo or a commit that was killed after its last change of the table
    if is_current:
        return None
    _tag(path, _HEAD, dataset.version)
    return dataset.version


def _find_head(dataset: Any) -> int | None:
    """The newest version from before a migration that is not committed."""
    tag = dataset.tags.list().get(_HEAD)
    return tag["version"] if tag else None


def set_version(path: StorePath, version: str = VERSION) -> None:
    """Say which schema wrote the table, in one commit."""
    _commit(path, lambda: open_dataset(path).update_schema_metadata({_SCHEMA_KEY: version}))


def undo_table(table: Table, *, keep_rows: bool) -> bool:
    """Make the version from before the migration the newest again; whether there was one to return to.

    With `keep_rows`, rows that were added since stay, without the columns that the earlier schema lacks.
    """
    path = table.path
    head = _find_head(open_dataset(path))
    if head is None:
        return False
    before, stored = open_dataset(path, head).schema, open_dataset(path).schema
    if not keep_rows:
        if read_schema_version(stored) == VERSION:
            _restore(path, head)
        return True
    if read_schema_version(stored) != (version := read_schema_version(before)):
        set_version(path, version)
    former: list[Any] = [
        {"path": name, "name": old}
        for old, name in table.former_names.items()
        if old in before.names and name in stored.names
    ]
    if former:
        _commit(path, lambda: open_dataset(path).alter_columns(*former))
    if surplus := [name for name in open_dataset(path).schema.names if name not in before.names]:
        _commit(path, lambda: open_dataset(path).drop_columns(surplus))
    return True


def drop_tags(path: StorePath) -> None:
    """End the way back: cleanup may have the versions that the migration kept."""
    if not has_version(path):
        return  # a purge erased it
    tags = open_dataset(path).tags
    for name in sorted(tags.list(), key=lambda name: name != _HEAD):
        if name.startswith((_HEAD, _OLD, _NEW)):
            _commit(path, partial(tags.delete, name))


def _tag(path: StorePath, name: str, version: int) -> None:
    tags = open_dataset(path).tags
    if name not in tags.list():
        _commit(path, lambda: tags.create(name, version))


def _restore(path: StorePath, version: int) -> None:
    if open_dataset(path).version != version:
        _commit(path, lambda: open_dataset(path, version).restore())


def _add_columns(table: Table, kind: str) -> None:
    """The columns of every step, then the version; `Table` adds those that may be null."""
    stored = open_dataset(table.path).schema
    columns = {table.former_names.get(name, name) for name in stored.names}
    written_by = read_schema_version(stored)
    steps = [by_kind[kind] for version, by_kind in STEPS.items() if version >= written_by and kind in by_kind]
    for step in steps:
        if not columns.issuperset(step.columns):
            _commit(table.path, lambda step=step: _run_step(table, step))
            columns.update(step.columns)
    set_version(table.path)
    table.open_newest()


def _run_step(table: Table, step: ColumnStep) -> None:
    import lance

    fields: list[pa.Field[Any]] = list(table.schema)
    schema = pa.schema([field for field in fields if field.name in step.columns])

    def build(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([step.build(row) for row in batch.to_pylist()], schema=schema)

    dataset = open_dataset(table.path)
    reads = list(step.reads) or dataset.schema.names[:1]
    dataset.add_columns(
        lance.batch_udf(output_schema=schema)(build), read_columns=reads, batch_size=_BATCH_ROWS
    )


def _commit(path: StorePath, write: Callable[[], Any]) -> None:
    """Every change of a table goes through here."""
    confirm_lock(path)
    write()


MigrationState = Literal["current", "older", "half", "migrated"]
ReportTable = Callable[[str], None]

_SOURCE_STAGES = ("snapshot", "chunks", "facts", "audiences")
_KEEPS_ROWS = ("tokens", "receipts", "logs")  # what was added since the migration exists nowhere else


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table of the store, and what stands before its migration."""

    name: str  # within the store: "index/small.lance"
    kind: str  # as `STEPS` names it: "index", "graph/symbols", "logs/queries"
    table: Table
    version: str  # of the schema that wrote it
    is_reversible: bool  # the version from before a migration is kept

    @property
    def released_as(self) -> str:
        """How a release names the table, if it does."""
        return self.kind if self.kind.startswith("graph/") else self.table.name

    @property
    def needs_migration(self) -> bool:
        """Whether an earlier schema wrote it."""
        return self.version != VERSION

    def count_rows(self) -> int:
        """How many rows its newest version has, whatever its schema."""
        return open_dataset(self.table.path).count_rows()


@dataclass(frozen=True, slots=True)
class StoreVersions:
    """The tables of a store, the one of releases last."""

    tables: list[StoredTable]

    @property
    def state(self) -> MigrationState:
        """Where the store stands: "half" after a kill, "migrated" while there is a way back."""
        older = [table for table in self.tables if table.needs_migration]
        reversible = any(table.is_reversible for table in self.tables)
        if older:
            return "half" if reversible else "older"
        return "migrated" if reversible else "current"

    @property
    def oldest(self) -> str:
        """The earliest version of the schema that wrote a table."""
        return min((table.version for table in self.tables), default=VERSION, key=_to_number)


def read_versions(lake: Lake) -> StoreVersions:
    """Which schema wrote every table. Raises `StoreError`: a newer program wrote one, or none of ours."""
    tables = list(_iter_tables(lake))
    for table in tables:
        if table.version != VERSION and table.version not in STEPS:
            table.table.require_schema(open_dataset(table.table.path).schema)
    return StoreVersions(tables)


def migrate(lake: Lake, *, report: ReportTable = lambda name: None) -> list[str]:
    """Bring all tables to the present schema; the names of those that an earlier one had written.

    Raises:
        StoreError: a newer program wrote the store; nothing was changed.
        Busy: a table is being written.
    """
    changed: list[str] = []
    for table in read_versions(lake).tables:
        with _lock_table(lake, table):
            if not has_version(table.table.path):
                continue  # a purge erased it
            rename = partial(_rename_versions, lake) if table.kind == "releases" else None
            released = _list_released(lake, table)
            did = migrate_table(table.table, table.kind, released, before_columns=rename)
        if did:
            changed.append(table.name)
            report(table.name)
    if lake.releases().exists:
        with lake.lock_index():
            _move_release_tags(lake, _iter_tables(lake))
    return changed


def undo_migration(lake: Lake, *, report: ReportTable = lambda name: None) -> list[str]:
    """Make the tables from before a migration the newest again; their names.

    Rows that logs and tokens got since stay. What was refreshed or released since is dropped; the next
    refresh by the earlier program reads it again.

    Raises:
        NotFound: there was no migration, or it is committed.
        Busy: a table is being written.
    """
    tables = read_versions(lake).tables
    if not any(table.is_reversible for table in tables):
        raise NotFound("there is no migration to undo: none was made, or it is committed")
    for table in reversed(tables):  # the releases first
        with _lock_table(lake, table):
            keep_rows = table.kind.partition("/")[0] in _KEEPS_ROWS
            if has_version(table.table.path) and undo_table(table.table, keep_rows=keep_rows):
                _move_release_tags(lake, [table])
                report(table.name)
            drop_tags(table.table.path)
    return [table.name for table in tables if table.is_reversible]


def commit_migration(lake: Lake) -> list[str]:
    """End the way back, and let maintenance delete the versions that it kept; the names of the tables.

    Raises:
        StoreError: the migration is not complete.
        Busy: a table is being written.
    """
    versions = read_versions(lake)
    if versions.state == "half":
        raise StoreError("the migration of this store is not complete: run `knowledge migrate` first")
    for table in versions.tables:
        with _lock_table(lake, table):
            drop_tags(table.table.path)
    return [table.name for table in versions.tables if table.is_reversible]


def _iter_tables(lake: Lake) -> Iterator[StoredTable]:
    root = lake.root
    for stage in _SOURCE_STAGES:
        for path in sorted(root.glob(f"{stage}/*/*.lance")):
            yield from _read_table(lake, stage, getattr(lake, stage)(path.parent.name, path.stem))
    for path in sorted(root.glob("embeddings/*/*.lance")):
        if has_version(path):
            table = lake.embeddings(path.parent.name, path.stem, lake.read_dimensions(path))
            yield from _read_table(lake, "embeddings", table)
    for space, dimensions in lake.list_spaces().items():
        yield from _read_table(lake, "index", lake.index(space, dimensions))
    for name, table in lake.graph_tables().items():
        yield from _read_table(lake, f"graph/{name}", table)
    for path in sorted(root.glob("logs/*.lance")):
        yield from _read_table(lake, f"logs/{path.stem}", lake.log_table(path.stem))
    for table in (lake.tokens(), lake.receipts(), lake.releases()):
        yield from _read_table(lake, table.name, table)


def _read_table(lake: Lake, kind: str, table: Table) -> Iterator[StoredTable]:
    path = table.path
    if has_version(path):
        try:
            dataset = open_dataset(path)
        except ValueError:
            if has_version(path):
                raise
            return  # a purge erased it since
        is_reversible = _find_head(dataset) is not None
        version = read_schema_version(dataset.schema)
        yield StoredTable(lake.relative_name(path), kind, table, version, is_reversible)


def _lock_table(lake: Lake, stored: StoredTable) -> AbstractContextManager[None]:
    kind, _, name = stored.kind.partition("/")
    if kind in ("index", "graph", "releases"):
        return lake.lock_index()
    if kind == "logs":
        return lock_log(lake, name)
    if kind in ("tokens", "receipts"):
        return acquire_lock(lake.root / "locks", kind, timeout_s=30.0, description=f"the {kind}")
    return lake.lock_source(stored.table.name)


def _is_released(stored: StoredTable) -> bool:
    """Whether releases name versions of the table."""
    return stored.kind == "index" or stored.kind.startswith("graph/")


def _list_released(lake: Lake, stored: StoredTable) -> set[int]:
    """The versions of a table that releases from before the migration name."""
    releases = lake.releases().path
    if not _is_released(stored) or not has_version(releases):
        return set()
    head = _find_head(open_dataset(releases))  # None: the newest version, as none is migrated
    rows = open_dataset(releases, head).to_table(columns=["tables"]).to_pylist()
    versions: list[dict[str, int]] = [json.loads(row["tables"]) for row in rows]
    return {tables[stored.released_as] for tables in versions if stored.released_as in tables}


def _rename_versions(lake: Lake) -> None:
    """Let every release name the versions that took the place of its own."""
    migrated = {
        table.released_as: list_migrated_versions(table.table.path)
        for table in _iter_tables(lake)
        if _is_released(table)
    }

    def rename(text: str) -> str:
        tables: dict[str, int] = json.loads(text)
        versions = {name: migrated.get(name, {}).get(version, version) for name, version in tables.items()}
        return json.dumps(versions, sort_keys=True)

    path = lake.releases().path
    dataset = open_dataset(path)
    rows: pa.Table = dataset.to_table()
    changed = [row | {"tables": rename(row["tables"])} for row in rows.to_pylist()]
    rows = pa.Table.from_pylist(changed, schema=rows.schema)
    _commit(path, lambda: dataset.merge_insert("release").when_matched_update_all().execute(rows))


def _move_release_tags(lake: Lake, tables: Iterable[StoredTable]) -> None:
    """Let the tags that protect released versions name those that the releases name."""
    rows = open_dataset(lake.releases().path).to_table(columns=["release", "tables"]).to_pylist()
    for table in filter(_is_released, tables):
        path = table.table.path
        for row in rows:
            version, name = json.loads(row["tables"]).get(table.released_as), f"release-{row['release']}"
            tags = open_dataset(path).tags
            current = tags.list().get(name)
            if version is not None and current is not None and current["version"] != version:
                _commit(path, partial(tags.update, name, version))


def _to_number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
