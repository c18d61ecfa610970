"""What questions are asked of: the live release, or chosen versions, opened as far as a question needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.store import release as releases
from knowledge_pipeline.store.code_graph.reader import GraphReader, open_graph
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.readers import IndexReader, SpaceUnreadable, open_index
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.tables import VersionStamp

_RETRY_UNREADABLE_S = 5.0
_POLL_INTERVAL_S = 1.0


@dataclass(slots=True)
class OpenRelease:
    """A release; its tables are opened at the versions that it names when they are first asked for.

    So a question to the code graph opens no vectors, and a search and what it asks of the graph see
    one release.
    """

    release: Release
    _lake: Lake
    _readers: dict[tuple[str, int], IndexReader] = field(default_factory=dict[tuple[str, int], IndexReader])
    _graph: GraphReader | None = None
    _unreadable: dict[str, tuple[SpaceUnreadable, float]] = field(
        default_factory=dict[str, tuple[SpaceUnreadable, float]]
    )

    async def open_readers(self) -> tuple[IndexReader, ...]:
        """A reader for each space.

        Raises:
            SpaceUnreadable: a table cannot be opened.
        """
        readers, lost = await self.open_readable_readers()
        if lost:
            raise next(iter(lost.values()))
        return readers

    async def open_readable_readers(self) -> tuple[tuple[IndexReader, ...], Mapping[str, SpaceUnreadable]]:
        """A reader for each space that can be read, and why others cannot.

        Raises:
            SpaceUnreadable: none can be opened.
        """
        readers: list[IndexReader] = []
        lost: dict[str, SpaceUnreadable] = {}
        for space, version in sorted(self.release.tables.items()):
            try:
                readers.append(await self._open_reader(space, version))
            except SpaceUnreadable as error:
                lost[space] = error
        if lost and not readers:
            raise next(iter(lost.values()))
        return tuple(readers), lost

    async def mark_unreadable(self, error: SpaceUnreadable) -> None:
        """Do without a space that cannot be read, and open it anew after a while.

        Raises:
            SpaceUnreadable: it can be read, and only this question's condition cannot be answered.
        """
        named = (error.space, self.release.tables[error.space])
        if named in self._readers:
            if await self._readers[named].is_readable():
                raise error
            self._readers.pop(named, None)
        self._unreadable[error.space] = (error, time.monotonic() + _RETRY_UNREADABLE_S)

    async def _open_reader(self, space: str, version: int) -> IndexReader:
        error, until_s = self._unreadable.get(space, (None, 0.0))
        if error and time.monotonic() < until_s:
            raise error
        if (space, version) not in self._readers:
            self._readers[space, version] = await open_index(self._lake.root, space, version)
        return self._readers[space, version]

    async def open_graph_reader(self) -> GraphReader | None:
        """The code graph; None where the release has none.

        Raises:
            StoreError: it cannot be opened.
        """
        if self._graph is None and self.release.graph:
            self._graph = await open_graph(self._lake.root, self.release.graph)
        return self._graph

    def advance_to(self, release: Release) -> OpenRelease:
        """The next release, with what it has in common with this one open already."""
        readers = {each: self._readers[each] for each in release.tables.items() if each in self._readers}
        graph = self._graph if release.graph == self.release.graph else None
        return OpenRelease(release, self._lake, readers, graph)


class Index(Protocol):
    """Opens what questions are asked of; called for every question."""

    async def open_release(self) -> OpenRelease:
        """The versions to ask now."""
        ...


class PinnedIndex:
    """Chosen versions, whatever is live: an index is asked before it is released. Its release is 0.

    Their code graph is that of the last release that names exactly them, else the newest.
    """

    def __init__(self, lake: Lake, tables: Mapping[str, int]) -> None:
        self._lake = lake
        self._tables = dict(tables)  # space -> version
        self._opened: OpenRelease | None = None

    async def open_release(self) -> OpenRelease:
        """The versions."""
        if self._opened is None:
            graph = await asyncio.to_thread(self._find_graph)
            self._opened = OpenRelease(
                Release(0, datetime.now(UTC), self._tables, 0, graph=graph), self._lake
            )
        return self._opened

    def _find_graph(self) -> Mapping[str, int]:
        named = [each.graph for each in releases.list_releases(self._lake) if each.tables == self._tables]
        return named[-1] if named else releases.newest_graph_versions(self._lake)


class LiveIndex:
    """The release that is live; kept until another one is.

    Notices a new release by how the folder of the releases table lists its versions. On an object store,
    where that is a request, it looks once a second.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._looks_every_s = 0.0 if lake.is_local else _POLL_INTERVAL_S
        self._looked_at = float("-inf")
        self._mark: VersionStamp | None = None
        self._opened: OpenRelease | None = None

    async def open_release(self) -> OpenRelease:
        """The live release.

        Raises:
            NotFound: nothing is released yet.
        """
        if self._opened and time.monotonic() < self._looked_at + self._looks_every_s:
            return self._opened
        mark = await asyncio.to_thread(lambda: self._lake.releases().version_stamp)
        self._looked_at = time.monotonic()
        if self._opened is None or mark != self._mark:
            self._opened, self._mark = await self._open_release_at(mark), mark
        return self._opened

    async def prewarm(self) -> None:
        """Read the indexes of the live release into memory.

        Raises:
            NotFound: nothing is released yet.
            SpaceUnreadable: none can be read.
        """
        readers, _ = await (await self.open_release()).open_readable_readers()
        for reader in readers:
            await reader.prewarm()

    async def _open_release_at(self, mark: VersionStamp) -> OpenRelease:
        live = await asyncio.to_thread(releases.find_live_release, self._lake)
        if live is None:
            raise NotFound("nothing is released yet: run `knowledge index`")
        if self._opened is None or self._mark is None or mark[0] != self._mark[0]:
            return OpenRelease(live, self._lake)
        return self._opened.advance_to(live)
