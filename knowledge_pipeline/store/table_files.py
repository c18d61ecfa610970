"""Inspects tables by listing their folders, and removes whole tables so that no half is left.

Listing costs a fraction of opening: maintenance inspects thousands of tables, and most need nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.lake import Lake, read_dimensions
from knowledge_pipeline.store.lance_storage import StorePath, has_version, remove_path
from knowledge_pipeline.store.object_store import ObjectPath
from knowledge_pipeline.store.tables import COMPACT_MIN_SMALL_FRAGMENTS, Table

_DISCARDED_SUFFIX = ".discarded"
_CREATION_GRACE_S = 86_400.0
_FOLDERS_WRITTEN_FIRST = ("data", "_deletions", "_indices")


def count_versions_in_use(table: Table, since: float) -> int:
    """How many of the newest versions readers may use that opened the table after a time.

    A version is in use until the next one is written, so these are the versions written after that
    time, and one more.

    Args:
        table: one that exists.
        since: seconds since the epoch.
    """
    return 1 + sum(written > since for written in _iter_write_times(table.path / "_versions"))


def newest_version_time(table: Table) -> float:
    """When the newest version of a table was written; seconds since the epoch."""
    return max(_iter_write_times(table.path / "_versions"), default=0.0)


def last_write_time(folder: StorePath) -> float:
    """When a file, or anything in a folder two levels deep, was last written; seconds since the epoch."""
    if isinstance(folder, ObjectPath):
        return max((each.stat().st_mtime for each in folder.iter_objects()), default=0)
    return max(
        (file.lstat().st_mtime for file in [folder, *folder.glob("*"), *folder.glob("*/*")]), default=0
    )


def has_unfinished_writes(table: Table) -> bool:
    """Whether files are newer than the newest version: of a writer that runs, or was killed."""
    begun = (max(_iter_write_times(table.path / part), default=0.0) for part in _FOLDERS_WRITTEN_FIRST)
    return max(begun) > newest_version_time(table)


def may_need_compaction(table: Table) -> bool:
    """Whether there are deletions, or so many files, that opening the table is worth it."""
    if any((table.path / "_deletions").glob("*")):
        return True
    return sum(1 for _ in (table.path / "data").glob("*")) >= COMPACT_MIN_SMALL_FRAGMENTS


def _iter_write_times(folder: StorePath) -> Iterator[float]:
    for entry in folder.glob("*"):
        with suppress(FileNotFoundError):
            yield entry.stat().st_mtime


def list_vector_tables(lake: Lake) -> dict[str, list[Table]]:
    """The embeddings of every source, of all spaces that it ever had."""
    found: dict[str, list[Table]] = {}
    for path in sorted((lake.root / "embeddings").glob("*/*.lance")):
        if has_version(path):
            table = lake.embeddings(path.parent.name, path.stem, read_dimensions(path))
            found.setdefault(path.stem, []).append(table)
    return found


def discard_path(lake: Lake, path: StorePath) -> None:
    """Remove a table, a folder or a file of the store: a kill leaves it whole, or nameless.

    Raises:
        StoreError: it lies elsewhere, behind a link; nothing was removed.
    """
    if isinstance(path, ObjectPath):
        return path.remove()
    if not path.parent.resolve().is_relative_to(lake.folder.resolve()):
        raise StoreError(
            f"{path} is a link out of the store {lake.folder}: remove it yourself if it is not needed"
        )
    nameless = path.with_name(path.name + _DISCARDED_SUFFIX)
    remove_path(nameless)
    path.rename(nameless)
    remove_path(nameless)


def list_half_discarded(lake: Lake) -> list[StorePath]:
    """What a killed `discard_path` left."""
    places = ("index", "embeddings/*", "cache/mirrors", "marts")
    local = sorted(path for place in places for path in lake.folder.glob(f"{place}/*{_DISCARDED_SUFFIX}"))
    if not isinstance(lake.root, ObjectPath):
        return [*local]
    # tables without a version that nobody has written to for a day, so that nobody is creating them
    latest = time.time() - _CREATION_GRACE_S
    tables = (table for place in ("index", "embeddings/*") for table in lake.root.glob(f"{place}/*.lance"))
    unused = (table for table in tables if last_write_time(table) < latest)
    return [*local, *(table for table in unused if not (table / "_versions").is_dir())]
