"""What is left over when the configuration has moved on: whole tables, mirrors, unfinished files.

Nothing outside the store's folder is touched. What is removed can be made again, and nobody
has used it for a while, so that a change of mind or a slow process does not pay for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from knowledge_pipeline.config.settings import GitConnection, Settings
from knowledge_pipeline.errors import Busy, ConfigError
from knowledge_pipeline.maintenance.work import MaintenanceRun
from knowledge_pipeline.sources.git.mirror import Mirror
from knowledge_pipeline.sources.git.remote import build_remote
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.table_files import last_write_time, list_half_discarded, newest_version_time
from knowledge_pipeline.store.tables import Table

SPACE_RETENTION_S = 7 * 86_400.0  # after so long a model that was left is not taken up again
FILE_RETENTION_S = 86_400.0  # of mirrors and unfinished files


def discard_unused_spaces(
    run: MaintenanceRun,
    source: str,
    source_tables: Sequence[Table],
    vector_tables: Sequence[Table],
    *,
    configured: bool,
) -> list[Table]:
    """Discard the vectors of spaces that a source has left, and return those that it may still use.

    It has left a space when its rows in the index are all in other spaces, for a week at least. A
    source that is neither configured nor stored has left them all.
    """
    if not run.options.leftovers or not vector_tables:
        return list(vector_tables)
    if source_tables or configured:
        left = _find_unused_spaces(run, source) if len(vector_tables) > 1 else set[str]()
    else:
        left = {table.path.parent.name for table in vector_tables}
    kept: list[Table] = []
    for table in vector_tables:
        if table.path.parent.name in left and newest_version_time(table) < time.time() - SPACE_RETENTION_S:
            run.discard(table.path)
        else:
            kept.append(table)
    return kept


def _find_unused_spaces(run: MaintenanceRun, source: str) -> set[str]:
    """Spaces in which the source has no row, where it has rows in another one."""
    known = {path.name for path in (run.lake.root / "embeddings").glob("*")}
    present = {
        space
        for space, dimensions in run.lake.list_spaces().items()
        if run.lake.index(space, dimensions).count_rows(eq("source", source))
    }
    return known - present if present else set()


def discard_leftovers(run: MaintenanceRun, settings: Settings) -> None:
    """Discard mirrors that no source reads, and what killed processes left."""
    for path in list_half_discarded(run.lake):
        with run.skip_on_error(path.name):
            run.discard(path)
    for path in sorted((run.lake.folder / "marts").glob("*.unfinished")):
        if _is_unused(path):
            with run.skip_on_error(path.name):
                run.discard(path)
    with run.skip_on_error("mirrors"):
        _discard_unused_mirrors(run, settings)


def _discard_unused_mirrors(run: MaintenanceRun, settings: Settings) -> None:
    folder = run.lake.cache / "mirrors"
    read = set(_iter_used_mirrors(settings, run.lake.cache)) if folder.is_dir() else set[str]()
    for path in sorted(folder.glob("*")):
        name = path.name.partition(".")[0]
        if path.is_dir() and name not in read and _is_unused(path):
            with suppress(Busy), acquire_lock(folder, name, timeout_s=0):  # the lock of `Mirror.update`
                run.discard(path)


def _iter_used_mirrors(settings: Settings, cache: Path) -> Iterator[str]:
    for source in settings.sources:
        if isinstance(source.connection, GitConnection):
            if "${" in source.connection.url:
                raise ConfigError(
                    f"the url of source {source.id!r} names a variable that is not set, so it is unknown "
                    "which mirrors are still read: set it"
                )
            yield Mirror(build_remote(source.connection), cache).folder.name


def _is_unused(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return last_write_time(path) < time.time() - FILE_RETENTION_S
    return False
