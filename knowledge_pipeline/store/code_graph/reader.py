"""Reading the code graph at one released version; every read takes a filter, made from an `Access`.

By Lance itself, in a thread: a question makes a dozen small reads, and LanceDB's door adds a third to
each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.filters import Filter, eq
from knowledge_pipeline.store.lance_storage import Place, dataset
from knowledge_pipeline.store.readers import Row

_MOST_KEPT = 1_000  # ways in which callers see, whose answers are kept
_MOST_NODES = 20_000  # whose rows are kept, about 1 KB each


@dataclass(slots=True)
class GraphReader:
    """The symbols and edges of all sources at the versions that one release names."""

    versions: Mapping[str, int]
    _symbols: Any  # a Lance dataset
    _edges: Any
    _several: dict[str, bool] = field(default_factory=dict[str, bool])
    _kept: dict[str, dict[str, list[Row]]] = field(default_factory=dict[str, dict[str, list[Row]]])

    async def symbols(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows of `schemas.SYMBOLS` that match, in no particular order."""
        return await asyncio.to_thread(_rows, self._symbols, where, limit, columns)

    async def edges(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows of `schemas.EDGES` that match, in no particular order."""
        return await asyncio.to_thread(_rows, self._edges, where, limit, columns)

    def kept(self, where: Filter) -> dict[str, list[Row]]:
        """Rows of symbols by node that were read under exactly this condition; for the reader to add to.

        What is asked about often has the same neighbours, and most reads are for them.
        """
        if len(self._kept) > _MOST_KEPT or sum(map(len, self._kept.values())) > _MOST_NODES:
            self._kept.clear()
        return self._kept.setdefault(where.sql, {})

    async def several_sources(self, where: Filter) -> bool:
        """Whether rows of more than one source match; looked up once for each condition."""
        if where.sql not in self._several:
            if len(self._several) >= _MOST_KEPT:
                self._several.clear()
            self._several[where.sql] = await asyncio.to_thread(_has_several_sources, self._symbols, where)
        return self._several[where.sql]


async def open_graph(root: Place, versions: Mapping[str, int]) -> GraphReader:
    """Open the code graph at the versions that a release names.

    Raises:
        StoreError: one of them cannot be opened.
    """
    try:
        symbols, edges = await asyncio.to_thread(_opened, root / "graph", versions)
    except (KeyError, OSError, RuntimeError, ValueError) as error:  # what Lance raises of a missing version
        raise StoreError(
            f"the code graph of the live release cannot be opened ({type(error).__name__}): "
            "run `knowledge index`, or `knowledge rollback`"
        ) from error
    return GraphReader(dict(versions), symbols, edges)


def _opened(folder: Place, versions: Mapping[str, int]) -> list[Any]:
    return [dataset(folder / f"{name}.lance", versions[name]) for name in ("symbols", "edges")]


def _rows(dataset: Any, where: Filter, limit: int, columns: Sequence[str]) -> list[Row]:
    return dataset.to_table(columns=list(columns), filter=where.sql, limit=limit).to_pylist()


def _has_several_sources(symbols: Any, where: Filter) -> bool:
    first = symbols.to_table(columns=["source"], filter=where.sql, limit=1).to_pylist()
    others = where & ~eq("source", first[0]["source"]) if first else where
    return bool(first) and symbols.to_table(columns=["source"], filter=others.sql, limit=1).num_rows > 0
