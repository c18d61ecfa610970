"""The values that flow through a query: passage, candidates, hit, and why a hit is where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from knowledge_pipeline.contract.responses import ScoreExplanation
from knowledge_pipeline.records import Mention, Metadata


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
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A passage as one search found it; a higher score is better, scores of one search compare."""

    chunk: IndexedChunk
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
class Hit:
    """A passage with its score in [0, 1]."""

    chunk: IndexedChunk
    score: float
    explanation: ScoreExplanation
