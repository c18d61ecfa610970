"""The values that flow through a search: chunk, candidates, hit; and the cache of their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter, itemgetter
from sys import intern
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np

from knowledge_pipeline.contract.responses import ScoreExplanation
from knowledge_pipeline.records import Mention, Metadata
from knowledge_pipeline.store.fragments import ChunkOutline, OutlineColumns, Outlines
from knowledge_pipeline.store.search import PAYLOAD_COLUMNS, IndexReader, Row, ScoredRows
from knowledge_pipeline.sync_facade import gather_all

CHUNK_COLUMNS = ("text", "shown", "indexed_at", "updated_at")
"""What `IndexedChunk.from_row` reads of a row."""
OUTLINE_COLUMNS = ("shown",)
"""What `read_outlines` reads of a row."""

_SPAN_FIELDS = ("start_char", "start_line", "end_line")
_OWN_FIELDS = ("id", "source", "uri", "path", "content_hash", "header", "title", "url", *_SPAN_FIELDS)
_GET_OWN_FIELDS = itemgetter(*_OWN_FIELDS)
_NOT_METADATA = {"id", "content_hash", "header", "url", *_SPAN_FIELDS, "archived", "metadata"}
_METADATA_FIELDS = tuple(name for name in PAYLOAD_COLUMNS if name not in _NOT_METADATA)
_NO_BOOSTS: Mapping[str, float] = {}


def read_outlines(rows: Mapping[int, Row]) -> dict[int, ChunkOutline]:
    """The outlines of rows with `OUTLINE_COLUMNS`, by row id."""
    outlines = dict[int, ChunkOutline]()
    for row_id, row in rows.items():
        payload = row["shown"]
        source, path, type_ = map(intern, (payload["source"], payload["path"], payload["source_type"]))
        symbols: list[str | None] = [payload["symbol"], *payload["metadata"].get("symbols", ())]
        own = tuple(filter(None, dict.fromkeys(symbols)))
        outlines[row_id] = ChunkOutline(payload["id"], source, path, own, type_)
    return outlines


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """One row of the index, as far as an answer needs it."""

    id: str
    source: str
    uri: str
    path: str
    text: str
    content_hash: str  # of the text alone
    header: str = ""
    title: str | None = None
    url: str | None = None
    symbols: tuple[str, ...] = ()  # qualified names of what the text defines: "Store.get"
    names: tuple[str, ...] = ()  # of its document: see `relations.names`
    mentions: tuple[Mention, ...] = ()  # of other documents
    start_char: int = 0
    start_line: int = 0
    end_line: int = 0
    metadata: Metadata = field(default_factory=dict[str, Any])

    @classmethod
    def from_row(cls, row: Row) -> IndexedChunk:
        """A row with `CHUNK_COLUMNS`.

        Its metadata are what extractors found, overridden by the typed columns that hold anything, but for
        the path of an endpoint of an API.
        """
        payload = row["shown"]
        metadata: dict[str, Any] = {
            **payload["metadata"],
            **{name: payload[name] for name in _METADATA_FIELDS if payload[name] not in (None, "", [])},
            **({"archived": True} if payload["archived"] else {}),
            "indexed_at": row["indexed_at"].isoformat(),
            "updated_at": row["updated_at"].isoformat(),
        }
        if payload["source_type"] == "openapi":
            metadata["path"] = payload["metadata"].get("path", payload["path"])
        names, mentions = metadata.pop("names", ()), metadata.pop("mentions", ())
        metadata.pop("leads", None)
        symbols = dict.fromkeys([payload["symbol"], *payload["metadata"].get("symbols", ())])
        return cls(
            **dict(zip(_OWN_FIELDS, _GET_OWN_FIELDS(payload), strict=True)),
            text=row["text"],
            symbols=tuple(filter(None, symbols)),
            names=tuple(names),
            mentions=tuple(Mention(**mention) for mention in mentions),
            metadata=metadata,
        )

    @property
    def source_type(self) -> str:
        """The type of its source."""
        return self.metadata.get("source_type", "")


RankedChunk = ChunkOutline | IndexedChunk
"""What ranking knows of a row of the index: an outline, or all of it."""

ChunkT = TypeVar("ChunkT", bound=RankedChunk, covariant=True)
AnyChunkT = TypeVar("AnyChunkT", bound=RankedChunk)


def to_outlines(chunks: Iterable[RankedChunk]) -> Outlines:
    """What ranking knows of some chunks, as columns."""
    return Outlines.of(
        ChunkOutline(chunk.id, chunk.source, chunk.path, chunk.symbols, chunk.source_type) for chunk in chunks
    )


@dataclass(frozen=True, slots=True, eq=False)
class SpaceCandidates:
    """What the two searches of one space found for one text, as columns with one value of each row."""

    space: str
    rows: np.ndarray  # int64: places in the space's table
    chunks: Outlines
    similarities: np.ndarray  # float64: cosine; NaN without a vector, -inf where that gives no number
    word_scores: np.ndarray  # float64: BM25; NaN where full text did not find it
    unrelated_similarity: float = 0.0  # see `embedding.base.Space`
    query_vector: np.ndarray | None = None  # the text's; None: searched without vectors
    vector_problem: Exception | None = None  # why

    @property
    def nearest(self) -> ScoredRows:
        """The rows that were compared by their vectors; in no particular order."""
        return self.list_nearest(np.ones(len(self.rows), bool))

    def list_nearest(self, among: np.ndarray) -> ScoredRows:
        """Of the rows that a mask marks, those of `nearest`."""
        compared = among & ~np.isnan(self.similarities)
        return ScoredRows(self.rows[compared], self.similarities[compared])

    @property
    def keyword_matches(self) -> ScoredRows:
        """The rows that full text found; in no particular order."""
        matched = ~np.isnan(self.word_scores)
        return ScoredRows(self.rows[matched], self.word_scores[matched])


class Hit(NamedTuple, Generic[ChunkT]):
    """A chunk with its score in [0, 1]."""

    chunk: ChunkT
    score: float
    explanation: ScoreExplanation  # names the space that it was found in
    row: int = 0  # its place in that space's table


@dataclass(frozen=True, slots=True, eq=False)
class Hits(Sequence[Hit[RankedChunk]]):
    """The candidates of all spaces as columns, with one value of each; as a sequence the hits, best first.

    A question has two hundred and shows ten: those that are looked at become objects. A rank of 0 means that
    the search did not find it.
    """

    chunks: Outlines
    rows: Sequence[int]
    spaces: Sequence[str]
    vector_ranks: Sequence[int]
    similarities: Sequence[float]
    word_ranks: Sequence[int]
    word_scores: Sequence[float]
    fused: np.ndarray  # float64, in [0, 1]
    scores: np.ndarray  # the same, until they are ranked
    order: np.ndarray  # int64: positions of the hits
    boosts: Sequence[Mapping[str, float]] | None = None

    def drop_other_candidates(self) -> Hits:
        """The hits alone, in an order of no meaning."""
        if len(self.order) == len(self.rows):
            return self
        names = ("rows", "spaces", "vector_ranks", "similarities", "word_ranks", "word_scores")
        columns: dict[str, Any] = {
            name: [getattr(self, name)[at] for at in self.order.tolist()] for name in names
        }
        chunks, fused, scores = self.chunks.take(self.order), self.fused[self.order], self.scores[self.order]
        return Hits(chunks=chunks, fused=fused, scores=scores, order=np.arange(len(fused)), **columns)

    def list_parts(self) -> list[tuple[float, ScoreExplanation, int]]:
        """Score, explanation and row of each hit, without its chunk."""
        return [(float(self.scores[at]), self._explain(at), self.rows[at]) for at in self.order.tolist()]

    def _explain(self, at: int) -> ScoreExplanation:
        by_vector, by_words = self.vector_ranks[at], self.word_ranks[at]
        return ScoreExplanation(
            self.spaces[at],
            by_vector or None,
            self.similarities[at] if by_vector else None,
            by_words or None,
            self.word_scores[at] if by_words else None,
            self.boosts[at] if self.boosts else _NO_BOOSTS,
            float(self.fused[at]),
        )

    def keep_relevant(self, floor: float) -> Hits:
        """Hits with a score of at least `floor`."""
        if floor <= 0.0:  # which every score is
            return self
        return replace(self, order=self.order[self.scores[self.order] >= floor])

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, index: int) -> Hit[RankedChunk]: ...

    @overload
    def __getitem__(self, index: slice) -> Hits: ...

    def __getitem__(self, index: int | slice) -> Hit[RankedChunk] | Hits:
        if isinstance(index, slice):
            return replace(self, order=self.order[index])
        at = int(self.order[index])
        return Hit(self.chunks[at], float(self.scores[at]), self._explain(at), self.rows[at])


def sort_best_first(hits: Iterable[Hit[AnyChunkT]]) -> list[Hit[AnyChunkT]]:
    """The highest scores first; equal ones are ordered by id. No score may be NaN."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))


