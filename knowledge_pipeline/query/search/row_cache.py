"""Keeps the rows that searches find most: reading and parsing them takes longer than the searches.

Of each candidate ranking needs an outline, and those of a file are held once that pays; the whole row is read
of those that are shown.

A row is known by the files that hold it and its place in them, which no write changes. So what is kept holds
for every release, whatever rows others add or remove. What a caller may see is decided by the searches, whose
rows alone are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np

from knowledge_pipeline.awaiting import gather_all
from knowledge_pipeline.query.search.hits import CHUNK_COLUMNS, OUTLINE_COLUMNS, IndexedChunk, read_outline
from knowledge_pipeline.store.index.outline_columns import ChunkOutline, OutlineColumns, Outlines
from knowledge_pipeline.store.readers import IndexReader

MAX_HELD_ROWS = 300_000  # whose outlines are held as columns, at about 100 bytes each
MAX_OUTLINE_BYTES = 16_000_000  # about 35,000 outlines as objects: those found last are found again
MAX_CHUNK_BYTES = 32_000_000  # about 8,000 chunks
MAX_VECTOR_BYTES = 48_000_000  # 30,000 of 384 dimensions, where they are not read in place
_ROW_BYTES = 2_500  # that a chunk takes besides its text, about
_OUTLINE_BYTES = 450  # that an outline takes, about
_MIN_TAKEN = 400  # outlines of a file, two questions': a process that asks once would read more than it saves
_ROWS_PER_TAKEN = 8  # of a file that are read in about twice the time that it takes to take one

Place = tuple[str, int]
"""See `IndexReader.locate`."""

Value = TypeVar("Value")


class RowCache:
    """Outlines, chunks and vectors of the rows read last, for one event loop."""

    def __init__(
        self,
        *,
        max_held_rows: int = MAX_HELD_ROWS,
        max_outline_bytes: int = MAX_OUTLINE_BYTES,
        max_chunk_bytes: int = MAX_CHUNK_BYTES,
        max_vector_bytes: int = MAX_VECTOR_BYTES,
    ) -> None:
        self._max_held_rows = max_held_rows
        self._held: dict[str, OutlineColumns | None] = {}  # by file; None: it is being read
        self._taken = Counter[str]()  # outlines of the rows of each file
        self._outlines = _Recent[ChunkOutline](max_outline_bytes, lambda _: _OUTLINE_BYTES)
        self._chunks = _Recent[IndexedChunk](max_chunk_bytes, lambda chunk: _ROW_BYTES + len(chunk.text))
        self._vectors = _Recent[np.ndarray](max_vector_bytes, lambda vector: 100 + vector.nbytes)
        self._files = frozenset[str]()

    def keep_files_of(self, readers: Iterable[IndexReader]) -> None:
        """Forget rows of files that no reader has: what a purge erased is in none of the next release."""
        files = frozenset(name for reader in readers for name in reader.files.values())
        if files != self._files:
            self._files = files
            self._held = {name: columns for name, columns in self._held.items() if name in files}
            self._taken = Counter({name: count for name, count in self._taken.items() if name in files})
            self._outlines.keep_files(files)
            self._chunks.keep_files(files)
            self._vectors.keep_files(files)

    async def hold_outlines(self, reader: IndexReader) -> None:
        """Read the outlines of all rows, as far as there is room, before a question has to wait for them."""
        for fragment in reader.files:
            await self._hold_file(reader, fragment)

    async def read_outlines(self, reader: IndexReader, rows: np.ndarray) -> Outlines:
        """Outlines of rows that searches of this reader found: ids, ascending."""
        of_files = np.split(rows, np.flatnonzero(np.diff(rows >> 32)) + 1)
        held = [self._find_held(reader, own) for own in of_files]
        missing = [own.tolist() for own, outlines in zip(of_files, held, strict=True) if outlines is None]
        read = [Outlines.of(each) for each in await self._read_missing_outlines(reader, missing)]
        others = iter(read)
        return Outlines.join([next(others) if outlines is None else outlines for outlines in held])

    async def read_ahead(self, reader: IndexReader, rows: np.ndarray, *, with_vectors: bool) -> None:
        """Keep outlines and vectors of rows that are not in memory, for whoever asks for them next."""
        files, waiting = {reader.files[each] for each in set((rows >> 32).tolist())}, list[Any]()
        if not all(map(self._held.get, files)):
            waiting.append(self.read_outlines(reader, np.sort(rows)))
        if with_vectors and not reader.memory.find_holder(rows):
            waiting.append(self.read_vectors(reader, rows.tolist()))
        await gather_all(waiting)

    def _find_held(self, reader: IndexReader, rows: np.ndarray) -> Outlines | None:
        """Outlines of rows of one file, if all of them are held: a version before may have more."""
        columns = self._held.get(reader.files[int(rows[0]) >> 32]) if len(rows) else None
        return columns.find(rows & 0xFFFFFFFF) if columns else None

    async def _read_missing_outlines(
        self, reader: IndexReader, of_files: Sequence[Collection[int]]
    ) -> list[list[ChunkOutline]]:
        """Outlines of rows of files that are not held."""
        rows = list(chain.from_iterable(of_files))
        found, missing = self._outlines.split(reader, rows)
        if missing:
            taken = await reader.take_rows(missing, OUTLINE_COLUMNS)
            for row, values in taken.items():
                found[row] = read_outline(values)
                self._outlines.put(reader.locate(row), found[row])
            await self._hold_due_files(reader, missing)
        return [[found[row] for row in own] for own in of_files]

    async def _hold_due_files(self, reader: IndexReader, taken: Collection[int]) -> None:
        """Hold the files of which so many outlines were taken that reading all of them pays."""
        for fragment, count in Counter(row >> 32 for row in taken).items():
            self._taken[reader.files[fragment]] += count
            if (total := self._taken[reader.files[fragment]]) >= _MIN_TAKEN:
                await self._hold_file(reader, fragment, max_rows=total * _ROWS_PER_TAKEN)

    async def _hold_file(self, reader: IndexReader, fragment: int, *, max_rows: int = MAX_HELD_ROWS) -> None:
        file = reader.files[fragment]
        if file in self._held:
            return
        held = sum(len(columns.places) for columns in self._held.values() if columns)
        if reader.count_file_rows(fragment) > min(max_rows, self._max_held_rows - held):
            return
        self._held[file] = None
        try:
            columns = await reader.read_outline_columns(fragment)
        except BaseException:
            self._held.pop(file, None)
            raise
        if file in self._held:  # else a release without it came meanwhile
            self._held[file] = columns

    async def read_chunks(self, reader: IndexReader, rows: Collection[int]) -> dict[int, IndexedChunk]:
        """Chunks of rows that a search of this reader found, by row id."""
        found, missing = self._chunks.split(reader, rows)
        if missing:
            for row, values in (await reader.take_rows(missing, CHUNK_COLUMNS)).items():
                found[row] = IndexedChunk.from_row(values)
                self._chunks.put(reader.locate(row), found[row])
        return found

    async def read_vectors(self, reader: IndexReader, rows: Collection[int]) -> dict[int, np.ndarray]:
        """Vectors of rows that a search of this reader found; rows without a vector are left out."""
        if held := reader.memory.find_holder(rows):
            return held.take(rows)
        found, missing = self._vectors.split(reader, rows)
        for row, vector in (await reader.take_vectors(missing)).items():
            found[row] = vector
            self._vectors.put(reader.locate(row), vector)
        return found


class _Recent(Generic[Value]):
    """Values used recently, in two generations: when the younger is half of the bound, the older is dropped.

    A look-up takes a tenth of one in a list of uses, and there are two hundred in a search.
    """

    def __init__(self, max_bytes: int, size_of: Callable[[Value], int]) -> None:
        self._generation_bytes, self._size_of = max_bytes // 2, size_of
        self._young: dict[Place, Value] = {}
        self._old: dict[Place, Value] = {}
        self._young_bytes = 0

    def split(self, reader: IndexReader, rows: Collection[int]) -> tuple[dict[int, Value], list[int]]:
        """What is kept of some rows of a reader, and which are missing."""
        found: dict[int, Value] = {}
        missing: list[int] = []
        files = reader.files  # as `IndexReader.locate` does, without two hundred calls
        for row in rows:
            place = (files[row >> 32], row & 0xFFFFFFFF)
            value = self._young.get(place)
            if value is None and (value := self._old.get(place)) is not None:
                self.put(place, value)
            if value is None:
                missing.append(row)
            else:
                found[row] = value
        return found, missing

    def keep_files(self, files: Collection[str]) -> None:
        """Forget the rows of other files."""
        self._young = {place: value for place, value in self._young.items() if place[0] in files}
        self._old = {place: value for place, value in self._old.items() if place[0] in files}
        self._young_bytes = sum(map(self._size_of, self._young.values()))

    def put(self, place: Place, value: Value) -> None:
        """Keep a value."""
        self._young[place] = value
        self._young_bytes += self._size_of(value)
        if self._young_bytes > self._generation_bytes:
            self._old, self._young, self._young_bytes = self._young, {}, 0
