"""What questions are asked of: the live release, or chosen versions, opened as far as a question needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from knowledge_pipeline.errors import NotFound, StoreError
from knowledge_pipeline.store import release as releases
from knowledge_pipeline.store.graph_reader import GraphReader, open_graph
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.readers import IndexReader, open_index
from knowledge_pipeline.store.release import Release


@dataclass(slots=True)
class Opened:
    """A release; its tables are opened at the versions that it names when they are first asked for.

    So a question to the code graph opens no vectors, and a search and what it asks of the graph see
    one release.
    """

    release: Release
    _lake: Lake
    _readers: dict[tuple[str, int], IndexReader] = field(default_factory=dict[tuple[str, int], IndexReader])
    _graph: GraphReader | None = None

    async def readers(self) -> tuple[IndexReader, ...]:
        """A reader for each space.

        Raises:
            StoreError: a table cannot be opened.
        """
        named = sorted(self.release.tables.items())
        for each in named:
            if each not in self._readers:
                self._readers[each] = await _reader(self._lake, *each, self.release)
        return tuple(self._readers[each] for each in named)

    async def graph(self) -> GraphReader | None:
        """The code graph; None where the release has none.

        Raises:
            StoreError: it cannot be opened.
        """
        if self._graph is None and self.release.graph:
            self._graph = await open_graph(self._lake.root, self.release.graph)
        return self._graph

    def followed_by(self, release: Release) -> Opened:
        """The next release, with what it has in common with this one open already."""
        readers = {each: self._readers[each] for each in release.tables.items() if each in self._readers}
        graph = self._graph if release.graph == self.release.graph else None
        return Opened(release, self._lake, readers, graph)


class Index(Protocol):
    """Opens what questions are asked of; called for every question."""

    async def opened(self) -> Opened:
        """The versions to ask now."""
        ...


class ChosenIndex:
    """Chosen versions, whatever is live: an index is asked before it is released. Its release is 0.

    Their code graph is that of the last release that names exactly them, else the newest.
    """

    def __init__(self, lake: Lake, tables: Mapping[str, int]) -> None:
        self._lake = lake
        self._tables = dict(tables)  # space -> version
        self._opened: Opened | None = None

    async def opened(self) -> Opened:
        """The versions."""
        if self._opened is None:
            graph = await asyncio.to_thread(self._graph)
            self._opened = Opened(Release(0, datetime.now(UTC), self._tables, 0, graph=graph), self._lake)
        return self._opened

    def _graph(self) -> Mapping[str, int]:
        named = [each.graph for each in releases.releases(self._lake) if each.tables == self._tables]
        return named[-1] if named else releases.newest_graph(self._lake)


class LiveIndex:
    """The release that is live; kept until another one is.

    Notices a new release by the version of the releases table: about 2 ms a question.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._mark: tuple[int, int] | None = None
        self._opened: Opened | None = None

    async def opened(self) -> Opened:
        """The live release.

        Raises:
            NotFound: nothing is released yet.
        """
        mark = await asyncio.to_thread(self._read_mark)
        if self._opened is None or mark != self._mark:
            self._opened, self._mark = await self._open(mark), mark
        return self._opened

    def _read_mark(self) -> tuple[int, int]:
        """Version of the releases table, and its folder's time, which tells a table made anew."""
        table = self._lake.releases()
        if not table.exists:
            return 0, 0
        return table.version, table.path.stat().st_mtime_ns

    async def _open(self, mark: tuple[int, int]) -> Opened:
        live = await asyncio.to_thread(releases.live, self._lake)
        if live is None:
            raise NotFound("nothing is released yet: run `knowledge index`")
        if self._opened is None or self._mark is None or mark[1] != self._mark[1]:
            return Opened(live, self._lake)
        return self._opened.followed_by(live)


async def _reader(lake: Lake, space: str, version: int, named_by: Release) -> IndexReader:
    try:
        return await open_index(lake.root, space, version)
    except (OSError, RuntimeError, ValueError) as error:  # what LanceDB raises of a missing version
        named = f"release {named_by.release} names" if named_by.release else "asked was"
        raise StoreError(
            f"{named} version {version} of the index {space!r}, which cannot be "
            f"opened ({type(error).__name__}): run `knowledge index`, or `knowledge rollback`"
        ) from error