def order_best_first(scores: np.ndarray, by_id: np.ndarray) -> np.ndarray:
    """Some positions, which come in the order of ids, by the highest scores first: int64.

    Equal scores keep the order of ids. No score may be NaN.
    """
    return by_id[np.argsort(-scores[by_id], kind="stable")]


MAX_HELD_ROWS = 300_000  # whose outlines are held as columns, at about 100 bytes each
MAX_OUTLINE_BYTES = 16_000_000  # about 35,000 outlines as objects: those found last are found again
MAX_CHUNK_BYTES = 32_000_000  # about 8,000 chunks
MAX_VECTOR_BYTES = 48_000_000  # 30,000 of 384 dimensions, where they are not read in place
_ROW_BYTES = 2_500  # that a chunk takes besides its text, about
_OUTLINE_BYTES = 450  # that an outline takes, about
_MIN_TAKEN = 400  # outlines of a file, two questions': a process that asks once would read more than it saves
_ROWS_PER_TAKEN = 8  # of a file that are read in about twice the time that it takes to take one

Place = tuple[str, int]
"""What the columns of a row follow from: its files, which are never written again, and its place in them."""

Value = TypeVar("Value")


class RowCache:
    """Outlines, chunks and vectors of the rows read last, for one event loop.

    Reading and parsing rows takes longer than the searches. Of each candidate ranking needs an outline, and
    those of a file are held once that pays; the whole row is read of those that are shown.

    A row is known by the file that holds it and its place there, which no write changes. So what is kept
    holds for every release. What a caller may see is decided by the searches, whose rows alone are asked for.
    """

    def __init__(
        self,
        *,
        max_held_rows: int = MAX_HELD_ROWS,
        max_outline_bytes: int = MAX_OUTLINE_BYTES,
        max_chunk_bytes: int = MAX_CHUNK_BYTES,
        max_vector_bytes: int = MAX_VECTOR_BYTES,
    ) -> None:
        self._max_held_rows = max_held_rows
        self._loaded: dict[str, OutlineColumns | None] = {}  # by file; None: it is being read
        self._taken = Counter[str]()  # outlines of the rows of each file
        self._outlines = _Recent[ChunkOutline](max_outline_bytes, _OUTLINE_BYTES)
        self._chunks = _Recent[IndexedChunk](max_chunk_bytes, _ROW_BYTES, lambda chunk: len(chunk.text))
        self._vectors = _Recent[np.ndarray](max_vector_bytes, 100, attrgetter("nbytes"))
        self._files = frozenset[str]()

    def evict_other_files(self, readers: Iterable[IndexReader]) -> None:
        """Forget rows of files that no reader has: what a purge erased is in none of the next release."""
        files = frozenset(name for reader in readers for name in reader.files.values())
        if files != self._files:
            self._files = files
            self._loaded = {name: columns for name, columns in self._loaded.items() if name in files}
            self._taken = Counter({name: count for name, count in self._taken.items() if name in files})
            self._outlines.keep_files(files)
            self._chunks.keep_files(files)
            self._vectors.keep_files(files)

    async def load_outlines(self, reader: IndexReader) -> None:
        """Read the outlines of all rows, as far as there is room, before a question has to wait for them."""
        for fragment in reader.files:
            await self._load_file(reader, fragment)

    async def read_outlines(self, reader: IndexReader, rows: np.ndarray) -> Outlines:
        """Outlines of rows that searches of this reader found: ids, ascending."""
        of_files = np.split(rows, np.flatnonzero(np.diff(rows >> 32)) + 1)
        columns = [
            self._loaded.get(reader.files[int(own[0]) >> 32]) if len(own) else None for own in of_files
        ]
        cached = [  # None also where not all of a file's rows are held: a version before may have more
            of_file.find(own & 0xFFFFFFFF) if of_file else None
            for of_file, own in zip(columns, of_files, strict=True)
        ]
        uncached = (own.tolist() for own, outlines in zip(of_files, cached, strict=True) if outlines is None)
        read = iter([Outlines.of(outlines) for outlines in await self._read_missing(reader, list(uncached))])
        return Outlines.join([next(read) if outlines is None else outlines for outlines in cached])

    async def read_ahead(self, reader: IndexReader, rows: np.ndarray, *, with_vectors: bool) -> None:
        """Keep outlines and vectors of rows that are not in memory, for whoever asks for them next."""
        files, waiting = {reader.files[fragment] for fragment in set((rows >> 32).tolist())}, list[Any]()
        if not all(map(self._loaded.get, files)):
            waiting.append(self.read_outlines(reader, np.sort(rows)))
        if with_vectors and not reader.memory.find_holder(rows):
            waiting.append(self.read_vectors(reader, rows.tolist()))
        await gather_all(waiting)

    async def _read_missing(
        self, reader: IndexReader, of_files: Sequence[Collection[int]]
    ) -> list[list[ChunkOutline]]:
        """Outlines of rows of files whose outlines are not in memory."""
        outlines, missing = self._outlines.split(reader, list(chain.from_iterable(of_files)))
        if missing:
            rows = await reader.take_rows(missing, OUTLINE_COLUMNS)
            outlines |= self._outlines.keep(reader, read_outlines(rows))
            await self._load_hot_files(reader, missing)
        return [[outlines[row] for row in own] for own in of_files]

    async def _load_hot_files(self, reader: IndexReader, rows: Collection[int]) -> None:
        """Hold the files of which so many outlines were taken that reading all of them pays."""
        for fragment, count in Counter([row >> 32 for row in rows]).items():
            self._taken[reader.files[fragment]] += count
            if (total := self._taken[reader.files[fragment]]) >= _MIN_TAKEN:
                await self._load_file(reader, fragment, max_rows=total * _ROWS_PER_TAKEN)

    async def _load_file(self, reader: IndexReader, fragment: int, *, max_rows: int = MAX_HELD_ROWS) -> None:
        file = reader.files[fragment]
        if file in self._loaded:
            return
        cached_rows = sum(len(columns.places) for columns in self._loaded.values() if columns)
        if reader.count_file_rows(fragment) > min(max_rows, self._max_held_rows - cached_rows):
            return
        self._loaded[file] = None
        try:
            columns = await reader.read_outline_columns(fragment)
        except BaseException:
            self._loaded.pop(file, None)
            raise
        if file in self._loaded:  # else a release without it came meanwhile
            self._loaded[file] = columns

    async def read_chunks(self, reader: IndexReader, rows: Collection[int]) -> dict[int, IndexedChunk]:
        """Chunks of rows that a search of this reader found, by row id."""
        chunks, missing = self._chunks.split(reader, rows)
        if missing:
            read = await reader.take_rows(missing, CHUNK_COLUMNS)
            chunks |= self._chunks.keep(reader, {row: IndexedChunk.from_row(read[row]) for row in read})
        return chunks

    async def read_vectors(self, reader: IndexReader, rows: Collection[int]) -> dict[int, np.ndarray]:
        """Vectors of rows that a search of this reader found; rows without a vector are left out."""
        if matrix := reader.memory.find_holder(rows):
            return matrix.take(rows)
        vectors, missing = self._vectors.split(reader, rows)
        return {**vectors, **self._vectors.keep(reader, await reader.take_vectors(missing))}


