"""Discards what the configuration no longer needs: whole tables, mirrors, unfinished files.

It touches only the store's folder. What it removes can be made again and has not been used for a while, so
that a reverted edit or a slow process loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from knowledge_pipeline.config.connections.archive_file import ArchiveFileConnection
from knowledge_pipeline.config.connections.repositories import GitConnection
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import Busy, ConfigError
from knowledge_pipeline.maintenance.work import MaintenanceRun
from knowledge_pipeline.sources.archive_file.kept_listing import ARCHIVE_LISTINGS, build_listing_name
from knowledge_pipeline.sources.git.mirror import Mirror
from knowledge_pipeline.sources.git.remote import build_remote
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.table_files import last_write_time, list_half_discarded, newest_version_time
from knowledge_pipeline.store.tables import Table

SPACE_RETENTION_S = 7 * 86_400.0  # of the vectors of a former model
FILE_RETENTION_S = 86_400.0  # of mirrors and unfinished files


def discard_unused_spaces(
    run: MaintenanceRun,
    source: str,
    source_tables: Sequence[Table],
    vector_tables: Sequence[Table],
    *,
    configured: bool,
) -> list[Table]:
    """Discard the vectors of spaces that a source no longer uses, and return the other ones.

    A source no longer uses a space when for a week all its rows in the index have been in other spaces. A
    source that is neither configured nor stored uses none.
    """
    if not run.options.leftovers or not vector_tables:
        return list(vector_tables)
    if source_tables or configured:
        spaces = run.lake.list_spaces() if len(vector_tables) > 1 else {}
        present = {
            space
            for space, dimensions in spaces.items()
            if run.lake.index(space, dimensions).count_rows(eq("source", source))
        }
        unused = {table.path.parent.name for table in vector_tables} - present if present else set[str]()
    else:
        unused = {table.path.parent.name for table in vector_tables}
    kept: list[Table] = []
    for table in vector_tables:
        if table.path.parent.name in unused and newest_version_time(table) < time.time() - SPACE_RETENTION_S:
            run.discard(table.path)
        else:
            kept.append(table)
    return kept


def discard_leftovers(run: MaintenanceRun, settings: Settings) -> None:
    """Discard mirrors and listings of archives that no source reads, and what killed processes left."""
    unfinished = sorted((run.lake.folder / "marts").glob("*.unfinished"))
    for path in [*list_half_discarded(run.lake), *filter(_is_unused, unfinished)]:
        with run.skip_on_error(path.name):
            run.discard(path)
    with run.skip_on_error("mirrors"):
        folder = run.lake.cache / "mirrors"
        git = [(it.id, it.connection) for it in settings.sources if isinstance(it.connection, GitConnection)]
        used: set[str] = set()
        for id_, connection in git if folder.is_dir() else ():
            if "${" in connection.url:
                raise ConfigError(
                    f"the url of source {id_!r} names a variable that is not set, so it is unknown "
                    "which mirrors are still used: set it"
                )
            used.add(Mirror(build_remote(connection), run.lake.cache).folder.name)
        for path in sorted(folder.glob("*")):
            name = path.name.partition(".")[0]
            if path.is_dir() and name not in used and _is_unused(path):
                with suppress(Busy), acquire_lock(folder, name, timeout_s=0):  # the lock of `Mirror.update`
                    run.discard(path)

    with run.skip_on_error("listings of archives"):
        connections = [it.connection for it in settings.sources]
        read = {build_listing_name(it) for it in connections if isinstance(it, ArchiveFileConnection)}
        for path in sorted((run.lake.cache / ARCHIVE_LISTINGS).glob("*")):
            if path.name not in read and _is_unused(path):
                run.discard(path)


def _is_unused(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return last_write_time(path) < time.time() - FILE_RETENTION_S
    return False
