"""Opens what questions read: the live release, or chosen versions, as far as a question needs them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.store import release as releases
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.graph import GraphReader, open_graph
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp, read_version_stamp
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.search import IndexReader, Row, SpaceUnreadable, open_index
from knowledge_pipeline.sync_facade import gather_all

MAX_CHUNKS = 10_000  # of one document
RETRY_UNREADABLE_S = 5.0
_POLL_INTERVAL_S = 1.0
_CHOICE_INTERVAL_S = 2.0  # between two looks at a working tree


_OpenVersion = tuple[str, int, VersionStamp]  # of a space


def _key_of(release: Release, space: str) -> _OpenVersion:
    return space, release.tables[space], release.stamps.get(space, ())


def _graph_key_of(release: Release) -> list[tuple[str, int, VersionStamp]]:
    graph = sorted(release.graph.items())
    return [(name, version, release.stamps.get(f"graph/{name}", ())) for name, version in graph]


@dataclass(slots=True)
class OpenRelease:
    """A release, whose tables are opened at its versions when they are first needed.

    So a question to the code graph opens no vectors, and a search and its use of the graph see one
    release.
    """

    release: Release
    _lake: Lake
    _readers: dict[_OpenVersion, IndexReader] = field(default_factory=dict[_OpenVersion, IndexReader])
    _graph: GraphReader | None = None
    _unreadable: dict[str, tuple[SpaceUnreadable, float]] = field(
        default_factory=dict[str, tuple[SpaceUnreadable, float]]
    )  # by space, with when to try again
    _earlier: dict[str, IndexReader] = field(default_factory=dict[str, IndexReader])  # by space
    _opening: dict[str, asyncio.Task[IndexReader]] = field(
        default_factory=dict[str, "asyncio.Task[IndexReader]"]
    )
    embedded_share: float = field(init=False)  # of its rows, rounded

    def __post_init__(self) -> None:
        self.embedded_share = round(self.release.embedded_share, 4)

    @property
    def missing(self) -> Mapping[str, Any]:
        """What answers lack, and why: "index" -> by table, "store:NAME" -> reason.

        What is damaged shows when it is first read.
        """
        readers = {reader.space: reader.damage.describe(reader.space) for reader in self._readers.values()}
        if self._graph:
            readers["graph"] = self._graph.describe_damage()
        damaged = {name: problem for name, problem in readers.items() if problem}
        return {"index": damaged} if damaged else {}

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
        for space in sorted(self.release.tables):
            problem, until_s = self._unreadable.get(space, (None, 0.0))
            try:
                if problem and time.monotonic() < until_s:
                    raise problem
                reader = self._readers.get(_key_of(self.release, space))
                readers.append(reader or await self._open_reader_once(space))
            except SpaceUnreadable as error:
                unreadable[space] = error
        if unreadable and not readers:
            raise next(iter(unreadable.values()))
        return tuple(readers), unreadable

    async def _open_reader_once(self, space: str) -> IndexReader:
        """A reader for all questions that wait for it, as many do after a release."""
        if space not in self._opening:
            self._opening[space] = asyncio.create_task(self._open_reader(space))
        return await asyncio.shield(self._opening[space])  # whoever goes away leaves it to the others

    async def _open_reader(self, space: str) -> IndexReader:
        try:
            reader = await open_index(self._lake.root, space, self.release.tables[space])
            if earlier := self._earlier.pop(space, None):
                with suppress(SpaceUnreadable):  # searches read what is not held
                    await reader.advance_from(earlier)
            self._readers[_key_of(self.release, space)] = reader
            return reader
        finally:
            del self._opening[space]

    async def mark_unreadable(self, error: SpaceUnreadable) -> None:
        """Do without a space that cannot be read, and open it again after a while.

        Raises `SpaceUnreadable`: it can be read; only this question's condition cannot be evaluated.
        """
        key = _key_of(self.release, error.space)
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
        keys = (_key_of(release, space) for space in release.tables)
        readers = {key: self._readers[key] for key in keys if key in self._readers}
        graph = self._graph if _graph_key_of(release) == _graph_key_of(self.release) else None
        earlier = {**self._earlier, **{space: reader for (space, *_), reader in self._readers.items()}}
        opened = {space for space, *_ in readers}
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

    Notices a new release by the listing of the releases table's versions: for each question, and on an object
    store, where that is a request, once a second. That files of its tables were replaced shows in a folder
    within a second, and on an object store with the next release.
    """

    def __init__(self, lake: Lake, choose_lake: Callable[[], Lake] | None = None) -> None:
        """`choose_lake` says whose release is live, again and again: the store, or an overlay of it."""
        self._choose_lake, self._choosing = choose_lake, asyncio.Lock()
        self._chosen_at = float("-inf")
        self._opening = asyncio.Lock()
        self._follow(lake)

    def _follow(self, lake: Lake) -> None:
        self._lake, self._is_local = lake, lake.is_local
        self._releases = lake.releases().path
        self._poll_interval_s = 0.0 if self._is_local else _POLL_INTERVAL_S
        self._polled_at = self._verified_at = float("-inf")
        self._stamp: VersionStamp | None = None
        self._opened: OpenRelease | None = None

    async def _choose(self, choose_lake: Callable[[], Lake]) -> None:
        async with self._choosing:  # the first question looks for all that wait
            if time.monotonic() < self._chosen_at + _CHOICE_INTERVAL_S:
                return
            lake = await asyncio.to_thread(choose_lake)
            if lake != self._lake:
                async with self._opening:
                    self._follow(lake)
            self._chosen_at = time.monotonic()

    async def open_release(self) -> OpenRelease:
        """The live release. Raises `NotFound`: nothing is released yet."""
        if self._choose_lake:
            await self._choose(self._choose_lake)
        if self._opened and time.monotonic() < self._polled_at + self._poll_interval_s:
            return self._opened
        if self._is_local:  # 0.05 ms, less than a thread takes
            stamp = read_version_stamp(self._releases)
        else:
            stamp = await asyncio.to_thread(read_version_stamp, self._releases)
        self._polled_at = time.monotonic()
        if not self._is_current(stamp):
            async with self._opening:  # the first question opens it for all that wait
                if not self._is_current(stamp):
                    await self._advance(stamp)
        assert self._opened
        return self._opened

    def _is_current(self, stamp: VersionStamp) -> bool:
        """Whether what is open is the live release, by the stamp of the releases."""
        if self._opened is None or stamp != self._stamp:
            return False
        if not self._is_local or time.monotonic() < self._verified_at + _POLL_INTERVAL_S:
            return True
        release, self._verified_at = self._opened.release, time.monotonic()
        if release.stamps != releases.stamp_tables(self._lake, release):
            self._stamp = None  # for whoever waits to open it
        return self._stamp is not None

    async def _advance(self, stamp: VersionStamp) -> None:
        def find_live() -> Release | None:
            live = releases.find_live_release(self._lake)
            return live and replace(live, stamps=releases.stamp_tables(self._lake, live))

        live = await asyncio.to_thread(find_live)
        if live is None:
            raise NotFound("nothing is released yet: run `knowledge index`")
        previous = self._opened
        self._opened = previous.advance_to(live) if previous else OpenRelease(live, self._lake)
        self._stamp = stamp

    async def prewarm(self) -> None:
        """Read the indexes of the live release into memory.

        Raises `NotFound`: nothing is released yet; `SpaceUnreadable`: none can be read.
        """
        readers, _ = await (await self.open_release()).open_readable_readers()
        for reader in readers:
            await reader.prewarm()
