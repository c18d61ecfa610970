"""Tickets, pull requests and threads: turns kept whole, with the title repeated as context."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.pack import pack, split_span
from knowledge_pipeline.chunking.sentences import Range
from knowledge_pipeline.config.settings import ChunkingSettings
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document

VERSION = 1

_TURN_HEADING = re.compile(
    r"(?<=\n\n)[A-Z][a-z]+(?: [a-z]+){0,2}(?: by [^\n]{1,100}?)?(?: on [^\n]{1,300}?)?"
    r"(?:, \d{4}-\d\d-\d\d)?:(?=\n)"
)
_DATED_HEADING = re.compile(r", \d{4}-\d\d-\d\d:$")


@dataclass(frozen=True, slots=True)
class _Turn:
    start_char: int
    end_char: int
    kind: str
    author: str | None = None
    heading: str = ""  # its first line, where that says who and when


def chunk_conversation(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """As many whole turns as fit; a turn that is too long is cut at paragraphs, then sentences.

    Raises:
        DocumentSkipped: the document is no conversation.
    """
    del chunking
    document = measured.document
    if not document.metadata.get("segments"):
        raise DocumentSkipped("it is no conversation")
    turns = list(_split_turns(document))
    pieces = (
        piece
        for turn in turns
        for piece in split_span(measured, (turn.start_char, turn.end_char), limits.max_tokens)
    )
    for piece in pack(
        pieces, limit=limits.max_tokens, count_tokens=measured.count_tokens, overlap=limits.overlap_tokens
    ):
        yield _build_span(document, piece, turns)


def _split_turns(document: Document) -> Iterator[_Turn]:
    """The turns of the text: where the source says, or else by the lines that they begin with.

    What the source says is checked, because a sanitizer may have changed the text since.
    """
    text = document.text
    given: list[dict[str, Any]] = sorted(document.metadata["segments"], key=lambda each: each["start_char"])
    if not _matches_text(text, given):
        dated = (match for match in _TURN_HEADING.finditer(text) if _DATED_HEADING.search(match[0]))
        given = [
            {"start_char": 0, "kind": given[0]["kind"]},
            *({"start_char": match.start(), "kind": _parse_turn_kind(match[0])} for match in dated),
        ]
    starts = [*(int(segment["start_char"]) for segment in given), len(text)]
    for segment, (start, end) in zip(given, pairwise(starts), strict=True):
        said_by = _TURN_HEADING.match(text, start)
        who = said_by[0].rstrip(":") if said_by else ""
        yield _Turn(start, end, str(segment["kind"]), segment.get("author"), who)


def _matches_text(text: str, segments: list[dict[str, Any]]) -> bool:
    starts = [int(segment["start_char"]) for segment in segments]
    return starts[0] == 0 and all(_TURN_HEADING.match(text, start) for start in starts[1:])


def _parse_turn_kind(heading: str) -> str:
    return re.split(r" by | on |, \d", heading, maxsplit=1)[0].rstrip(":").lower()


def _build_span(document: Document, piece: Range, turns: list[_Turn]) -> ChunkSpan:
    start, end = piece
    inside = [turn for turn in turns if turn.start_char < end and turn.end_char > start]
    authors = list(dict.fromkeys(turn.author for turn in inside if turn.author))
    metadata = {"authors": authors} if authors else {}
    return ChunkSpan(start, end, inside[0].kind, _build_header(document, start, inside[0]), metadata)


def _build_header(document: Document, start_char: int, first: _Turn) -> str:
    """Where it was said, the title unless the text begins with it, and who goes on speaking."""
    title = "" if start_char == 0 else document.title
    goes_on = first.heading if start_char > first.start_char else ""
    return "\n".join(part for part in (document.path, title, goes_on) if part)
