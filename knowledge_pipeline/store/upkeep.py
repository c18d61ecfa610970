"""What the listing of a folder tells of a table, and removing whole tables so that no half is left.

Listing costs a fraction of opening: maintenance looks at thousands of tables, and most need nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import SMALL_FRAGMENTS, Table

_DISCARDED = ".discarded"
_WRITTEN_BEFORE_A_VERSION = ("data", "_deletions", "_indices")


def size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; 0 where there is none. Links are not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size if path.is_symlink() or path.is_file() else 0
    found = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # a writer or a cleanup is at work
            found += 0 if file.is_dir() else file.lstat().st_size
    return found


def versions_in_use(table: Table, since: float) -> int:
    """How many of the newest versions a reader may be at that opened the table after a time.

    A version is in use from when it was written until the next one was, so it is those written
    after that time, and one more.

    Args:
        table: one that exists.
        since: seconds since the epoch.
    """
    return 1 + sum(written > since for written in _times(table.path / "_versions"))


def newest_version(table: Table) -> float:
    """When the newest version of a table was written; seconds since the epoch."""
    return max(_times(table.path / "_versions"), default=0.0)


def last_written(folder: Path) -> float:
    """When a file, or anything in a folder two levels deep, was last written; seconds since the epoch."""
    return max(
        (file.lstat().st_mtime for file in [folder, *folder.glob("*"), *folder.glob("*/*")]), default=0
    )


def has_unfinished_writes(table: Table) -> bool:
    """Whether files are younger than the newest version: of a writer that is at work, or was killed."""
    begun = (max(_times(table.path / part), default=0.0) for part in _WRITTEN_BEFORE_A_VERSION)
    return max(begun) > newest_version(table)


def may_be_scattered(table: Table) -> bool:
    """Whether there are so many files, or any deletions, that opening the table is worth it."""
    if any((table.path / "_deletions").glob("*")):
        return True
    return sum(1 for _ in (table.path / "data").glob("*")) >= SMALL_FRAGMENTS


def _times(folder: Path) -> Iterator[float]:
    for entry in folder.glob("*"):
        with suppress(FileNotFoundError):
            yield entry.stat().st_mtime


def vector_tables(lake: Lake) -> dict[str, list[Table]]:
    """The embeddings of every source, of all spaces that it ever had."""
    import lance

    found: dict[str, list[Table]] = {}
    for path in sorted((lake.root / "embeddings").glob("*/*.lance")):
        if (path / "_versions").is_dir():
            dimensions = lance.dataset(str(path)).schema.field("vector").type.list_size
            found.setdefault(path.stem, []).append(lake.embeddings(path.parent.name, path.stem, dimensions))
    return found


def discard(lake: Lake, path: Path) -> None:
    """Remove a table, a folder or a file of the store: a kill leaves it whole, or nameless.

    Raises:
        StoreError: it lies elsewhere, behind a link; nothing was removed.
    """
    if not path.parent.resolve().is_relative_to(lake.root.resolve()):
        raise StoreError(
            f"{path} is a link out of the store {lake.root}: remove it yourself if it is not needed"
        )
    nameless = path.with_name(path.name + _DISCARDED)
    _remove(nameless)
    path.rename(nameless)
    _remove(nameless)


def half_discarded(lake: Lake) -> list[Path]:
    """What a killed `discard` left."""
    places = ("index", "embeddings/*", "cache/mirrors", "marts")
    return sorted(path for place in places for path in lake.root.glob(f"{place}/*{_DISCARDED}"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
