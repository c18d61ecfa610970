"""What an agent should read before it does a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knowledge_pipeline.contract.chat import ChatMessage
from knowledge_pipeline.contract.responses.base import HIDDEN, QueryResponse
from knowledge_pipeline.contract.responses.search import Citation, SearchResult
from knowledge_pipeline.contract.types import FileState, SearchName, SearchType, SectionType, TaskKind
from knowledge_pipeline.records import Metadata


@dataclass(frozen=True, slots=True)
class ContextExcerpt:
    """An excerpt in a context, to be cited as `[number]`."""

    number: int  # from 1, in the order shown
    text: str  # exactly the document's, from the first to the last of its lines
    citation: Citation
    score: float  # of its best chunk
    tokens: int  # about: with its heading, in the reader's tokens
    found_by: tuple[str, ...]  # names of searches
    symbols: tuple[str, ...]  # that it defines, as far as they are known
    metadata: Metadata  # of its best chunk; of several, what they have in common
    chunks: tuple[str, ...]  # ids
    missing_lines: int = 0  # cut off at its end
    near_duplicates: tuple[Citation, ...] = ()  # other places of nearly the same text
    within: str | None = None  # the signature of the definition that it begins in the middle of
    file_state: FileState | None = field(default=None, metadata={"omit_none": True})


@dataclass(frozen=True, slots=True)
class OmittedChunk:
    """A chunk that was found and did not fit."""

    id: str
    citation: Citation
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class SearchRun:
    """One search for a task; one with a `problem` failed and found nothing."""

    name: SearchName
    type: SearchType
    query: str  # the text, or the file, that was searched for
    source_types: tuple[str, ...] = ()  # that it was narrowed to
    found: int = 0
    shown: int = 0  # of what it found
    took_ms: float = 0.0
    degraded: Mapping[str, Any] = field(default_factory=dict[str, Any])  # skipped step -> why
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ContextSection:
    """A section of a context, as `context.sections` configures it; with a `problem`, its search failed."""

    name: str
    heading: str
    type: SectionType
    query: str = field(metadata={"description": "The text, or the code, that was searched for."})
    share: float  # of the budget
    found: int = 0
    shown: int = 0  # of what it found
    tokens: int = 0  # of its excerpts
    excerpts: tuple[int, ...] = ()  # their numbers
    took_ms: float = 0.0
    degraded: Mapping[str, Any] = field(default_factory=dict[str, Any])  # skipped step -> why
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ContextResponse(QueryResponse):
    """What an agent should read before it does a task."""

    # degraded: "vector", "rerank"; a search with a problem; "task": only its beginning was searched for;
    # "history", "snippet", "suffix": only what is nearest to the question or the cursor is shown
    kind: TaskKind
    text: str = field(metadata={"description": "The prompt; of a chat, its system message."})
    tokens: int  # of the prompt, or of all messages of a chat: at most `max_tokens`
    max_tokens: int
    tokenizer: str
    template: str
    excerpts: tuple[ContextExcerpt, ...]
    omitted: tuple[OmittedChunk, ...] = field(
        metadata={"description": "What was found and did not fit, best first."}
    )
    searches: tuple[SearchRun, ...] = field(
        metadata={"description": "Which searches were run, and what each found."}
    )
    results: tuple[SearchResult, ...] = field(metadata=HIDDEN)  # of the excerpts, best first
    sections: tuple[ContextSection, ...] | None = field(
        default=None,
        metadata={"description": "What each configured section found.", "omit_none": True},
    )
    messages: tuple[ChatMessage, ...] | None = field(
        default=None,
        metadata={
            "description": "Of a chat: the system message, the history that fits, and the question.",
            "omit_none": True,
        },
    )
    dropped_turns: int | None = field(
        default=None,
        metadata={
            "description": "Of a chat: how many of the oldest messages of the history did not fit.",
            "omit_none": True,
        },
    )
