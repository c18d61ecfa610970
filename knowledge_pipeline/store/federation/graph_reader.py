"""Reads the code graphs of several stores as one: a name that one store exports is found from the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knowledge_pipeline.store.code_graph.reader import MAX_CACHED_FILTERS, GraphReader
from knowledge_pipeline.store.code_graph.row_lookup import KeyedTable, RowLookup
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.index.locations import Locations
from knowledge_pipeline.store.readers import Row


@dataclass(slots=True)
class FederatedGraphReader(GraphReader):
    """The code graph of each store at its version."""

    members: Sequence[GraphReader] = field(default_factory=tuple[GraphReader, ...])

    @classmethod
    def unite(cls, members: Mapping[str, GraphReader]) -> FederatedGraphReader:
        """The readers of several stores, by their names, as one."""
        versions = {
            f"{store}/{table}": version
            for store, reader in members.items()
            for table, version in reader.versions.items()
        }
        nothing = KeyedTable(None, (), ())  # each member has its own
        return cls(versions, None, None, nothing, nothing, Locations({}), members=tuple(members.values()))

    async def find_symbols(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """See `GraphReader.find_symbols`."""
        reads = (each.find_symbols(where, limit=limit, columns=columns) for each in self.members)
        return [row for rows in await asyncio.gather(*reads) for row in rows][:limit]

    async def find_edges(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """See `GraphReader.find_edges`."""
        reads = (each.find_edges(where, limit=limit, columns=columns) for each in self.members)
        return [row for rows in await asyncio.gather(*reads) for row in rows][:limit]

    async def look_up_symbols(
        self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]
    ) -> list[Row]:
        """See `GraphReader.look_up_symbols`."""
        reads = (each.look_up_symbols(lookup, visible, limit=limit, columns=columns) for each in self.members)
        return [row for rows in await asyncio.gather(*reads) for row in rows][:limit]

    async def look_up_edges(
        self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]
    ) -> list[Row]:
        """See `GraphReader.look_up_edges`."""
        reads = (each.look_up_edges(lookup, visible, limit=limit, columns=columns) for each in self.members)
        return [row for rows in await asyncio.gather(*reads) for row in rows][:limit]

    async def has_several_sources(self, where: Filter) -> bool:
        """Whether rows of more than one source match: two of one store, or one each of two stores."""
        known = self._multi_source.get(where.sql)
        if known is None:
            firsts = [each.find_symbols(where, limit=1, columns=("source",)) for each in self.members]
            sources = {row["source"] for rows in await asyncio.gather(*firsts) for row in rows}
            within = await asyncio.gather(*(each.has_several_sources(where) for each in self.members))
            if len(self._multi_source) >= MAX_CACHED_FILTERS:
                self._multi_source.clear()
            known = self._multi_source[where.sql] = any(within) or len(sources) > 1
        return known
