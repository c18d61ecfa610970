"""A store that shares with another one what both have: an overlay.

Lance never changes a file, so a version of a table is a set of files, whatever folder they are in. An overlay
begins with links to those of a release, which take no space, and is then written like any store: what differs
is its own, and shows in the other store nowhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_internals import list_version_files
from knowledge_pipeline.store.lance_storage import has_version, name_manifest, open_dataset
from knowledge_pipeline.store.release import Release

_READ_STAGES = ("snapshot", "chunks", "embeddings", "facts")  # whose tables are each of one source


def link_release(
    base: Lake, release: Release, folder: Path, sources: Collection[str], former: Path | None = None
) -> None:
    """Make a store in a folder: whole, or not at all.

    Args:
        base: the store, in a folder.
        release: whose index and code graph it has.
        folder: where there is nothing yet.
        sources: whose documents, chunks and vectors it has too.
        former: an overlay of the same sources, which has read what differs; else those of the base.

    Raises `StoreError`: the file system cannot link files.
    """
    new = Path(mkdtemp(prefix=f"{folder.name}.new-", dir=folder.parent))
    try:
        for space, version in release.tables.items():
            _link_table(base.folder, new, f"index/{space}.lance", version)
        for name, version in release.graph.items():
            _link_table(base.folder, new, f"graph/{name}.lance", version)
        for name in _iter_source_tables(base.folder, sources):
            _link_table(former if former and has_version(former / name) else base.folder, new, name)
        _link_table(base.folder, new, "releases.lance")
        new.rename(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"the tables in {base.folder} cannot be linked ({reason})") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _iter_source_tables(root: Path, sources: Collection[str]) -> Iterator[str]:
    for stage in _READ_STAGES:
        for path in root.glob(f"{stage}/*/*.lance"):
            if path.stem in sources and has_version(path):
                yield path.relative_to(root).as_posix()


def _link_table(old: Path, new: Path, name: str, version: int | None = None) -> None:
    """Link the files of a version, by default the newest; the manifest last, which makes it a table."""
    dataset = open_dataset(old / name, version)
    manifest = f"_versions/{name_manifest(dataset.version)}"
    for file in (*list_version_files(dataset), manifest):
        for path in _iter_files(old / name / file):
            link = new / path.relative_to(old)
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # two fragments of one file
                os.link(path, link)


def _iter_files(path: Path) -> Iterator[Path]:
    """A file, or all in a folder."""
    yield from (file for file in path.rglob("*") if file.is_file()) if path.is_dir() else (path,)
