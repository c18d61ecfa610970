"""Releases: which version of every index table, and of the code graph's, queries read.

A release is one row, appended in one commit, so all tables move together and a reader
sees either the old set of versions or the new one. A tag on each named version keeps
cleanup away from it. A rollback is a new release that names old versions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

import pyarrow as pa

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.store.filters import below
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import StorePath, VersionStamp
from knowledge_pipeline.store.schemas import RELEASES
from knowledge_pipeline.store.tables import Table


@dataclass(frozen=True, slots=True)
class Release:
    """One set of index versions that was, or is, live."""

    release: int  # counted from 1
    created_at: datetime
    tables: Mapping[str, int]  # space -> version of its index table
    rows: int
    restores: int | None = None
    graph: Mapping[str, int] = field(default_factory=dict[str, int])  # "symbols", "edges" -> version


_GRAPH_PREFIX = (
    "graph/"  # before the names of its tables, where a release's row lists all; no space has a slash
)


def list_releases(lake: Lake) -> list[Release]:
    """All releases that can still be read, the live one last."""
    table = lake.releases()
    return list(_load_releases(table.path, str(table.path), table.version_stamp))


@lru_cache(maxsize=64)
def _load_releases(path: StorePath, name: str, stamp: VersionStamp) -> tuple[Release, ...]:
    """Once for each version of each table, which a refresh asks a dozen times."""
    del name, stamp  # places in different buckets are equal
    table = Table(path, RELEASES)
    rows = table.read_rows(table.schema.names).to_pylist()
    found = (Release(**{**row, **_parse_tables(row["tables"])}) for row in rows)
    return tuple(sorted(found, key=lambda release: release.release))


def _parse_tables(tables_json: str) -> dict[str, dict[str, int]]:
    versions: dict[str, int] = json.loads(tables_json)
    graph = {
        name.removeprefix(_GRAPH_PREFIX): at
        for name, at in versions.items()
        if name.startswith(_GRAPH_PREFIX)
    }
    return {
        "tables": {name: at for name, at in versions.items() if _GRAPH_PREFIX not in name},
        "graph": graph,
    }


def find_live_release(lake: Lake) -> Release | None:
    """The release that queries read; None before the first."""
    return max(list_releases(lake), key=lambda release: release.release, default=None)


def first_released_at(lake: Lake, release: Release | None) -> datetime | None:
    """When the tables that a release names were released first: what a rollback names is older than itself.

    None where that is not known any more.
    """
    known = {each.release: each for each in list_releases(lake)}
    while release and release.restores is not None:
        release = known.get(release.restores)
    return release.created_at if release else None


def publish_release(lake: Lake, *, keep: int) -> Release | None:
    """Make the newest versions live; the caller holds the index lock.

    Returns None, and changes nothing, where they already are.
    """
    last, versions, graph = find_live_release(lake), newest_index_versions(lake), newest_graph_versions(lake)
    if last and (last.tables, last.graph) == (versions, graph):
        return None
    dimensions = lake.list_spaces()
    rows = sum(lake.index(space, dimensions[space]).count_rows() for space in versions)
    return _append_release(lake, versions, graph, rows=rows, keep=keep)


def newest_index_versions(lake: Lake) -> dict[str, int]:
    """The newest version of every space's index: what the next release would name.

    A space without rows is left out, because nobody needs to ask it, unless all are empty.
    """
    tables = {space: lake.index(space, size) for space, size in lake.list_spaces().items()}
    filled = {space: table for space, table in tables.items() if table.count_rows()}
    return {space: table.version for space, table in (filled or tables).items()}


def newest_graph_versions(lake: Lake) -> dict[str, int]:
    """The newest versions of the code graph's tables; none where no code was read yet."""
    return {name: table.version for name, table in lake.graph_tables().items()}


def publish_if_same_rows(lake: Lake, *, keep: int) -> Release | None:
    """Make the newest versions live if they hold exactly the rows of the live ones.

    They do after a compaction, or when an index was built. None where they do not, or are
    live already; the caller holds the index lock.
    """
    now = find_live_release(lake)
    dimensions = lake.list_spaces()
    if now is None or not now.tables.keys() <= dimensions.keys():
        return None
    for space, size in dimensions.items():
        if not _has_same_rows(lake.index(space, size), now.tables.get(space)):
            return None
    for name, table in lake.graph_tables().items():
        if not _has_same_rows(table, now.graph.get(name)):
            return None
    return publish_release(lake, keep=keep)


def _has_same_rows(table: Table, version: int | None) -> bool:
    if version is None or version == table.version:
        return version == table.version or table.count_rows() == 0
    columns = [name for name in ("id", "fingerprint") if name in table.schema.names]
    return table.count_rows() == table.count_rows(version=version) and table.read_rows(columns).sort_by(
        "id"
    ).equals(table.read_rows(columns, version=version).sort_by("id"))


def restore_release(lake: Lake, release: int, *, keep: int) -> Release:
    """Make the versions of an earlier release live again; the caller holds the index lock.

    Raises:
        NotFound: no such release, or its versions are gone.
    """
    found = next((known for known in list_releases(lake) if known.release == release), None)
    if found is None:
        known = ", ".join(str(known.release) for known in list_releases(lake)) or "none"
        raise NotFound(f"there is no release {release}; kept releases: {known}")
    return _append_release(lake, found.tables, found.graph, rows=found.rows, keep=keep, restores=release)


def _append_release(
    lake: Lake,
    versions: Mapping[str, int],
    graph: Mapping[str, int],
    *,
    rows: int,
    keep: int,
    restores: int | None = None,
) -> Release:
    last = find_live_release(lake)
    made = Release(
        release=last.release + 1 if last else 1,
        created_at=datetime.now(UTC),
        tables=dict(versions),
        rows=rows,
        restores=restores,
        graph=dict(graph),
    )
    _tag_versions(lake, made)
    row = {
        "release": made.release,
        "created_at": made.created_at,
        "tables": json.dumps(_to_versions(made), sort_keys=True),
        "rows": made.rows,
        "restores": made.restores,
    }
    table = lake.releases()
    table.append(pa.Table.from_pylist([row], schema=table.schema).to_batches())
    delete_old_releases(lake, keep=keep)
    return made


def delete_old_releases(lake: Lake, *, keep: int) -> None:
    """Keep the newest `keep` releases: older rows go, then the tags that held their versions.

    Tags whose row is gone already, because a run died between the two, go as well.
    """
    known = [release.release for release in list_releases(lake)]
    if known[:-keep]:
        table = lake.releases()
        table.delete_where(below("release", known[-keep:][0]))
        table.compact_if_due()
    tables = _released_tables(lake)
    for name, tags in find_stray_tags(lake, known[-keep:]).items():
        for tag in tags:
            tables[name].open_newest().tags.delete(tag)


def find_stray_tags(lake: Lake, kept_releases: Collection[int]) -> dict[str, list[str]]:
    """Tags of releases that are not among the kept ones, by table; only tables that have some."""
    found = {}
    for name, table in _released_tables(lake).items():
        tags = table.open_newest().tags.list()
        numbers = {tag: int(tag.removeprefix("release-")) for tag in tags if tag.startswith("release-")}
        if stray := [tag for tag, number in numbers.items() if number not in kept_releases]:
            found[name] = stray
    return found


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
                f"release {release.restores} names the table {table!r}, which is gone: index again"
            )
        tags, name = tables[table].open_newest().tags, f"release-{release.release}"
        with suppress(ValueError, RuntimeError):  # left by a run that died before its release was written
            tags.delete(name)
        tags.create(name, version)