class _Recent(Generic[Value]):
    """Values used recently, in two generations: when the younger is half of the bound, the older is dropped.

    A look-up takes a tenth of one in a list of uses, and there are two hundred in a search.
    """

    def __init__(self, max_bytes: int, row_bytes: int, size_of: Callable[[Value], int] | None = None) -> None:
        """A value takes `row_bytes`, and what `size_of` says in addition."""
        self._generation_bytes, self._row_bytes, self._size_of = max_bytes // 2, row_bytes, size_of
        self._young: dict[Place, Value] = {}
        self._old: dict[Place, Value] = {}
        self._young_bytes = 0

    def split(self, reader: IndexReader, rows: Collection[int]) -> tuple[dict[int, Value], list[int]]:
        """What is kept of some rows of a reader, and which are missing."""
        young, old = dict[int, Value](), dict[int, Value]()
        missing: list[int] = []
        for row in rows:
            location = (reader.files[row >> 32], row & 0xFFFFFFFF)
            if (value := self._young.get(location)) is not None:
                young[row] = value
            elif (value := self._old.get(location)) is not None:
                old[row] = value
            else:
                missing.append(row)
        return {**young, **self.keep(reader, old)}, missing

    def keep_files(self, files: Collection[str]) -> None:
        """Forget the rows of other files."""
        self._young = {location: value for location, value in self._young.items() if location[0] in files}
        self._old = {location: value for location, value in self._old.items() if location[0] in files}
        self._young_bytes = len(self._young) * self._row_bytes
        self._young_bytes += sum(map(self._size_of, self._young.values())) if self._size_of else 0

    def keep(self, reader: IndexReader, values: Mapping[int, Value]) -> Mapping[int, Value]:
        """Keep the values of some rows, which are returned."""
        for row, value in values.items():
            self._young[reader.files[row >> 32], row & 0xFFFFFFFF] = value
            self._young_bytes += self._row_bytes + (self._size_of(value) if self._size_of else 0)
            if self._young_bytes > self._generation_bytes:
                self._old, self._young, self._young_bytes = self._young, {}, 0
        return values
