"""Reading an index table at one released version: by vector, by words, by condition.

Async, because one process answers many questions at once; every read takes a filter,
which the query layer makes from the caller's `Access`. By Lance itself, in threads: as quick as by
LanceDB's door, whose import takes longer than a search.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store import lance_storage
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.lance_storage import StorePath

Row = Mapping[str, Any]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_HNSW_EF = 200  # candidates of the HNSW search: recall@10 .977 at 100,000 rows


class ScoredRow(NamedTuple):
    """A row that a search found."""

    row_id: int  # its place in the table, at this version
    score: float  # higher is better


class SpaceUnreadable(StoreError):
    """One space's index cannot be read; others may be."""

    def __init__(self, message: str, space: str) -> None:
        super().__init__(message)
        self.space = space

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.space)


def _translate_errors(
    read: Callable[Concatenate[IndexReader, _P], Awaitable[_T]],
) -> Callable[Concatenate[IndexReader, _P], Awaitable[_T]]:
    """Say of what LanceDB raises where a table is broken or gone, which index it is."""

    @wraps(read)
    async def reading(reader: IndexReader, *args: _P.args, **given: _P.kwargs) -> _T:
        try:
            return await read(reader, *args, **given)
        except (OSError, RuntimeError, ValueError) as error:
            raise _to_space_unreadable(reader.space, reader.version, error) from error

    return reading


def _to_space_unreadable(space: str, version: int, error: Exception) -> SpaceUnreadable:
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
    dataset: Any  # of Lance, at that version

    async def is_readable(self) -> bool:
        """Whether a row can be read at all."""
        try:
            await asyncio.to_thread(self.dataset.to_table, columns=["id", "text"], limit=1)
        except (OSError, RuntimeError, ValueError):
            return False
        return True

    @_translate_errors
    async def prewarm(self) -> None:
        """Read the indexes into memory, as far as there is room, before a question has to wait for them."""
        await asyncio.to_thread(self._prewarm)

    def _prewarm(self) -> None:
        for index in self.dataset.describe_indices():
            self.dataset.prewarm_index(index.name)

    @_translate_errors
    async def search_vector(self, vector: np.ndarray, where: Filter, *, limit: int) -> list[ScoredRow]:
        """Rows by cosine similarity in [-1, 1], best first.

        What an index finds is compared by the vectors themselves: its own distances are squared
        ones of quantised vectors, about twice the cosine's.
        """
        how = {"k": limit, "ef": _HNSW_EF, "refine_factor": 1, "metric": "cosine"}
        wanted = {"column": "vector", "q": vector, **how}
        found = await self._scan(where, ["_distance", "_rowid"], nearest=wanted)
        return [ScoredRow(row, 1.0 - distance) for row, distance in _iter_scores(found, "_distance")]

    @_translate_errors
    async def search_text(self, words: str, where: Filter, *, limit: int) -> list[ScoredRow]:
        """Rows by BM25 over the split words, best first; scores are above 0.

        `words` is plain text, split by `identifiers.searchable`; no query syntax is read from it.
        """
        from lance.query import MatchQuery

        asked = MatchQuery(words, "words")
        found = await self._scan(where, ["_score", "_rowid"], full_text_query=asked, limit=limit)
        return [ScoredRow(row, score) for row, score in _iter_scores(found, "_score")]

    async def _scan(self, where: Filter, columns: list[str], **scan_options: Any) -> pa.Table:
        def search() -> pa.Table:
            told = {"filter": where.sql, "prefilter": True, "with_row_id": True}
            scanner = self.dataset.scanner(
                columns, disable_scoring_autoprojection=True, **told, **scan_options
            )
            return scanner.to_table()

        return await asyncio.to_thread(search)

    @_translate_errors
    async def take_rows(self, rows: Collection[int], columns: Sequence[str]) -> Mapping[int, Row]:
        """What some columns hold in rows that a search of this reader found, by row."""
        if not rows:
            return {}
        found = await self._take(rows, columns)
        return dict(zip(rows, found.to_pylist(), strict=True))

    @_translate_errors
    async def take_vectors(self, rows: Collection[int]) -> Mapping[int, np.ndarray]:
        """The vectors of rows that a search of this reader found: float32, shape (dimensions,)."""
        if not rows:
            return {}
        found = await self._take(rows, ["vector"])
        made = np.asarray(found["vector"].combine_chunks().flatten(), dtype=np.float32)
        return dict(zip(rows, made.reshape(found.num_rows, self.dimensions), strict=True))

    async def _take(self, rows: Collection[int], columns: Sequence[str]) -> pa.Table:
        """In the order of the rows."""
        return await asyncio.to_thread(self.dataset._take_rows, list(rows), columns=list(columns))

    @_translate_errors
    async def find_rows(self, where: Filter, *, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        """Rows that match, in no particular order."""
        how = {"filter": where.sql, "limit": limit, "columns": list(columns)}
        return (await asyncio.to_thread(self.dataset.to_table, **how)).to_pylist()

    @_translate_errors
    async def count_rows(self, where: Filter) -> int:
        """How many rows match."""
        return await asyncio.to_thread(self.dataset.count_rows, where.sql)


def _iter_scores(found: pa.Table, score_column: str) -> Iterator[tuple[int, float]]:
    return zip(found["_rowid"].to_pylist(), found[score_column].to_pylist(), strict=True)


async def open_index(root: StorePath, space: str, version: int) -> IndexReader:
    """Open one space's index at a version that a release names. Raises `SpaceUnreadable`."""
    try:
        dataset = await asyncio.to_thread(
            lance_storage.open_dataset, root / "index" / f"{space}.lance", version
        )
        dimensions = dataset.schema.field("vector").type.list_size
    except (OSError, RuntimeError, ValueError) as error:
        raise _to_space_unreadable(space, version, error) from error
    return IndexReader(space, version, dimensions, dataset)
