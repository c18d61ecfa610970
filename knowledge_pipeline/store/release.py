"""Releases: the versions of the index tables and of the code graph that queries read.

A release is one row, appended in one commit, so all tables move together and a reader
sees either the old set of versions or the new one. A tag protects each named version from
cleanup. A rollback is a new release that names old versions. It may be pinned, in the same row: while a
pinned release is live, refreshes write and publish nothing.

The row's column `tables` is a JSON object: a space, or "graph/symbols" and "graph/edges", -> version of the
table; and "rows/unembedded", where some rows have no vector yet, -> their number.

An overlay is another store that begins as a release of the first one: with links to its files, which take no
space, as Lance never changes a file. What is written to it is its own, and shows in the first store nowhere.

Every release after one with a `ranker` has the same, whatever it releases, until another is published or a
rollback returns to a release from before.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from knowledge_pipeline.errors import NotFound, StoreError
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.damage import build_loss, explain_loss
from knowledge_pipeline.store.file_cache import Kind
from knowledge_pipeline.store.filters import MATCH_NONE, UNEMBEDDED
from knowledge_pipeline.store.fragments import StaleRows
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_internals import list_version_files
from knowledge_pipeline.store.lance_storage import (
    VersionStamp,
    has_data,
    has_version,
    name_manifest,
    open_dataset,
    stamp_version,
)
from knowledge_pipeline.store.local_state import keep_result, recall_result
from knowledge_pipeline.store.search import read_locations
from knowledge_pipeline.store.tables import Table

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Release:
    """One set of index versions that was, or is, live."""

    release: int  # counted from 1
    created_at: datetime
    tables: Mapping[str, int]  # space -> version of its index table
    rows: int
    restores: int | None = None
    graph: Mapping[str, int] = field(default_factory=dict[str, int])  # "symbols", "edges" -> version
    unembedded: int = 0  # rows without a vector, which only full text finds
    pinned_since: datetime | None = None  # when refreshes were told to publish nothing instead of it
    ranker: str | None = None  # JSON: the weights that rank its results; None: those of the package
    stamps: Mapping[str, VersionStamp] = field(default_factory=dict[str, VersionStamp])
    """What has the versions' numbers, by table as the row names it, where `stamp_tables` looked."""

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Equal for releases whose tables are the same versions of the same tables."""
        return tuple(tuple(sorted(part.items())) for part in (self.tables, self.graph, self.stamps))

    @property
    def embedded_share(self) -> float:
        """The share of rows that have a vector, in [0, 1]."""
        return 1.0 - self.unembedded / self.rows if self.unembedded else 1.0

    @property
    def pin(self) -> str | None:
        """Which release is pinned, with which content, since when; None if it is not."""
        if self.pinned_since is None:
            return None
        content = f"content of release {self.restores}, " if self.restores else ""
        return f"release {self.release} is pinned ({content}since {self.pinned_since:%Y-%m-%d %H:%M} UTC)"


_GRAPH_PREFIX = "graph/"  # of the code graph's tables in a release's row; no space has a slash
_UNEMBEDDED = "rows/unembedded"
_EQUAL_TREES = "working trees as released"
_LIST = "the list of releases", "releases"
_RELEASES = Kind[tuple[VersionStamp, tuple[Release, ...]]](lambda stamped: 2_000 * len(stamped[1]))


def list_releases(lake: Lake) -> list[Release]:
    """All releases that can still be read, the live one last."""
    table = lake.releases()  # read once for each version: a refresh lists the releases a dozen times
    stamp = table.version_stamp
    with explain_loss(*_LIST):
        return list(lake.files.load(_RELEASES, str(table.path), None, stamp, lambda: _read_releases(table)))


def _read_releases(table: Table) -> tuple[Release, ...]:
    """Raises StoreError: no version of the list is left."""
    if not table.exists and has_data(table.path):
        raise build_loss(*_LIST, "has lost all its versions")
    releases: list[Release] = []
    for row in sorted(table.read_rows(table.schema.names).to_pylist(), key=itemgetter("release")):
        tables, graph = dict[str, int](), dict[str, int]()
        versions = json.loads(row["tables"])
        unembedded = versions.pop(_UNEMBEDDED, 0)
        for name, version in versions.items():
            (graph if name.startswith(_GRAPH_PREFIX) else tables)[name.removeprefix(_GRAPH_PREFIX)] = version
        values: dict[str, Any] = row | {"tables": tables, "graph": graph, "unembedded": unembedded}
        releases.append(Release(**values))
    return tuple(releases)


def find_live_release(lake: Lake) -> Release | None:
    """The release that queries read; None before the first."""
    return max(list_releases(lake), key=lambda release: release.release, default=None)


def stamp_tables(lake: Lake, release: Release) -> dict[str, VersionStamp]:
    """What has the numbers of a release's versions now, by table: another one after a restoration."""
    stamps: dict[str, VersionStamp] = {}
    for name, version in _to_versions(release).items():
        path = name if name.startswith(_GRAPH_PREFIX) else f"index/{name}"
        stamps[name] = stamp_version(lake.root / f"{path}.lance", version)
    return stamps


