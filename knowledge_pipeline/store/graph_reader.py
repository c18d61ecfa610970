"""Reading the code graph at one released version; every read takes a filter, made from an `Access`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.filters import Filter, eq
from knowledge_pipeline.store.readers import Row

if TYPE_CHECKING:
    import lancedb


@dataclass(slots=True)
class GraphReader:
    """The symbols and edges of all sources at the versions that one release names."""

    versions: Mapping[str, int]
    symbols_table: lancedb.AsyncTable
    edges_table: lancedb.AsyncTable
    _several: bool | None = None

    async def symbols(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows of `schemas.SYMBOLS` that match, in no particular order."""
        return await _rows(self.symbols_table, where, limit, columns)

    async def edges(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows of `schemas.EDGES` that match, in no particular order."""
        return await _rows(self.edges_table, where, limit, columns)

    async def several_sources(self) -> bool:
        """Whether more than one source is in the graph; looked up once."""
        if self._several is None:
            self._several = len(set(await _sources(self.symbols_table))) > 1
        return self._several


async def open_graph(root: Path, versions: Mapping[str, int]) -> GraphReader:
    """Open the code graph at the versions that a release names.

    Raises:
        StoreError: one of them cannot be opened.
    """
    import lancedb

    connection = await lancedb.connect_async(root / "graph")
    try:
        symbols, edges = [await connection.open_table(name) for name in ("symbols", "edges")]
        await symbols.checkout(versions["symbols"])
        await edges.checkout(versions["edges"])
    except (KeyError, OSError, RuntimeError, ValueError) as error:  # what LanceDB raises of a missing version
        raise StoreError(
            f"the code graph of the live release cannot be opened ({type(error).__name__}): "
            "run `knowledge index`, or `knowledge rollback`"
        ) from error
    return GraphReader(dict(versions), symbols, edges)


async def _rows(table: lancedb.AsyncTable, where: Filter, limit: int, columns: Sequence[str]) -> list[Row]:
    found = await table.query().where(where.sql).limit(limit).select(list(columns)).to_arrow()
    return found.to_pylist()


async def _sources(symbols: lancedb.AsyncTable) -> list[str]:
    """The source of one row, and that of one row of any other source."""
    first = await symbols.query().limit(1).select(["source"]).to_list()
    if not first:
        return []
    other = symbols.query().where((~eq("source", first[0]["source"])).sql)
    return [row["source"] for row in (*first, *await other.limit(1).select(["source"]).to_list())]
