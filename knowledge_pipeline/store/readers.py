"""Reading an index table at one released version: by vector, by words, by condition.

Async, because one process answers many questions at once; every read takes a filter,
which the query layer makes from the caller's `Access`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.places import Place, connect_async

if TYPE_CHECKING:
    import lancedb

Row = Mapping[str, Any]

_Given = ParamSpec("_Given")
_Read = TypeVar("_Read")

_EF = 200  # candidates of the HNSW search: recall@10 .977 at 100,000 rows


class Scored(NamedTuple):
    """A row that a search found."""

    row: int  # its place in the table, at this version
    score: float  # higher is better


class SpaceUnreadable(StoreError):
    """One space's index cannot be read; others may be."""

    def __init__(self, message: str, space: str) -> None:
        super().__init__(message)
        self.space = space

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.space)


def _told(
    read: Callable[Concatenate[IndexReader, _Given], Awaitable[_Read]],
) -> Callable[Concatenate[IndexReader, _Given], Awaitable[_Read]]:
    """Say of what LanceDB raises where a table is broken or gone, which index it is."""

    @wraps(read)
    async def reading(reader: IndexReader, *args: _Given.args, **given: _Given.kwargs) -> _Read:
        try:
            return await read(reader, *args, **given)
        except (OSError, RuntimeError, ValueError) as error:
            raise _unreadable(reader.space, reader.version, error) from error

    return reading


def _unreadable(space: str, version: int, error: Exception) -> SpaceUnreadable:
    return SpaceUnreadable(
        f"version {version} of the index {space!r} is asked for, and cannot be read "
        f"({type(error).__name__}): run `knowledge index`, or `knowledge rollback`",
        space,
    )


@dataclass(frozen=True, slots=True)
class IndexReader:
    """One space's index at one version.

    A search finds places and scores alone: reading every column of every candidate takes longer
    than the search. What is wanted of the best is `taken`.
    """

    space: str
    version: int
    dimensions: int
    table: lancedb.AsyncTable

    async def readable(self) -> bool:
        """Whether a row can be read at all."""
        try:
            await self.table.query().limit(1).select(["id", "text"]).to_list()
        except (OSError, RuntimeError, ValueError):
            return False
        return True

    @_told
    async def nearest(self, vector: np.ndarray, where: Filter, *, limit: int) -> list[Scored]:
        """Rows by cosine similarity in [-1, 1], best first.

        What an index finds is compared by the vectors themselves: its own distances are squared
        ones of quantised vectors, about twice the cosine's.
        """
        query = self.table.query().nearest_to(vector).distance_type("cosine").ef(_EF).refine_factor(1)
        query = query.where(where.sql)
        found = await query.limit(limit).with_row_id().select(["_rowid", "_distance"]).to_list()
        return [Scored(row["_rowid"], 1.0 - row["_distance"]) for row in found]

    @_told
    async def matching(self, words: str, where: Filter, *, limit: int) -> list[Scored]:
        """Rows by BM25 over the split words, best first; scores are above 0.

        `words` is plain text, split by `identifiers.searchable`; no query syntax is read from it.
        """
        from lancedb.query import MatchQuery

        asked = MatchQuery(words, "words")  # pyright: ignore[reportCallIssue]  # its defaults are unseen
        query = self.table.query().nearest_to_text(asked).where(where.sql)
        found = await query.limit(limit).with_row_id().select(["_rowid", "_score"]).to_list()
        return [Scored(row["_rowid"], row["_score"]) for row in found]

    @_told
    async def taken(self, rows: Collection[int], columns: Sequence[str]) -> Mapping[int, Row]:
        """What some columns hold in rows that a search of this reader found, by row."""
        if not rows:
            return {}
        query = self.table.take_row_ids(list(rows)).with_row_id().select([*columns, "_rowid"])
        return {row["_rowid"]: row for row in await query.to_list()}

    @_told
    async def vectors(self, rows: Collection[int]) -> Mapping[int, np.ndarray]:
        """The vectors of rows that a search of this reader found: float32, shape (dimensions,)."""
        if not rows:
            return {}
        query = self.table.take_row_ids(list(rows)).with_row_id().select(["vector", "_rowid"])
        found = await query.to_arrow()
        made = np.asarray(found["vector"].combine_chunks().flatten(), dtype=np.float32)
        shaped = made.reshape(found.num_rows, self.dimensions)
        return dict(zip(found["_rowid"].to_pylist(), shaped, strict=True))

    @_told
    async def rows(self, where: Filter, *, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        """Rows that match, in no particular order."""
        return await self.table.query().where(where.sql).limit(limit).select(list(columns)).to_list()

    @_told
    async def count(self, where: Filter) -> int:
        """How many rows match."""
        return await self.table.count_rows(where.sql)


async def open_index(root: Place, space: str, version: int) -> IndexReader:
    """Open one space's index at a version that a release names. Raises `SpaceUnreadable`."""
    try:
        connection = await connect_async(root / "index")
        table = await connection.open_table(space)
        await table.checkout(version)
        dimensions = (await table.schema()).field("vector").type.list_size
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreadable(space, version, error) from error
    return IndexReader(space, version, dimensions, table)
