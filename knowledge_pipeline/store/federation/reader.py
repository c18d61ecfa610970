"""Reads one space's index of several stores as if all their rows were in one table.

Every store is asked at once. Vectors compare across stores as they are. Scores of words do not, because a
word that is rare in one store may be common in another: so the stores' statistics are added up, each store
searches with the rarities of all, and what it finds is scored again by them (`SharedKeywords`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from knowledge_pipeline.store.federation.keywords import SharedKeywords
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.index.exact_vectors import VectorMemory
from knowledge_pipeline.store.index.listed_values import ListedValues
from knowledge_pipeline.store.index.locations import Locations
from knowledge_pipeline.store.index.outline_columns import OutlineColumns
from knowledge_pipeline.store.readers import (
    LANCE_ERRORS,
    IndexReader,
    Row,
    ScoredRow,
    ScoredRows,
    SpaceUnreadable,
    count_with_tied,
    keep_tied,
)

_MEMBER_BITS = 56  # of a row id; what is above says which store
_ROW_MASK = (1 << _MEMBER_BITS) - 1

ResultT = TypeVar("ResultT")


class StoreUnreadable(SpaceUnreadable):
    """One store of several cannot be read; the others may be."""

    def __init__(self, message: str, space: str, store: str = "", *, is_late: bool = False) -> None:
        super().__init__(message, space)
        self.store = store
        self.is_late = is_late  # whether it did not answer in time

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.space), {"store": self.store, "is_late": self.is_late}


@dataclass(frozen=True, slots=True)
class FederatedReader(IndexReader):
    """The indexes of one space of several stores, each at its version.

    A row id has the position of its store above the id that the row has there.
    """

    stores: tuple[str, ...]  # their names
    members: tuple[IndexReader, ...]  # one of each
    timeout_s: float  # of each step, for each store
    keywords: SharedKeywords

    @classmethod
    def unite(cls, members: Mapping[str, IndexReader], *, timeout_s: float) -> FederatedReader:
        """The readers of one space as one, by the names of their stores."""
        stores, readers = tuple(members), tuple(members.values())
        files = {
            at << (_MEMBER_BITS - 32) | fragment: name
            for at, reader in enumerate(readers)
            for fragment, name in reader.files.items()
        }
        first = readers[0]
        nothing = VectorMemory(None, first.dimensions, max_bytes=0)  # each member has its own, and values
        keywords = SharedKeywords([reader.dataset for reader in readers])
        return cls(
            space=first.space,
            version=0,
            dimensions=first.dimensions,
            dataset=None,
            is_local=first.is_local,
            files=files,
            memory=nothing,
            listed=ListedValues(None),
            locations=Locations({}),  # each member fills its own rows
            stores=stores,
            members=readers,
            timeout_s=timeout_s,
            keywords=keywords,
        )

    async def is_readable(self) -> bool:
        """Whether any row of each store can be read."""
        return all(await asyncio.gather(*(each.is_readable() for each in self.members)))

    async def prewarm(self) -> None:
        """See `IndexReader.prewarm`."""
        await asyncio.gather(*(each.prewarm() for each in self.members))

    async def search_vector(self, vector: np.ndarray, where: Filter, *, limit: int) -> ScoredRows:
        """The nearest rows of all stores."""
        members = self.members
        found = await self._ask(lambda at: members[at].search_vector(vector, where, limit=limit))
        return _keep_best(found, limit)

    async def search_text(self, words: str, where: Filter, *, limit: int) -> ScoredRows:
        """Rows by BM25 with the statistics of all stores."""
        if len(self.members) == 1:
            return await self.members[0].search_text(words, where, limit=limit)
        count, own = self.keywords.count, [each.locations.resolve(where) for each in self.members]
        statistics = await self._ask(lambda at: asyncio.to_thread(count, at, words))
        search = self.keywords.start_search(words, statistics, limit=limit)
        while due := search.list_due():
            await self._ask(lambda at: asyncio.to_thread(search.find, at, own[at]), due)
        return keep_tied(_keep_best(search.found, count_with_tied(limit)), limit)

    async def search_similar_stem(
        self, stem: str, where: Filter, *, limit: int, max_edits: int
    ) -> ScoredRows:
        """See `IndexReader.search_similar_stem`."""
        members = self.members
        found = await self._ask(
            lambda at: members[at].search_similar_stem(stem, where, limit=limit, max_edits=max_edits)
        )
        return _keep_best(found, limit)

    async def take_rows(self, rows: Collection[int], columns: Sequence[str]) -> Mapping[int, Row]:
        """See `IndexReader.take_rows`."""
        return await self._take_from_stores(rows, lambda at, own: self.members[at].take_rows(own, columns))

    def count_file_rows(self, fragment: int) -> int:
        """See `IndexReader.count_file_rows`."""
        at, own = divmod(fragment, 1 << (_MEMBER_BITS - 32))
        return self.members[at].count_file_rows(own)

    async def read_outline_columns(self, fragment: int) -> OutlineColumns:
        """See `IndexReader.read_outline_columns`."""
        at, own = divmod(fragment, 1 << (_MEMBER_BITS - 32))
        (columns,) = await self._ask(lambda at: self.members[at].read_outline_columns(own), [at])
        return columns

    async def take_vectors(self, rows: Collection[int]) -> Mapping[int, np.ndarray]:
        """See `IndexReader.take_vectors`."""

        async def take(at: int, own: Collection[int]) -> Mapping[int, np.ndarray]:
            held = self.members[at].memory.loaded
            return held.take(own) if held else await self.members[at].take_vectors(own)

        return await self._take_from_stores(rows, take)

    async def find_rows(self, where: Filter, *, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        """Rows that match, in no particular order."""
        members = self.members
        found = await self._ask(lambda at: members[at].find_rows(where, limit=limit, columns=columns))
        return [row for rows in found for row in rows][:limit]

    async def find_rows_listing(
        self, column: str, values: Collection[str], where: Filter, *, limit: int, columns: Sequence[str]
    ) -> Sequence[Row]:
        """See `IndexReader.find_rows_listing`."""
        members = self.members
        found = await self._ask(
            lambda at: members[at].find_rows_listing(column, values, where, limit=limit, columns=columns)
        )
        return [row for rows in found for row in rows][:limit]

    async def count_rows(self, where: Filter) -> int:
        """How many rows match."""
        return sum(await self._ask(lambda at: self.members[at].count_rows(where)))

    async def _ask(
        self, ask: Callable[[int], Awaitable[ResultT]], positions: Sequence[int] | None = None
    ) -> list[ResultT]:
        """The results of some stores, by default of all, which are asked at once.

        Raises:
            StoreUnreadable: one cannot be read, or does not answer in time.
        """

        async def ask_one(at: int) -> ResultT:
            is_late = False
            try:
                async with asyncio.timeout(self.timeout_s):
                    return await ask(at)
            except TimeoutError:
                is_late, reason = True, f"it did not answer within {self.timeout_s:g} s"
            except SpaceUnreadable as error:
                reason = str(error)
            except LANCE_ERRORS as error:
                reason = f"its index {self.space!r} cannot be read ({type(error).__name__})"
            raise StoreUnreadable(reason, self.space, self.stores[at], is_late=is_late)

        asked = range(len(self.members)) if positions is None else positions
        return await asyncio.gather(*map(ask_one, asked))

    async def _take_from_stores(
        self,
        rows: Collection[int],
        take: Callable[[int, Collection[int]], Awaitable[Mapping[int, ResultT]]],
    ) -> Mapping[int, ResultT]:
        """What each store has of its own rows, by our row ids, in the order of `rows`."""
        own: dict[int, list[int]] = {}
        for row in rows:
            own.setdefault(row >> _MEMBER_BITS, []).append(row & _ROW_MASK)
        positions = list(own)
        taken = await self._ask(lambda at: take(at, own[at]), positions)
        found = {
            at << _MEMBER_BITS | row: value
            for at, values in zip(positions, taken, strict=True)
            for row, value in values.items()
        }
        return {row: found[row] for row in rows if row in found}


def _keep_best(found: Sequence[Sequence[ScoredRow]], limit: int) -> ScoredRows:
    """The best rows of all stores, best first, by our row ids."""
    rows = (
        ScoredRow(at << _MEMBER_BITS | row.row_id, row.score)
        for at, of_store in enumerate(found)
        for row in of_store
    )
    return ScoredRows.of(heapq.nsmallest(limit, rows, key=lambda row: (-row.score, row.row_id)))
