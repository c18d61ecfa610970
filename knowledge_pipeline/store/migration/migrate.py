"""A store of an earlier schema becomes one of the present, in place; until a commit there is a way back.

Every table is migrated by itself, under its own lock. The table of releases is the last: with its commit the
releases name the migrated versions, and until then this program refuses the store. So a kill anywhere leaves
a store that the next call completes. The way back makes the table of releases the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Literal

from knowledge_pipeline.errors import NotFound, StoreError
from knowledge_pipeline.store.lake import Lake, read_dimensions
from knowledge_pipeline.store.lance_storage import StorePath, has_version
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.migration import table_versions
from knowledge_pipeline.store.migration.steps import STEPS
from knowledge_pipeline.store.migration.stored_schema import read_schema_version
from knowledge_pipeline.store.migration.table_versions import open_raw
from knowledge_pipeline.store.pending_rows import lock_log
from knowledge_pipeline.store.schemas import VERSION
from knowledge_pipeline.store.tables import Table

MigrationState = Literal["current", "older", "half", "migrated"]
ReportTable = Callable[[str], None]

_SOURCE_STAGES = ("snapshot", "chunks", "facts", "audiences")
_KEEPS_ROWS = ("tokens", "logs")  # what was added since the migration exists nowhere else


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
        return open_raw(self.table.path).count_rows()


@dataclass(frozen=True, slots=True)
class StoreVersions:
    """The tables of a store, the one of releases last."""

    tables: list[StoredTable]

    @property
    def state(self) -> MigrationState:
        """Where the store stands: "half" after a kill, "migrated" while there is a way back."""
        older = [each for each in self.tables if each.needs_migration]
        reversible = any(each.is_reversible for each in self.tables)
        if older:
            return "half" if reversible else "older"
        return "migrated" if reversible else "current"

    @property
    def oldest(self) -> str:
        """The earliest version of the schema that wrote a table."""
        return min((each.version for each in self.tables), default=VERSION, key=_to_number)


def read_versions(lake: Lake) -> StoreVersions:
    """Which schema wrote every table.

    Raises:
        StoreError: a newer program wrote one, or none of ours.
    """
    tables = list(_iter_tables(lake))
    for each in tables:
        if each.version != VERSION and each.version not in STEPS:
            each.table.require_schema(open_raw(each.table.path).schema)
    return StoreVersions(tables)


def migrate(lake: Lake, *, report: ReportTable = lambda name: None) -> list[str]:
    """Bring all tables to the present schema; the names of those that an earlier one had written.

    Raises:
        StoreError: a newer program wrote the store; nothing was changed.
        Busy: a table is being written.
    """
    changed: list[str] = []
    for each in read_versions(lake).tables:
        with _lock_table(lake, each):
            rename = partial(_rename_versions, lake) if each.kind == "releases" else None
            released = _list_released(lake, each)
            did = table_versions.migrate_table(each.table, each.kind, released, before_columns=rename)
        if did:
            changed.append(each.name)
            report(each.name)
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
    if not any(each.is_reversible for each in tables):
        raise NotFound("there is no migration to undo: none was made, or it is committed")
    for each in reversed(tables):  # the releases first
        with _lock_table(lake, each):
            keep_rows = each.kind.partition("/")[0] in _KEEPS_ROWS
            if table_versions.undo_table(each.table, keep_rows=keep_rows):
                _move_release_tags(lake, [each])
                report(each.name)
            table_versions.drop_tags(each.table.path)
    return [each.name for each in tables if each.is_reversible]


def commit_migration(lake: Lake) -> list[str]:
    """End the way back, and let maintenance delete the versions that it kept; the names of the tables.

    Raises:
        StoreError: the migration is not complete.
        Busy: a table is being written.
    """
    versions = read_versions(lake)
    if versions.state == "half":
        raise StoreError("the migration of this store is not complete: run `knowledge migrate` first")
    for each in versions.tables:
        with _lock_table(lake, each):
            table_versions.drop_tags(each.table.path)
    return [each.name for each in versions.tables if each.is_reversible]


def _iter_tables(lake: Lake) -> Iterator[StoredTable]:
    root = lake.root
    for stage in _SOURCE_STAGES:
        for path in sorted(root.glob(f"{stage}/*/*.lance")):
            yield from _read_table(lake, stage, path, getattr(lake, stage)(path.parent.name, path.stem))
    for path in sorted(root.glob("embeddings/*/*.lance")):
        if has_version(path):
            table = lake.embeddings(path.parent.name, path.stem, read_dimensions(path))
            yield from _read_table(lake, "embeddings", path, table)
    for space, dimensions in lake.list_spaces().items():
        yield from _read_table(
            lake, "index", root / "index" / f"{space}.lance", lake.index(space, dimensions)
        )
    for name, table in lake.graph_tables().items():
        yield from _read_table(lake, f"graph/{name}", table.path, table)
    for path in sorted(root.glob("logs/*.lance")):
        yield from _read_table(lake, f"logs/{path.stem}", path, lake.log_table(path.stem))
    for kind, table in (("tokens", lake.tokens()), ("releases", lake.releases())):
        yield from _read_table(lake, kind, table.path, table)


def _read_table(lake: Lake, kind: str, path: StorePath, table: Table) -> Iterator[StoredTable]:
    if has_version(path):
        dataset = open_raw(path)
        reversible = table_versions.has_way_back(dataset)
        version = read_schema_version(dataset.schema)
        yield StoredTable(lake.relative_name(path), kind, table, version, reversible)


def _lock_table(lake: Lake, stored: StoredTable) -> AbstractContextManager[None]:
    kind, _, name = stored.kind.partition("/")
    if kind in ("index", "graph", "releases"):
        return lake.lock_index()
    if kind == "logs":
        return lock_log(lake, name)
    if kind == "tokens":
        return acquire_lock(lake.root / "locks", "tokens", timeout_s=30.0, description="the tokens")
    return lake.lock_source(stored.table.name)


def _is_released(stored: StoredTable) -> bool:
    """Whether releases name versions of the table."""
    return stored.kind == "index" or stored.kind.startswith("graph/")


def _list_released(lake: Lake, stored: StoredTable) -> set[int]:
    """The versions of a table that releases from before the migration name."""
    releases = lake.releases().path
    if not _is_released(stored) or not has_version(releases):
        return set()
    rows = table_versions.open_unmigrated(releases).to_table(columns=["tables"]).to_pylist()
    named: list[dict[str, int]] = [json.loads(row["tables"]) for row in rows]
    return {tables[stored.released_as] for tables in named if stored.released_as in tables}


def _rename_versions(lake: Lake) -> None:
    """Let every release name the versions that took the place of its own."""
    migrated = {
        each.released_as: table_versions.list_migrated_versions(each.table.path)
        for each in _iter_tables(lake)
        if _is_released(each)
    }

    def rename(text: str) -> str:
        named: dict[str, int] = json.loads(text)
        versions = {name: migrated.get(name, {}).get(version, version) for name, version in named.items()}
        return json.dumps(versions, sort_keys=True)

    table_versions.replace_column(lake.releases().path, "release", "tables", rename)


def _move_release_tags(lake: Lake, tables: Iterable[StoredTable]) -> None:
    """Let the tags that protect released versions name those that the releases name."""
    rows = open_raw(lake.releases().path).to_table(columns=["release", "tables"]).to_pylist()
    for each in tables:
        for row in rows if _is_released(each) else ():
            if (version := json.loads(row["tables"]).get(each.released_as)) is not None:
                table_versions.move_tag(each.table.path, f"release-{row['release']}", version)


def _to_number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
