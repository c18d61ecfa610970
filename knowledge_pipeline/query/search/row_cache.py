"""Keeps the rows that searches find most: reading and parsing them takes longer than the searches.

A row is known by the files that hold it and its place in them, which no write changes. So what is kept holds
for every release, whatever rows others add or remove. What a caller may see is decided by the searches, whose
rows alone are asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

import numpy as np
from cachetools import LRUCache

from knowledge_pipeline.query.search.hits import CHUNK_COLUMNS, IndexedChunk
from knowledge_pipeline.store.readers import IndexReader

MAX_CHUNK_BYTES = 96_000_000  # about 25,000 chunks
MAX_VECTOR_BYTES = 48_000_000  # 30,000 of 384 dimensions
_ROW_BYTES = 2_500  # that a chunk takes besides its text, about


class RowCache:
    """Chunks and vectors of the rows read last, for one event loop."""

    def __init__(self, *, max_chunk_bytes: int = MAX_CHUNK_BYTES, max_vector_bytes: int = MAX_VECTOR_BYTES):
        self._chunks: LRUCache[Hashable, IndexedChunk] = LRUCache(
            max_chunk_bytes, getsizeof=lambda chunk: _ROW_BYTES + len(chunk.text)
        )
        self._vectors: LRUCache[Hashable, Any] = LRUCache(
            max_vector_bytes, getsizeof=lambda vector: 100 + (0 if vector is None else vector.nbytes)
        )

    async def read_chunks(self, reader: IndexReader, rows: Collection[int]) -> dict[int, IndexedChunk]:
        """Chunks of rows that a search of this reader found, by row id."""
        found, missing = _split_known(self._chunks, reader, rows)
        for row, values in (await reader.take_rows(missing, CHUNK_COLUMNS)).items():
            found[row] = IndexedChunk.from_row(values)
            _put(self._chunks, reader.locate(row), found[row])
        return found

    async def read_vectors(self, reader: IndexReader, rows: Collection[int]) -> dict[int, np.ndarray]:
        """Vectors of rows that a search of this reader found; rows without a vector are left out."""
        known, missing = _split_known(self._vectors, reader, rows)
        taken = await reader.take_vectors(missing)
        for row in missing:
            known[row] = taken.get(row)
            _put(self._vectors, reader.locate(row), known[row])
        return {row: vector for row, vector in known.items() if vector is not None}


def _split_known(
    cache: Mapping[Hashable, Any], reader: IndexReader, rows: Collection[int]
) -> tuple[dict[int, Any], list[int]]:
    """What is kept of some rows, and which are missing."""
    found: dict[int, Any] = {}
    missing: list[int] = []
    for row in rows:
        try:
            found[row] = cache[reader.locate(row)]
        except KeyError:
            missing.append(row)
    return found, missing


def _put(cache: LRUCache[Hashable, Any], key: Hashable, value: Any) -> None:
    if cache.getsizeof(value) <= cache.maxsize:
        cache[key] = value