def name_release(lake: Lake, release: Release) -> str:
    """What no other release is called, not even one with this number after a restoration."""
    stamps = sorted(stamp_tables(lake, release).items())
    return f"{release.release}-{hash_strings(release.created_at.isoformat(), repr(stamps))[:12]}"


def recall_equal_trees(lake: Lake, release: Release) -> dict[str, dict[str, Any]]:
    """The working trees that were found to be as a release has them: when, and by which listings."""
    return recall_result(lake.folder, _EQUAL_TREES, {"release": name_release(lake, release)}) or {}


def keep_equal_tree(lake: Lake, release: Release, root: Path, comparison: Mapping[str, Any]) -> None:
    """Keep when a tree was found equal, until the next release, or until the tree is gone."""
    former = recall_equal_trees(lake, release)
    trees = {name: it for name, it in former.items() if Path(name, ".git").exists()}
    mark = {"release": name_release(lake, release)}
    keep_result(lake.folder, _EQUAL_TREES, mark, trees | {str(root): comparison})


def first_released_at(lake: Lake, release: Release | None) -> datetime | None:
    """When the tables of a release were released first, which is earlier for a rollback; None if unknown."""
    by_number = {release.release: release for release in list_releases(lake)}
    while release and release.restores is not None:
        release = by_number.get(release.restores)
    return release.created_at if release else None


def publish_release(lake: Lake, *, keep: int, pinned_since: datetime | None = None) -> Release | None:
    """Make the newest versions live; None, without a change, where they are. Needs the index lock.

    It ends a pin, unless it is told to go on with it.
    """
    last, versions, graph = find_live_release(lake), newest_index_versions(lake), newest_graph_versions(lake)
    if last and (last.tables, last.graph, last.pinned_since) == (versions, graph, pinned_since):
        return None
    dimensions = lake.list_spaces()
    tables = [lake.index(space, dimensions[space]) for space in versions]
    rows = sum(table.count_rows() for table in tables)
    unembedded = sum(table.count_rows(UNEMBEDDED) for table in tables)
    ranker = last.ranker if last else None
    new = Release(0, datetime.now(UTC), versions, rows, None, graph, unembedded, pinned_since, ranker)
    return _append_release(lake, new, keep)


def publish_ranker(lake: Lake, ranker: str | None, *, keep: int) -> Release:
    """Make the content of the live release live with other weights; None: those of the package.

    Needs the index lock.

    Raises `NotFound`: nothing is released yet.
    """
    if (live := find_live_release(lake)) is None:
        raise NotFound("nothing is released yet: run `knowledge index`")
    return _append_release(lake, replace(live, restores=None, ranker=ranker), keep)


def newest_index_versions(lake: Lake) -> dict[str, int]:
    """The newest version of every space's index, which the next release names.

    Spaces without rows are left out, because no query needs them, unless all are empty.
    """
    tables = {space: lake.index(space, size) for space, size in lake.list_spaces().items()}
    filled = {space: table for space, table in tables.items() if table.count_rows()}
    return {space: table.version for space, table in (filled or tables).items()}


