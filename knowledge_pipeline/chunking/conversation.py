"""Tickets, pull requests and threads: turns kept whole, with the title repeated as context."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from knowledge_pipeline.chunking.base import Limits, Measured, Span
from knowledge_pipeline.chunking.pack import pack, split_span
from knowledge_pipeline.chunking.sentences import Range
from knowledge_pipeline.config.settings import Chunking
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document

VERSION = 1

_SAID_BY = re.compile(
    r"(?<=\n\n)[A-Z][a-z]+(?: [a-z]+){0,2}(?: by [^\n]{1,100}?)?(?: on [^\n]{1,300}?)?"
    r"(?:, \d{4}-\d\d-\d\d)?:(?=\n)"
)
_DATED = re.compile(r", \d{4}-\d\d-\d\d:$")


@dataclass(frozen=True, slots=True)
class _Turn:
    start_char: int
    end_char: int
    kind: str
    author: str | None = None
    said_by: str = ""  # its first line, where that says who and when


def chunk_conversation(measured: Measured, chunking: Chunking, limits: Limits) -> Iterator[Span]:
    """As many whole turns as fit; a turn that is too long is cut at paragraphs, then sentences.

    Raises:
        DocumentSkipped: the document is no conversation.
    """
    del chunking
    document = measured.document
    if not document.metadata.get("segments"):
        raise DocumentSkipped("it is no conversation")
    turns = list(_turns(document))
    pieces = (
        piece
        for turn in turns
        for piece in split_span(measured, (turn.start_char, turn.end_char), limits.max_tokens)
    )
    for piece in pack(pieces, limit=limits.max_tokens, size=measured.tokens, overlap=limits.overlap_tokens):
        yield _span(document, piece, turns)


def _turns(document: Document) -> Iterator[_Turn]:
    """The turns of the text: where the source says, or else by the lines that they begin with.

    What the source says is checked, because a sanitizer may have changed the text since.
    """
    text = document.text
    given: list[dict[str, Any]] = sorted(document.metadata["segments"], key=lambda each: each["start_char"])
    if not _fit(text, given):
        dated = (match for match in _SAID_BY.finditer(text) if _DATED.search(match[0]))
        given = [
            {"start_char": 0, "kind": given[0]["kind"]},
            *({"start_char": match.start(), "kind": _kind(match[0])} for match in dated),
        ]
    starts = [*(int(segment["start_char"]) for segment in given), len(text)]
    for segment, (start, end) in zip(given, pairwise(starts), strict=True):
        said_by = _SAID_BY.match(text, start)
        who = said_by[0].rstrip(":") if said_by else ""
        yield _Turn(start, end, str(segment["kind"]), segment.get("author"), who)


def _fit(text: str, given: list[dict[str, Any]]) -> bool:
    starts = [int(segment["start_char"]) for segment in given]
    return starts[0] == 0 and all(_SAID_BY.match(text, start) for start in starts[1:])


def _kind(line: str) -> str:
    return re.split(r" by | on |, \d", line, maxsplit=1)[0].rstrip(":").lower()


def _span(document: Document, piece: Range, turns: list[_Turn]) -> Span:
    start, end = piece
    inside = [turn for turn in turns if turn.start_char < end and turn.end_char > start]
    authors = list(dict.fromkeys(turn.author for turn in inside if turn.author))
    metadata = {"authors": authors} if authors else {}
    return Span(start, end, inside[0].kind, _header(document, start, inside[0]), metadata)


def _header(document: Document, start_char: int, first: _Turn) -> str:
    """Where it was said, the title unless the text begins with it, and who goes on speaking."""
    title = "" if start_char == 0 else document.title
    goes_on = first.said_by if start_char > first.start_char else ""
    return "\n".join(part for part in (document.path, title, goes_on) if part)
