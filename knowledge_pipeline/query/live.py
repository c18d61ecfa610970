"""What questions are asked of: the live release, or chosen versions; one reader for each space."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from knowledge_pipeline.errors import NotFound, StoreError
from knowledge_pipeline.store import release as releases
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.readers import IndexReader, open_index
from knowledge_pipeline.store.release import Release


@dataclass(frozen=True, slots=True)
class Opened:
    """A release and a reader for each of its spaces, at the versions that it names."""

    release: Release
    readers: tuple[IndexReader, ...]


class Index(Protocol):
    """Opens what questions are asked of; called for every question."""

    async def opened(self) -> Opened:
        """The versions to ask now."""
        ...


class ChosenIndex:
    """Chosen versions, whatever is live: an index is asked before it is released. Its release is 0."""

    def __init__(self, lake: Lake, tables: Mapping[str, int]) -> None:
        self._lake = lake
        self._tables = dict(tables)  # space -> version
        self._opened: Opened | None = None

    async def opened(self) -> Opened:
        """The versions.

        Raises:
            StoreError: one of them cannot be opened.
        """
        if self._opened is None:
            readers = [await _reader(self._lake, *named) for named in sorted(self._tables.items())]
            release = Release(0, datetime.now(UTC), self._tables, rows=0)
            self._opened = Opened(release, tuple(readers))
        return self._opened


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
            StoreError: a table of the release cannot be opened.
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
        known = self._known(mark)
        readers = [
            known.get((space, version)) or await _reader(self._lake, space, version, live)
            for space, version in sorted(live.tables.items())
        ]
        return Opened(live, tuple(readers))

    def _known(self, mark: tuple[int, int]) -> dict[tuple[str, int], IndexReader]:
        if self._opened is None or self._mark is None or mark[1] != self._mark[1]:
            return {}
        return {(reader.space, reader.version): reader for reader in self._opened.readers}


async def _reader(lake: Lake, space: str, version: int, named_by: Release | None = None) -> IndexReader:
    try:
        return await open_index(lake.root, space, version)
    except (OSError, RuntimeError, ValueError) as error:  # what LanceDB raises of a missing version
        named = f"release {named_by.release} names" if named_by else "asked was"
        raise StoreError(
            f"{named} version {version} of the index {space!r}, which cannot be "
            f"opened ({type(error).__name__}): run `knowledge index`, or `knowledge rollback`"
        ) from error
