"""Opens what questions read: the live release, or chosen versions, as far as a question needs them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.store import release as releases
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.graph import GraphReader, open_graph
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.search import IndexReader, Row, SpaceUnreadable, open_index
from knowledge_pipeline.sync_facade import gather_all

MAX_CHUNKS = 10_000  # of one document
RETRY_UNREADABLE_S = 5.0
_POLL_INTERVAL_S = 1.0


@dataclass(slots=True)
class OpenRelease:
    """A release, whose tables are opened at its versions when they are first needed.

    So a question to the code graph opens no vectors, and a search and its use of the graph see one
    release.
    """

    release: Release
    _lake: Lake
    _readers: dict[tuple[str, int], IndexReader] = field(default_factory=dict[tuple[str, int], IndexReader])
    _graph: GraphReader | None = None
    _unreadable: dict[str, tuple[SpaceUnreadable, float]] = field(
        default_factory=dict[str, tuple[SpaceUnreadable, float]]
    )  # by space, with when to try again
    _earlier: dict[str, IndexReader] = field(default_factory=dict[str, IndexReader])  # by space
    _opening: dict[tuple[str, int], asyncio.Task[IndexReader]] = field(
        default_factory=dict[tuple[str, int], "asyncio.Task[IndexReader]"]
    )

    @property
    def missing(self) -> Mapping[str, str]:
        """What of several stores answers lack, and why: "store:NAME" -> reason."""
        return {}

    async def open_readers(self) -> tuple[IndexReader, ...]:
        """A reader for each space. Raises `SpaceUnreadable`: a table cannot be opened."""
        readers, unreadable = await self.open_readable_readers()
        if unreadable:
            raise next(iter(unreadable.values()))
        return readers

    async def open_readable_readers(self) -> tuple[tuple[IndexReader, ...], Mapping[str, SpaceUnreadable]]:
        """A reader for each space that can be read, and why others cannot.

        Raises `SpaceUnreadable`: none can be opened.
        """
        readers: list[IndexReader] = []
        unreadable: dict[str, SpaceUnreadable] = {}
        for space, version in sorted(self.release.tables.items()):
            problem, until_s = self._unreadable.get(space, (None, 0.0))
            try:
                if problem and time.monotonic() < until_s:
                    raise problem
                readers.append(
                    self._readers.get((space, version)) or await self._open_reader_once(space, version)
                )
            except SpaceUnreadable as error:
                unreadable[space] = error
        if unreadable and not readers:
            raise next(iter(unreadable.values()))
        return tuple(readers), unreadable

    async def _open_reader_once(self, space: str, version: int) -> IndexReader:
        """A reader for all questions that wait for it, as many do after a release."""
        key = (space, version)
        if key not in self._opening:
            self._opening[key] = asyncio.create_task(self._open_reader(space, version))
        return await asyncio.shield(self._opening[key])  # whoever goes away leaves it to the others

    async def _open_reader(self, space: str, version: int) -> IndexReader:
        try:
            reader = await open_index(self._lake.root, space, version)
            if earlier := self._earlier.pop(space, None):
                with suppress(SpaceUnreadable):  # searches read what is not held
                    await reader.advance_from(earlier)
            self._readers[space, version] = reader
            return reader
        finally:
            del self._opening[space, version]

    async def mark_unreadable(self, error: SpaceUnreadable) -> None:
        """Do without a space that cannot be read, and open it again after a while.

        Raises `SpaceUnreadable`: it can be read; only this question's condition cannot be evaluated.
        """
        key = (error.space, self.release.tables[error.space])
        if key in self._readers:
            if await self._readers[key].is_readable():
                raise error
            self._readers.pop(key, None)
        self._unreadable[error.space] = (error, time.monotonic() + RETRY_UNREADABLE_S)

    async def open_graph_reader(self) -> GraphReader | None:
        """The code graph; None if the release has none. Raises `StoreError`: it cannot be opened."""
        if self._graph is None and self.release.graph:
            self._graph = await open_graph(self._lake.root, self.release.graph)
        return self._graph

    def advance_to(self, release: Release) -> OpenRelease:
        """The next release; tables whose versions did not change stay open."""
        readers = {key: self._readers[key] for key in release.tables.items() if key in self._readers}
        graph = self._graph if release.graph == self.release.graph else None
        earlier = {**self._earlier, **{space: reader for (space, _), reader in self._readers.items()}}
        opened = {space for space, _ in readers}
        earlier = {space: reader for space, reader in earlier.items() if space not in opened}
        return OpenRelease(release, self._lake, readers, graph, _earlier=earlier)


async def find_rows(
    readers: Sequence[IndexReader], where: Filter, columns: Sequence[str], *, limit: int = MAX_CHUNKS
) -> list[Row]:
    """Rows of all spaces, at most `limit` of each."""
    by_space = await gather_all(reader.find_rows(where, limit=limit, columns=columns) for reader in readers)
    return [row for rows in by_space for row in rows]


class Index(Protocol):
    """What questions are asked of."""

    async def open_release(self) -> OpenRelease:
        """The versions to read now; called for every question."""
        ...


class PinnedIndex:
    """Chosen versions and weights, whatever is live: an index is evaluated before its release, which is 0.

    Its code graph is that of the last release of exactly these versions, else the newest.
    """

    def __init__(self, lake: Lake, tables: Mapping[str, int], ranker: str | None) -> None:
        self._lake, self._ranker = lake, ranker
        self._tables = dict(tables)  # space -> version
        self._opened: OpenRelease | None = None

    async def open_release(self) -> OpenRelease:
        """The versions."""
        if self._opened is None:
            listed = await asyncio.to_thread(releases.list_releases, self._lake)
            graphs = [release.graph for release in listed if release.tables == self._tables]
            if not graphs:
                graphs = [await asyncio.to_thread(releases.newest_graph_versions, self._lake)]
            release = Release(0, datetime.now(UTC), self._tables, 0, graph=graphs[-1], ranker=self._ranker)
            self._opened = OpenRelease(release, self._lake)
        return self._opened


class LiveIndex:
    """The live release, kept open until another one is live.

    Notices a new release by the listing of the releases table's versions. On an object store, where
    that is a request, it looks once a second.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._poll_interval_s = 0.0 if lake.is_local else _POLL_INTERVAL_S
        self._polled_at = float("-inf")
        self._stamp: VersionStamp | None = None
        self._opened: OpenRelease | None = None
        self._opening = asyncio.Lock()

    async def open_release(self) -> OpenRelease:
        """The live release. Raises `NotFound`: nothing is released yet."""
        if self._opened and time.monotonic() < self._polled_at + self._poll_interval_s:
            return self._opened
        table = self._lake.releases()
        if self._lake.is_local:  # 0.05 ms, less than a thread takes
            stamp = table.version_stamp
        else:
            stamp = await asyncio.to_thread(lambda: table.version_stamp)
        self._polled_at = time.monotonic()
        if self._opened is None or stamp != self._stamp:
            async with self._opening:  # the first question opens it for all that wait
                if self._opened is None or stamp != self._stamp:
                    await self._advance(stamp)
        assert self._opened
        return self._opened

    async def _advance(self, stamp: VersionStamp) -> None:
        live = await asyncio.to_thread(releases.find_live_release, self._lake)
        if live is None:
            raise NotFound("nothing is released yet: run `knowledge index`")
        same_table = self._stamp and stamp[0] == self._stamp[0]  # so what is open is kept
        previous = self._opened if same_table else None
        self._opened = previous.advance_to(live) if previous else OpenRelease(live, self._lake)
        self._stamp = stamp

    async def prewarm(self) -> None:
        """Read the indexes of the live release into memory.

        Raises `NotFound`: nothing is released yet; `SpaceUnreadable`: none can be read.
        """
        readers, _ = await (await self.open_release()).open_readable_readers()
        for reader in readers:
            await reader.prewarm()