def newest_graph_versions(lake: Lake) -> dict[str, int]:
    """The newest versions of the code graph's tables; none before any code was read."""
    return {name: table.version for name, table in lake.graph_tables().items()}


def publish_if_same_rows(lake: Lake, *, keep: int) -> Release | None:
    """Make the newest versions live if they hold exactly the rows of the live ones.

    They do after a compaction, or when an index was built. None where they do not, or are live
    already. Needs the index lock.
    """
    now = find_live_release(lake)
    if now is None or not now.tables.keys() <= lake.list_spaces().keys():
        return None
    versions = _to_versions(now)
    same = (_has_same_rows(table, versions.get(name)) for name, table in _released_tables(lake).items())
    return publish_release(lake, keep=keep, pinned_since=now.pinned_since) if all(same) else None


def _has_same_rows(table: Table, version: int | None) -> bool:
    if version is None or version == table.version:
        return version == table.version or table.count_rows() == 0
    if read_locations(table) != read_locations(table, version=version):
        return False
    if table.count_rows() != table.count_rows(version=version):
        return False
    columns = [name for name in ("id", "fingerprint") if name in table.schema.names]
    now, then = table.read_rows(columns), table.read_rows(columns, version=version)
    return now.sort_by("id").equals(then.sort_by("id"))  # pyright: ignore[reportUnknownMemberType, reportReturnType]  # wrong in the stubs


def restore_release(lake: Lake, release: int, *, keep: int, pin: bool = False) -> Release:
    """Make the versions of an earlier release live again, pinned or not. Needs the index lock.

    Raises `NotFound`: no such release, or its versions are gone.
    """
    kept = {release.release: release for release in list_releases(lake)}
    if (restored := kept.get(release)) is None:
        numbers = ", ".join(map(str, kept)) or "none"
        raise NotFound(f"there is no release {release}; kept releases: {numbers}")
    pinned_since = datetime.now(UTC) if pin else None
    return _append_release(lake, replace(restored, restores=release, pinned_since=pinned_since), keep)


def restore_released_rows(lake: Lake) -> None:
    """Make the rows of the live release the newest, and empty the tables that it does not name.

    What was written since is not checked; the next refresh writes it again. Nothing happens before the first
    release. Needs the index lock.
    """
    live = find_live_release(lake)
    if live is None:
        return
    versions, tables = _to_versions(live), _released_tables(lake)
    if any(table.version != versions.get(name) and table.count_rows() for name, table in tables.items()):
        message = "what was indexed after release %d is left out until the next refresh indexes it again"
        _log.warning(message, live.release)
    for name, table in tables.items():
        if name in versions:
            table.restore_version(versions[name])
        else:
            table.delete_where(~MATCH_NONE)


def _append_release(lake: Lake, contents: Release, keep: int) -> Release:
    """Write a release with these contents, the next number and the present time."""
    last, now = find_live_release(lake), datetime.now(UTC)
    new = replace(contents, release=last.release + 1 if last else 1, created_at=now)
    _tag_versions(lake, new)
    tables = _to_versions(new) | ({_UNEMBEDDED: new.unembedded} if new.unembedded else {})
    row = {
        **{"release": new.release, "created_at": now, "tables": json.dumps(tables, sort_keys=True)},
        **{"rows": new.rows, "restores": new.restores, "pinned_since": new.pinned_since},
        "ranker": new.ranker,
    }
    table = lake.releases()
    kept, stale = _split_kept([*list_releases(lake), new], keep)
    with explain_loss(*_LIST):
        batch = pa.RecordBatch.from_pylist([row], schema=table.schema)
        table.replace_rows([StaleRows("release", stale)], [batch])
        table.compact_if_due()
    _delete_stray_tags(lake, kept)
    return new


def select_kept_releases(releases: Sequence[Release], keep: int) -> list[int]:
    """Numbers of the newest `keep` releases, and of no unfinished one that another has replaced."""
    live = releases[-1:]
    kept = [release.release for release in releases if not release.unembedded or release in live]
    return kept[-keep:]


