"""Reading an index table at one released version: by vector, by words, by condition.

Async, because one process answers many questions at once; every read takes a filter,
which the query layer makes from the caller's `Access`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knowledge_pipeline.store.filters import Filter, one_of

if TYPE_CHECKING:
    import lancedb

Row = Mapping[str, Any]

_EF = 200  # candidates of the HNSW search: recall@10 .977 at 100,000 rows


@dataclass(frozen=True, slots=True)
class IndexReader:
    """One space's index at one version. Rows come as dictionaries of the asked columns."""

    space: str
    version: int
    dimensions: int
    table: lancedb.AsyncTable

    async def nearest(
        self, vector: np.ndarray, where: Filter, *, limit: int, columns: Sequence[str]
    ) -> Sequence[Row]:
        """Rows by cosine similarity, best first; each has `_similarity` in [-1, 1]."""
        query = self.table.query().nearest_to(vector).distance_type("cosine").ef(_EF)
        found = await query.where(where.sql).limit(limit).select([*columns, "_distance"]).to_list()
        return [{**row, "_similarity": 1.0 - row["_distance"]} for row in found]

    async def matching(
        self, words: str, where: Filter, *, limit: int, columns: Sequence[str]
    ) -> Sequence[Row]:
        """Rows by BM25 over the split words, best first; each has `_score` above 0.

        `words` is plain text, split by `identifiers.searchable`; no query syntax is read from it.
        """
        from lancedb.query import MatchQuery

        asked = MatchQuery(words, "words")  # pyright: ignore[reportCallIssue]  # its defaults are unseen
        query = self.table.query().nearest_to_text(asked)
        return await query.where(where.sql).limit(limit).select([*columns, "_score"]).to_list()

    async def rows(self, where: Filter, *, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        """Rows that match, in no particular order."""
        return await self.table.query().where(where.sql).limit(limit).select(list(columns)).to_list()

    async def vectors(self, ids: Sequence[str], where: Filter) -> Mapping[str, np.ndarray]:
        """The vectors of some rows, by id: float32, shape (dimensions,). What the filter hides is missing."""
        condition = where & one_of("id", ids)
        found = (
            await self.table.query().where(condition.sql).limit(len(ids)).select(["id", "vector"]).to_arrow()
        )
        made = np.asarray(found["vector"].combine_chunks().flatten(), dtype=np.float32)
        shaped = made.reshape(found.num_rows, self.dimensions)
        return dict(zip(found["id"].to_pylist(), shaped, strict=True))

    async def count(self, where: Filter) -> int:
        """How many rows match."""
        return await self.table.count_rows(where.sql)


async def open_index(root: Path, space: str, version: int) -> IndexReader:
    """Open one space's index at a version that a release names."""
    import lancedb

    connection = await lancedb.connect_async(root / "index")
    table = await connection.open_table(space)
    await table.checkout(version)
    dimensions = (await table.schema()).field("vector").type.list_size
    return IndexReader(space, version, dimensions, table)
