"""One table from an earlier schema to the present one, and back; killed anywhere, it is done again.

Each version of the table that somebody may read, the newest and those that releases name, is restored, gets
its new columns and becomes a version of its own. Two tags join them, `unmigrated-7` and `migrated-7`, until
the migration is committed: they keep both from cleanup, and say what is done. The tag `before-migration` is
made first and deleted first; without it the others mean nothing. Columns are added beside the others, so that
no row is rewritten and every index stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from knowledge_pipeline.store import lance_storage
from knowledge_pipeline.store.lance_storage import StorePath
from knowledge_pipeline.store.locks import confirm_lock
from knowledge_pipeline.store.migration.steps import ColumnStep, select_steps
from knowledge_pipeline.store.migration.stored_schema import read_schema_version
from knowledge_pipeline.store.schemas import VERSION
from knowledge_pipeline.store.tables import Table

_HEAD, _OLD, _NEW = "before-migration", "unmigrated-", "migrated-"
_BATCH_ROWS = 4096
_SCHEMA_KEY = "knowledge_schema"


def open_raw(path: StorePath, version: int | None = None) -> Any:
    """Lance's dataset, whatever its schema."""
    return lance_storage.open_dataset(path, version)


def open_unmigrated(path: StorePath) -> Any:
    """Lance's dataset as it was before a migration that is not committed, else the newest."""
    newest = open_raw(path)
    head = _find_head(newest)
    return newest if head is None else open_raw(path, head)


def has_way_back(dataset: Any) -> bool:
    """Whether the version from before a migration is kept."""
    return _find_head(dataset) is not None


def list_migrated_versions(path: StorePath) -> dict[int, int]:
    """Versions from before the migration, each with the version that took its place; empty once committed."""
    return {
        int(tag.removeprefix(_NEW)): found["version"]
        for tag, found in open_raw(path).tags.list().items()
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

    The table's lock is held. Each version begins as it was before, so that what a kill left is dropped.

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
    dataset = open_raw(path)
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
    _commit(path, lambda: open_raw(path).update_schema_metadata({_SCHEMA_KEY: version}))


def undo_table(table: Table, *, keep_rows: bool) -> bool:
    """Make the version from before the migration the newest again; whether there was one to return to.

    Args:
        table: whose lock is held.
        keep_rows: rows that were added since stay, without the columns that the earlier schema lacks.
    """
    head = _find_head(open_raw(table.path))
    if head is None:
        return False
    before = open_raw(table.path, head).schema
    if keep_rows:
        _drop_columns(table.path, before, table.former_names)
    elif read_schema_version(open_raw(table.path).schema) == VERSION:
        _restore(table.path, head)
    return True


def replace_column(path: StorePath, key: str, column: str, replace: Callable[[str], str]) -> None:
    """Replace a text column of a small table, in one commit."""
    dataset = open_raw(path)
    rows: pa.Table = dataset.to_table()
    changed = [row | {column: replace(row[column])} for row in rows.to_pylist()]
    rows = pa.Table.from_pylist(changed, schema=rows.schema)
    _commit(path, lambda: dataset.merge_insert(key).when_matched_update_all().execute(rows))


def drop_tags(path: StorePath) -> None:
    """End the way back: cleanup may have the versions that the migration kept."""
    tags = open_raw(path).tags
    for name in sorted(tags.list(), key=lambda name: name != _HEAD):
        if name.startswith((_HEAD, _OLD, _NEW)):
            _commit(path, partial(tags.delete, name))


def move_tag(path: StorePath, name: str, version: int) -> None:
    """Let a tag name a version, if it names another one."""
    tags = open_raw(path).tags
    found = tags.list().get(name)
    if found is not None and found["version"] != version:
        _commit(path, lambda: tags.update(name, version))


def _tag(path: StorePath, name: str, version: int) -> None:
    tags = open_raw(path).tags
    if name not in tags.list():
        _commit(path, lambda: tags.create(name, version))


def _restore(path: StorePath, version: int) -> None:
    if open_raw(path).version != version:
        _commit(path, lambda: open_raw(path, version).restore())


def _add_columns(table: Table, kind: str) -> None:
    """The columns of every step, then the version; `Table` adds those that may be null."""
    stored = open_raw(table.path).schema
    known = {table.former_names.get(name, name) for name in stored.names}
    for step in select_steps(kind, read_schema_version(stored)):
        if not known.issuperset(step.columns):
            _commit(table.path, lambda step=step: _run_step(table, step))
            known.update(step.columns)
    set_version(table.path)
    table.open_newest()


def _run_step(table: Table, step: ColumnStep) -> None:
    import lance

    fields: list[pa.Field[Any]] = list(table.schema)
    schema = pa.schema([field for field in fields if field.name in step.columns])

    def build(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([step.build(row) for row in batch.to_pylist()], schema=schema)

    dataset = open_raw(table.path)
    reads = list(step.reads) or dataset.schema.names[:1]
    dataset.add_columns(
        lance.batch_udf(output_schema=schema)(build), read_columns=reads, batch_size=_BATCH_ROWS
    )


def _drop_columns(path: StorePath, before: pa.Schema, former_names: Mapping[str, str]) -> None:
    """The version, then the columns of the schema from before, whatever rows were added since."""
    stored = open_raw(path).schema
    if read_schema_version(stored) != (version := read_schema_version(before)):
        set_version(path, version)
    former: list[Any] = [
        {"path": name, "name": old}
        for old, name in former_names.items()
        if old in before.names and name in stored.names
    ]
    if former:
        _commit(path, lambda: open_raw(path).alter_columns(*former))
    if surplus := [name for name in open_raw(path).schema.names if name not in before.names]:
        _commit(path, lambda: open_raw(path).drop_columns(surplus))


def _commit(path: StorePath, write: Callable[[], Any]) -> None:
    """Every change of a table goes through here."""
    confirm_lock(path)
    write()
