"""Reads the code graph at one released version; every read takes a filter, made from an `Access`.

Uses Lance directly, in a thread: a query makes a dozen small reads, and LanceDB adds a third to the time of
each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.code_graph.row_lookup import KeyedTable, RowLookup
from knowledge_pipeline.store.code_graph.symbol_payload import PAYLOAD_COLUMNS, parse_payloads
from knowledge_pipeline.store.filters import MATCH_NONE, Filter, eq
from knowledge_pipeline.store.index.locations import Locations
from knowledge_pipeline.store.lance_storage import StorePath, open_dataset
from knowledge_pipeline.store.readers import LANCE_ERRORS, Row
from knowledge_pipeline.store.schemas import GRAPH

MAX_CACHED_FILTERS = 1_000  # different access filters
_MAX_CACHED_NODES = 20_000  # about 1 KB each
_SYMBOL_KEYS, _SYMBOL_NUMBERS = ("path", "node", "simple", "full_name"), ("start_line", "end_line")
_MAX_WHOLE_SYMBOLS = 300_000  # that are kept with all that is shown of them, at about 150 bytes each
_EDGE_KEYS, _EDGE_NUMBERS = ("path", "target_id", "target_name"), ("line", "confidence")
WHOLE_EDGE_COLUMNS = (
    *("kind", "source", "path", "line", "confidence"),
    *("source_id", "source_name", "target_id", "target_name", "target_path"),
)
"""Of edges, what is kept in memory once that pays: reads of nothing else wait for no thread."""


@dataclass(slots=True)
class GraphReader:
    """The symbols and edges of all sources at the versions that one release names."""

    versions: Mapping[str, int]
    _symbols: Any  # a Lance dataset
    _edges: Any
    _keyed_symbols: KeyedTable
    _keyed_edges: KeyedTable
    _locations: Locations
    _multi_source: dict[str, bool] = field(default_factory=dict[str, bool])
    _symbol_cache: dict[str, dict[str, list[Row]]] = field(default_factory=dict[str, dict[str, list[Row]]])

    async def find_symbols(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows of `schemas.SYMBOLS` that match, in no particular order; `shown` is parsed."""
        where = self._locations.resolve(where)
        return self._fill_rows(await asyncio.to_thread(_read_rows, self._symbols, where, limit, columns))

    async def find_edges(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows of `schemas.EDGES` that match, in no particular order."""
        where = self._locations.resolve(where)
        return await asyncio.to_thread(_read_rows, self._edges, where, limit, columns)

    async def look_up_symbols(
        self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]
    ) -> list[Row]:
        """Rows of `schemas.SYMBOLS` by path, node or names, as far as visible; `shown` is parsed."""
        read, visible = self._keyed_symbols.read, self._locations.resolve(visible)
        if columns == ("shown",) and self._keyed_symbols.reads_nothing(visible, PAYLOAD_COLUMNS):
            payloads = list(map(dict, read(lookup, visible, limit=limit, columns=PAYLOAD_COLUMNS)))
            for payload in payloads:
                self._locations.fill_row(payload)
            return [{"shown": payload} for payload in payloads]
        return self._fill_rows(await asyncio.to_thread(read, lookup, visible, limit=limit, columns=columns))

    def _fill_rows(self, rows: list[Row]) -> list[Row]:
        if not rows or "shown" not in rows[0]:
            return rows
        payloads = parse_payloads(row["shown"] for row in rows)
        for payload in payloads:
            self._locations.fill_row(payload)
        return [{**row, "shown": payload} for row, payload in zip(rows, payloads, strict=True)]

    async def look_up_edges(
        self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]
    ) -> list[Row]:
        """Rows of `schemas.EDGES` by path, or by the node or name of their target, as far as visible."""
        read, visible = self._keyed_edges.read, self._locations.resolve(visible)
        if self._keyed_edges.reads_nothing(visible, columns):  # takes less than handing it to a thread
            return read(lookup, visible, limit=limit, columns=columns)
        return await asyncio.to_thread(read, lookup, visible, limit=limit, columns=columns)

    def cached_symbols(self, where: Filter) -> dict[str, list[Row]]:
        """Rows of symbols by node that were read under exactly this condition; callers add to them.

        Popular symbols share neighbours, which most reads are for.
        """
        cached_nodes = sum(map(len, self._symbol_cache.values()))
        if len(self._symbol_cache) > MAX_CACHED_FILTERS or cached_nodes > _MAX_CACHED_NODES:
            self._symbol_cache.clear()
        return self._symbol_cache.setdefault(where.sql, {})

    async def has_several_sources(self, where: Filter) -> bool:
        """Whether rows of more than one source match; read once for each condition."""
        if where.sql not in self._multi_source:
            if len(self._multi_source) >= MAX_CACHED_FILTERS:
                self._multi_source.clear()
            resolved = self._locations.resolve(where)
            several = await asyncio.to_thread(_has_several_sources, self._symbols, resolved)
            self._multi_source[where.sql] = several
        return self._multi_source[where.sql]


async def open_graph(root: StorePath, versions: Mapping[str, int]) -> GraphReader:
    """Open the code graph at the versions that a release names.

    Raises:
        StoreError: one of them cannot be opened.
    """
    try:
        symbols, edges = await asyncio.to_thread(
            lambda: [open_dataset(root / "graph" / f"{name}.lance", versions[name]) for name in GRAPH]
        )
    except (KeyError, *LANCE_ERRORS) as error:
        raise StoreError(
            f"the code graph of the live release cannot be opened ({type(error).__name__}): "
            "run `knowledge index`, or `knowledge rollback`"
        ) from error
    keyed_symbols = KeyedTable(
        symbols, _SYMBOL_KEYS, _SYMBOL_NUMBERS, whole=PAYLOAD_COLUMNS, max_whole_rows=_MAX_WHOLE_SYMBOLS
    )
    keyed_edges = KeyedTable(edges, _EDGE_KEYS, _EDGE_NUMBERS, whole=WHOLE_EDGE_COLUMNS)
    locations = Locations(symbols.metadata)
    return GraphReader(dict(versions), symbols, edges, keyed_symbols, keyed_edges, locations)


def _read_rows(table: Any, where: Filter, limit: int, columns: Sequence[str]) -> list[Row]:
    if where == MATCH_NONE:
        return []
    return table.to_table(columns=list(columns), filter=where.sql, limit=limit).to_pylist()


def _has_several_sources(symbols: Any, where: Filter) -> bool:
    first = symbols.to_table(columns=["source"], filter=where.sql, limit=1).to_pylist()
    others = where & ~eq("source", first[0]["source"]) if first else where
    return bool(first) and symbols.to_table(columns=["source"], filter=others.sql, limit=1).num_rows > 0
