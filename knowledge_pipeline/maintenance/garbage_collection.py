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
from knowledge_pipeline.maintenance.work import Work
from knowledge_pipeline.sources.git.mirror import Mirror
from knowledge_pipeline.sources.git.remote import remote_of
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.locks import lock
from knowledge_pipeline.store.table_files import half_discarded, last_written, newest_version
from knowledge_pipeline.store.tables import Table

SPACE_UNUSED_S = 7 * 86_400.0  # after so long a model that was left is not taken up again
UNUSED_S = 86_400.0  # of mirrors and unfinished files


def forgotten_spaces(
    work: Work, source: str, stored: Sequence[Table], vectors: Sequence[Table], *, configured: bool
) -> list[Table]:
    """Discard the vectors of spaces that a source has left, and return those that it may still use.

    It has left a space when its rows in the index are all in other spaces, for a week at least. A
    source that is neither configured nor stored has left them all.
    """
    if not work.asked.leftovers or not vectors:
        return list(vectors)
    if stored or configured:
        left = _left_spaces(work, source) if len(vectors) > 1 else set[str]()
    else:
        left = {table.path.parent.name for table in vectors}
    kept: list[Table] = []
    for table in vectors:
        if table.path.parent.name in left and newest_version(table) < time.time() - SPACE_UNUSED_S:
            work.discard(table.path)
        else:
            kept.append(table)
    return kept


def _left_spaces(work: Work, source: str) -> set[str]:
    """Spaces in which the source has no row, where it has rows in another one."""
    known = {path.name for path in (work.lake.root / "embeddings").glob("*")}
    present = {
        space
        for space, dimensions in work.lake.spaces().items()
        if work.lake.index(space, dimensions).count(eq("source", source))
    }
    return known - present if present else set()


def leftovers(work: Work, settings: Settings) -> None:
    """Discard mirrors that no source reads, and what killed processes left."""
    for path in half_discarded(work.lake):
        with work.sparing(path.name):
            work.discard(path)
    for path in sorted((work.lake.folder / "marts").glob("*.unfinished")):
        if _unused(path):
            with work.sparing(path.name):
                work.discard(path)
    with work.sparing("mirrors"):
        _mirrors(work, settings)


def _mirrors(work: Work, settings: Settings) -> None:
    folder = work.lake.cache / "mirrors"
    read = set(_mirrors_read(settings, work.lake.cache)) if folder.is_dir() else set[str]()
    for path in sorted(folder.glob("*")):
        name = path.name.partition(".")[0]
        if path.is_dir() and name not in read and _unused(path):
            with suppress(Busy), lock(folder, name, timeout_s=0):  # the lock of `Mirror.update`
                work.discard(path)


def _mirrors_read(settings: Settings, cache: Path) -> Iterator[str]:
    for source in settings.sources:
        if isinstance(source.connection, GitConnection):
            if "${" in source.connection.url:
                raise ConfigError(
                    f"the url of source {source.id!r} names a variable that is not set, so it is unknown "
                    "which mirrors are still read: set it"
                )
            yield Mirror(remote_of(source.connection), cache).folder.name


def _unused(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return last_written(path) < time.time() - UNUSED_S
    return False
