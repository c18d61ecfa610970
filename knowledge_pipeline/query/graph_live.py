"""The code graph of the live release, opened once for as long as it is live."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.store import release as releases
from knowledge_pipeline.store.graph_reader import GraphReader, open_graph
from knowledge_pipeline.store.lake import Lake


@dataclass(frozen=True, slots=True)
class OpenedGraph:
    """A release and a reader at the versions that it names."""

    release: int
    reader: GraphReader


class LiveGraph:
    """Notices a new release by the version of the releases table, as `LiveIndex` does."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._mark: tuple[int, int] | None = None
        self._opened: OpenedGraph | None = None

    async def opened(self) -> OpenedGraph:
        """The live release's code graph.

        Raises:
            NotFound: nothing is released yet, or no code graph.
            StoreError: it cannot be opened.
        """
        mark = await asyncio.to_thread(self._read_mark)
        if self._opened is None or mark != self._mark:
            self._opened, self._mark = await self._open(mark), mark
        return self._opened

    def _read_mark(self) -> tuple[int, int]:
        table = self._lake.releases()
        if not table.exists:
            return 0, 0
        return table.version, table.path.stat().st_mtime_ns

    async def _open(self, mark: tuple[int, int]) -> OpenedGraph:
        live = await asyncio.to_thread(releases.live, self._lake)
        if live is None:
            raise NotFound("nothing is released yet: run `knowledge index`")
        if not live.graph:
            raise NotFound("the code graph is not built: run `knowledge refresh`, with a source of type code")
        same_store = self._mark is not None and mark[1] == self._mark[1]
        if self._opened and same_store and self._opened.reader.versions == live.graph:
            return OpenedGraph(live.release, self._opened.reader)
        return OpenedGraph(live.release, await open_graph(self._lake.root, live.graph))
