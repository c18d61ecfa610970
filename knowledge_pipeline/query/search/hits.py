"""The values that flow through a search: chunk, candidates, hit, and why a hit is where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq, itemgetter
from sys import intern
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from knowledge_pipeline.records import Mention, Metadata
from knowledge_pipeline.store.index import payload as index_payload
from knowledge_pipeline.store.index.outline_columns import ChunkOutline
from knowledge_pipeline.store.readers import Row

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


def _list_symbols(payload: Mapping[str, Any]) -> tuple[str, ...]:
    symbols = dict.fromkeys([payload["symbol"], *payload["metadata"].get("symbols", ())])
    return tuple(filter(None, symbols))


class ScoredChunk(NamedTuple):
    """A chunk as one search found it; a higher score is better, scores of one search compare.

    This, `ScoreParts` and `Hit` are tuples, because each search makes some hundreds: a frozen dataclass takes
    three times as long.
    """

    chunk: RankedChunk
    score: float
    row: int = 0  # its place in the space's table


@dataclass(frozen=True, slots=True)
class SpaceCandidates:
    """What the two searches of one space found; None: that search could not be made."""

    space: str
    nearest: Sequence[ScoredChunk] | None  # score: cosine similarity
    keyword_matches: Sequence[ScoredChunk] | None  # score: BM25
    unrelated_similarity: float = 0.0  # see `embedding.base.Space`


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

    def with_boost(self, boost: float, *, max_boost: float, explained_as: Mapping[str, float]) -> Hit[ChunkT]:
        """The hit with a boost of at most `max_boost` on top, its score in [0, 1] again.

        The explanation shows the parts of the boost by name.
        """
        boosts = {**self.explanation.boosts, **explained_as}
        score = (self.score + boost) / (1 + max_boost)
        return self._replace(score=score, explanation=self.explanation._replace(boosts=boosts))


FoundT = TypeVar("FoundT", ScoredChunk, Hit[Any])


def sort_best_first(found: Iterable[FoundT]) -> list[FoundT]:
    """The highest scores first; equal ones are ordered by id. No score may be NaN."""
    best_first = sorted(found, key=itemgetter(1), reverse=True)
    scores = [each.score for each in best_first]
    if any(map(eq, scores, scores[1:])):
        best_first.sort(key=lambda each: (-each.score, each.chunk.id))
    return best_first
