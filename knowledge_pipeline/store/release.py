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
from knowledge_pipeline.store.lance_storage import Mark, Place
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


_GRAPH = "graph/"  # before the names of its tables, where a release's row lists all; no space has a slash


def releases(lake: Lake) -> list[Release]:
    """All releases that can still be read, the live one last."""
    table = lake.releases()
    return list(_read(table.path, str(table.path), table.mark))


@lru_cache(maxsize=64)
def _read(place: Place, name: str, mark: Mark) -> tuple[Release, ...]:
    """Once for each version of each table, which a refresh asks a dozen times."""
    del name, mark  # places in different buckets are equal
    table = Table(place, RELEASES)
    rows = table.rows(table.schema.names).to_pylist()
    found = (Release(**{**row, **_tables_in(row["tables"])}) for row in rows)
    return tuple(sorted(found, key=lambda release: release.release))


def _tables_in(told: str) -> dict[str, dict[str, int]]:
    versions: dict[str, int] = json.loads(told)
    graph = {name.removeprefix(_GRAPH): at for name, at in versions.items() if name.startswith(_GRAPH)}
    return {"tables": {name: at for name, at in versions.items() if _GRAPH not in name}, "graph": graph}


def live(lake: Lake) -> Release | None:
    """The release that queries read; None before the first."""
    return max(releases(lake), key=lambda release: release.release, default=None)


def written_until(lake: Lake, release: Release | None) -> datetime | None:
    """When the tables that a release names were released first: what a rollback names is older than itself.

    None where that is not known any more.
    """
    known = {each.release: each for each in releases(lake)}
    while release and release.restores is not None:
        release = known.get(release.restores)
    return release.created_at if release else None


def publish(lake: Lake, *, keep: int) -> Release | None:
    """Make the newest versions live; the caller holds the index lock.

    Returns None, and changes nothing, where they already are.
    """
    last, versions, graph = live(lake), newest(lake), newest_graph(lake)
    if last and (last.tables, last.graph) == (versions, graph):
        return None
    dimensions = lake.spaces()
    rows = sum(lake.index(space, dimensions[space]).count() for space in versions)
    return _append(lake, versions, graph, rows=rows, keep=keep)


def newest(lake: Lake) -> dict[str, int]:
    """The newest version of every space's index: what the next release would name.

    A space without rows is left out, because nobody needs to ask it, unless all are empty.
    """
    tables = {space: lake.index(space, size) for space, size in lake.spaces().items()}
    filled = {space: table for space, table in tables.items() if table.count()}
    return {space: table.version for space, table in (filled or tables).items()}


def newest_graph(lake: Lake) -> dict[str, int]:
    """The newest versions of the code graph's tables; none where no code was read yet."""
    return {name: table.version for name, table in lake.graphs().items()}


def publish_same(lake: Lake, *, keep: int) -> Release | None:
    """Make the newest versions live if they hold exactly the rows of the live ones.

    They do after a compaction, or when an index was built. None where they do not, or are
    live already; the caller holds the index lock.
    """
    now = live(lake)
    dimensions = lake.spaces()
    if now is None or not now.tables.keys() <= dimensions.keys():
        return None
    for space, size in dimensions.items():
        if not _same_rows(lake.index(space, size), now.tables.get(space)):
            return None
    for name, table in lake.graphs().items():
        if not _same_rows(table, now.graph.get(name)):
            return None
    return publish(lake, keep=keep)


def _same_rows(table: Table, version: int | None) -> bool:
    if version is None or version == table.version:
        return version == table.version or table.count() == 0
    columns = [name for name in ("id", "fingerprint") if name in table.schema.names]
    return table.count() == table.count(version=version) and table.rows(columns).sort_by("id").equals(
        table.rows(columns, version=version).sort_by("id")
    )


def roll_back(lake: Lake, release: int, *, keep: int) -> Release:
    """Make the versions of an earlier release live again; the caller holds the index lock.

    Raises:
        NotFound: no such release, or its versions are gone.
    """
    found = next((known for known in releases(lake) if known.release == release), None)
    if found is None:
        known = ", ".join(str(known.release) for known in releases(lake)) or "none"
        raise NotFound(f"there is no release {release}; kept releases: {known}")
    return _append(lake, found.tables, found.graph, rows=found.rows, keep=keep, restores=release)


def _append(
    lake: Lake,
    versions: Mapping[str, int],
    graph: Mapping[str, int],
    *,
    rows: int,
    keep: int,
    restores: int | None = None,
) -> Release:
    last = live(lake)
    made = Release(
        release=last.release + 1 if last else 1,
        created_at=datetime.now(UTC),
        tables=dict(versions),
        rows=rows,
        restores=restores,
        graph=dict(graph),
    )
    _tag(lake, made)
    row = {
        "release": made.release,
        "created_at": made.created_at,
        "tables": json.dumps(_versions_of(made), sort_keys=True),
        "rows": made.rows,
        "restores": made.restores,
    }
    table = lake.releases()
    table.append(pa.Table.from_pylist([row], schema=table.schema).to_batches())
    forget(lake, keep=keep)
    return made


def forget(lake: Lake, *, keep: int) -> None:
    """Keep the newest `keep` releases: older rows go, then the tags that held their versions.

    Tags whose row is gone already, because a run died between the two, go as well.
    """
    known = [release.release for release in releases(lake)]
    if known[:-keep]:
        table = lake.releases()
        table.delete_where(below("release", known[-keep:][0]))
        table.tidy()
    tables = _released_tables(lake)
    for name, tags in stray_tags(lake, known[-keep:]).items():
        for tag in tags:
            tables[name].newest().tags.delete(tag)


def stray_tags(lake: Lake, kept: Collection[int]) -> dict[str, list[str]]:
    """Tags of releases that are not among the kept ones, by table; only tables that have some."""
    found = {}
    for name, table in _released_tables(lake).items():
        tags = table.newest().tags.list()
        numbers = {tag: int(tag.removeprefix("release-")) for tag in tags if tag.startswith("release-")}
        if stray := [tag for tag, number in numbers.items() if number not in kept]:
            found[name] = stray
    return found


def _released_tables(lake: Lake) -> dict[str, Table]:
    """Every table that a release may name, as its row names it."""
    spaces = {space: lake.index(space, dimensions) for space, dimensions in lake.spaces().items()}
    return {**spaces, **{_GRAPH + name: table for name, table in lake.graphs().items()}}


def _versions_of(made: Release) -> dict[str, int]:
    return {**made.tables, **{_GRAPH + name: version for name, version in made.graph.items()}}


def _tag(lake: Lake, made: Release) -> None:
    tables = _released_tables(lake)
    for table, version in _versions_of(made).items():
        if table not in tables:
            raise NotFound(f"release {made.restores} names the table {table!r}, which is gone: index again")
        tags, name = tables[table].newest().tags, f"release-{made.release}"
        with suppress(ValueError, RuntimeError):  # left by a run that died before its release was written
            tags.delete(name)
        tags.create(name, version)
