"""The values that flow through a search: chunk, candidates, hit, and why a hit is where it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload

import numpy as np

from knowledge_pipeline.records import Mention, Metadata
from knowledge_pipeline.store.index import payload as index_payload
from knowledge_pipeline.store.index.outline_columns import ChunkOutline, Outlines
from knowledge_pipeline.store.readers import Row, ScoredRows

_TIME_COLUMNS = ("indexed_at", "updated_at")
CHUNK_COLUMNS = ("text", "shown", *_TIME_COLUMNS)
"""What `IndexedChunk.from_row` reads of a row."""
OUTLINE_COLUMNS = ("shown",)
"""What `read_outline` reads of a row."""

_FIELDS = ("id", "source", "uri", "path", "content_hash", "header", "title", "url")
_SPAN_FIELDS = ("start_char", "start_line", "end_line")
_NOT_METADATA = {"id", "content_hash", "header", "url", *_SPAN_FIELDS, "archived", "metadata"}
_METADATA_FIELDS = tuple(name for name in index_payload.PAYLOAD_COLUMNS if name not in _NOT_METADATA)


class RankedChunk(Protocol):
    """What ranking knows of a row of the index: an outline, or all of it."""

    @property
    def id(self) -> str:
        """Tells it from all others."""
        ...

    @property
    def source(self) -> str:
        """The id of its source."""
        ...

    @property
    def path(self) -> str:
        """Of its file or document."""
        ...

    @property
    def symbols(self) -> tuple[str, ...]:
        """Qualified names of what its text defines."""
        ...

    @property
    def source_type(self) -> str:
        """The type of its source."""
        ...


_NO_BOOSTS: Mapping[str, float] = {}

ChunkT = TypeVar("ChunkT", bound=RankedChunk, covariant=True)
AnyChunkT = TypeVar("AnyChunkT", bound=RankedChunk)


def read_outline(row: Row) -> ChunkOutline:
    """The outline of a row with `OUTLINE_COLUMNS`."""
    payload = row["shown"]
    return ChunkOutline(
        payload["id"],
        intern(payload["source"]),
        intern(payload["path"]),
        _list_symbols(payload),
        intern(payload["source_type"]),
    )


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

        Its metadata are what extractors found, overridden by the typed columns that hold anything.
        """
        payload = row["shown"]
        metadata: dict[str, Any] = {
            **payload["metadata"],
            **{name: payload[name] for name in _METADATA_FIELDS if payload[name] not in (None, "", [])},
            **({"archived": True} if payload["archived"] else {}),
            **{name: row[name].isoformat() for name in _TIME_COLUMNS},
        }
        names, mentions = metadata.pop("names", ()), metadata.pop("mentions", ())
        metadata.pop("leads", None)
        return cls(
            **{name: payload[name] for name in (*_FIELDS, *_SPAN_FIELDS)},
            text=row["text"],
            symbols=_list_symbols(payload),
            names=tuple(names),
            mentions=tuple(Mention(**mention) for mention in mentions),
            metadata=metadata,
        )

    @property
    def source_type(self) -> str:
        """The type of its source."""
        return self.metadata.get("source_type", "")


def to_outlines(chunks: Iterable[RankedChunk]) -> Outlines:
    """What ranking knows of some chunks, as columns."""
    return Outlines.of(
        ChunkOutline(chunk.id, chunk.source, chunk.path, chunk.symbols, chunk.source_type) for chunk in chunks
    )


def _list_symbols(payload: Mapping[str, Any]) -> tuple[str, ...]:
    symbols = dict.fromkeys([payload["symbol"], *payload["metadata"].get("symbols", ())])
    return tuple(filter(None, symbols))


@dataclass(frozen=True, slots=True, eq=False)
class SpaceCandidates:
    """What the two searches of one space found, as columns with one value of each row."""

    space: str
    rows: np.ndarray  # int64: places in the space's table
    chunks: Outlines
    similarities: np.ndarray  # float64: cosine; NaN without a vector, -inf where that gives no number
    word_scores: np.ndarray  # float64: BM25; NaN where full text did not find it
    unrelated_similarity: float = 0.0  # see `embedding.base.Space`

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


