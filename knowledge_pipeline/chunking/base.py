"""The interface of chunkers: pure functions from a document to spans of it.

All offsets are characters; a parser that counts bytes converts them itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from knowledge_pipeline.config.sources.chunking import ChunkingSettings
from knowledge_pipeline.records import Chunk, Document, Metadata, Tokenize

_MAX_WHITESPACE_CHARS = 200  # characters of white space between two chunks


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Token limits of one chunk's text; the room for its header is already subtracted."""

    max_tokens: int
    min_tokens: int = 0  # smaller siblings are merged
    overlap_tokens: int = 0


@dataclass(frozen=True)
class ChunkSpan:
    """A part of a document that a chunker proposes, half-open, in characters."""

    start_char: int
    end_char: int
    anchor: str = ""
    header: str = ""
    metadata: Metadata = field(default_factory=dict[str, Any])


class MeasuredDocument:
    """A document with its tokens and lines counted once, so that any span is measured in O(log n)."""

    def __init__(self, document: Document, tokenize: Tokenize) -> None:
        self.document = document
        self._token_starts = list(tokenize(document.text))
        self._line_starts = [0]
        find = document.text.find
        at = find("\n")
        while at != -1:
            self._line_starts.append(at + 1)
            at = find("\n", at + 1)

    def count_tokens(self, start_char: int, end_char: int) -> int:
        """Tokens that start within the span."""
        return bisect_left(self._token_starts, end_char) - bisect_left(self._token_starts, start_char)

    def line_of(self, char: int) -> int:
        """Line of a character, counted from 1."""
        return bisect_right(self._line_starts, char)

    def find_token_limit(self, start_char: int, limit: int) -> int:
        """The furthest offset such that the span from `start_char` holds at most `limit` tokens."""
        index = bisect_left(self._token_starts, start_char) + limit
        return self._token_starts[index] if index < len(self._token_starts) else len(self.document.text)

    def build_chunk(self, span: ChunkSpan) -> Chunk:
        """Cut a span out, without white space at both ends unless the span has nothing else."""
        text = self.document.text[span.start_char : span.end_char]
        start_char = span.start_char + len(text) - len(text.lstrip())
        end_char = span.end_char - (len(text) - len(text.rstrip()))
        if start_char >= end_char:
            start_char, end_char = span.start_char, span.end_char
        return Chunk(
            uri=self.document.uri,
            anchor=span.anchor,
            start_char=start_char,
            end_char=end_char,
            start_line=self.line_of(start_char),
            end_line=self.line_of(max(start_char, end_char - 1)),
            text=self.document.text[start_char:end_char],
            header=span.header,
            tokens=self.count_tokens(start_char, end_char),
            metadata=span.metadata,
            space_before=self._whitespace_before(start_char),
        )

    def _whitespace_before(self, char: int) -> str:
        """The white space before a character; "" where it is too long to keep."""
        text, start = self.document.text, char
        while start > 0 and text[start - 1].isspace():
            start -= 1
            if char - start > _MAX_WHITESPACE_CHARS:
                return ""
        return text[start:char]


Chunker = Callable[[MeasuredDocument, ChunkingSettings, TokenLimits], Iterator[ChunkSpan]]
"""Every character that is not white space lies in at least one span of a non-empty document."""