def delete_old_releases(lake: Lake, *, keep: int) -> None:
    """Delete the rows of releases that are not kept, then the tags that protect their versions.

    This includes tags whose row is gone already, because a run died between the two.
    """
    kept, stale = _split_kept(list_releases(lake), keep)
    if stale:
        table = lake.releases()
        with explain_loss(*_LIST):
            table.replace_rows([StaleRows("release", stale)])
            table.compact_if_due()
    _delete_stray_tags(lake, kept)


def give_up_releases(lake: Lake, table: str, version: int) -> None:
    """Delete releases, but the live one, that name a version of a table, "index/small" or "graph/edges".

    It cannot be read any more. Needs the index lock.
    """
    name = table.removeprefix("index/")
    releases = list_releases(lake)
    lost = [release.release for release in releases[:-1] if _to_versions(release).get(name) == version]
    if lost:
        with explain_loss(*_LIST):
            lake.releases().replace_rows([StaleRows("release", lost)])
        _delete_stray_tags(lake, [release.release for release in releases if release.release not in lost])


def _split_kept(releases: Sequence[Release], keep: int) -> tuple[list[int], list[int]]:
    """Numbers of the releases that are kept, and of the others."""
    kept = select_kept_releases(releases, keep)
    return kept, [release.release for release in releases if release.release not in kept]


def _delete_stray_tags(lake: Lake, kept: Collection[int]) -> None:
    tables = _released_tables(lake)
    for name, tags in find_stray_tags(lake, kept).items():
        for tag in tags:
            tables[name].open_newest().tags.delete(tag)


def find_stray_tags(lake: Lake, kept_releases: Collection[int]) -> dict[str, list[str]]:
    """Tags of releases that are not kept, by table; only tables that have some."""
    stray_tags: dict[str, list[str]] = {}
    for name, table in _released_tables(lake).items():
        tags = table.open_version().tags.list()
        numbers = {tag: int(tag.removeprefix("release-")) for tag in tags if tag.startswith("release-")}
        if stray := [tag for tag, number in numbers.items() if number not in kept_releases]:
            stray_tags[name] = stray
    return stray_tags


def _released_tables(lake: Lake) -> dict[str, Table]:
    """Every table that a release may name, as its row names it."""
    spaces = {space: lake.index(space, dimensions) for space, dimensions in lake.list_spaces().items()}
    return {**spaces, **{_GRAPH_PREFIX + name: table for name, table in lake.graph_tables().items()}}


def _to_versions(release: Release) -> dict[str, int]:
    return {**release.tables, **{_GRAPH_PREFIX + name: version for name, version in release.graph.items()}}


def _tag_versions(lake: Lake, release: Release) -> None:
    tables = _released_tables(lake)
    for table, version in _to_versions(release).items():
        if table not in tables:
            raise NotFound(
                f"release {release.restores} names the table {table!r}, which is gone: run `knowledge index`"
            )
        tags, name = tables[table].open_newest().tags, f"release-{release.release}"
        with suppress(ValueError, RuntimeError):  # left by a run that died before its release was written
            tags.delete(name)
        tags.create(name, version)


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
    """Link the files of a version, by default the newest; the manifest, which makes it a table, comes last.

    That is copied: a link would change what `stamp_version` sees of it, and so the first table.
    """
    dataset = open_dataset(old / name, version)
    for file in list_version_files(dataset):
        path = old / name / file
        for part in path.rglob("*.*") if path.is_dir() else (path,):
            link = new / part.relative_to(old)
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # two fragments of one file
                os.link(part, link)
    versions = old / name / "_versions"
    manifests = [versions / name_manifest(dataset.version), versions / f"{dataset.version}.manifest"]
    manifest = next(filter(Path.is_file, manifests))  # one of an early Lance has its number
    (new / name / "_versions").mkdir(parents=True)
    shutil.copyfile(manifest, new / manifest.relative_to(old))