@dataclass(frozen=True, slots=True)
class Candidates:
    """What all spaces found for one text, and why a space was searched without vectors."""

    by_space: tuple[SpaceCandidates, ...]
    vector_problems: Mapping[str, str]  # space -> reason
    query_vectors: Mapping[str, np.ndarray]  # space -> the text's


class ScoreParts(NamedTuple):
    """Where a score comes from, as `ScoreExplanation` tells it of what is shown."""

    space: str
    vector_rank: int | None
    vector_score: float | None
    bm25_rank: int | None
    bm25_score: float | None
    boosts: Mapping[str, float]
    fused: float
    rerank: float | None = None


class Hit(NamedTuple, Generic[ChunkT]):
    """A chunk with its score in [0, 1]."""

    chunk: ChunkT
    score: float
    explanation: ScoreParts  # names the space that it was found in
    row: int = 0  # its place in that space's table

    def with_log_odds(self, name: str, boost: float) -> Hit[ChunkT]:
        """The hit with the log-odds of its score raised by `boost`; the explanation shows it by name."""
        boosts = {**self.explanation.boosts, name: round(boost, 6)}
        raised = self.score * math.exp(boost)
        score = raised / (1 - self.score + raised)
        return self._replace(score=score, explanation=self.explanation._replace(boosts=boosts))


@dataclass(frozen=True, slots=True, eq=False)
class FusedCandidates:
    """The candidates of all spaces with their fused scores, as columns with one value of each row.

    A rank of 0 means that the search did not find it.
    """

    chunks: Outlines
    rows: Sequence[int]
    spaces: Sequence[str]
    vector_ranks: Sequence[int]
    similarities: Sequence[float]
    word_ranks: Sequence[int]
    word_scores: Sequence[float]
    scores: np.ndarray  # float64, in [0, 1]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, at: np.ndarray) -> FusedCandidates:
        """Some candidates, by their positions."""
        chunks, scores = self.chunks.take(at), self.scores[at]
        names = ("rows", "spaces", "vector_ranks", "similarities", "word_ranks", "word_scores")
        columns: dict[str, Any] = {
            name: [getattr(self, name)[each] for each in at.tolist()] for name in names
        }
        return FusedCandidates(chunks=chunks, scores=scores, **columns)


@dataclass(frozen=True, slots=True, eq=False)
class Hits(Sequence[Hit[RankedChunk]]):
    """Hits, best first. A question has two hundred and shows ten: those that are looked at become objects."""

    candidates: FusedCandidates
    order: np.ndarray  # int64: positions of candidates
    scores: np.ndarray  # of each candidate
    boosts: Sequence[Mapping[str, float]] | None = None  # of each candidate

    def explain(self, at: int) -> ScoreParts:
        """Where the score of a candidate comes from, by its position."""
        found = self.candidates
        by_vector, by_words = found.vector_ranks[at], found.word_ranks[at]
        return ScoreParts(
            found.spaces[at],
            by_vector or None,
            found.similarities[at] if by_vector else None,
            by_words or None,
            found.word_scores[at] if by_words else None,
            self.boosts[at] if self.boosts else _NO_BOOSTS,
            float(found.scores[at]),
        )

    def list_parts(self) -> list[tuple[float, ScoreParts, int]]:
        """Score, explanation and row of each hit, without its chunk."""
        rows = self.candidates.rows
        return [(float(self.scores[at]), self.explain(at), rows[at]) for at in self.order.tolist()]

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
        found = self.candidates
        return Hit(found.chunks[at], float(self.scores[at]), self.explain(at), found.rows[at])


def sort_best_first(hits: Iterable[Hit[AnyChunkT]]) -> list[Hit[AnyChunkT]]:
    """The highest scores first; equal ones are ordered by id. No score may be NaN."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))


def order_best_first(scores: np.ndarray, by_id: np.ndarray) -> np.ndarray:
    """Some positions, which come in the order of ids, by the highest scores first: int64.

    Equal scores keep the order of ids. No score may be NaN.
    """
    return by_id[np.argsort(-scores[by_id], kind="stable")]
