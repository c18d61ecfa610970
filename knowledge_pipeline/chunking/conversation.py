"""Tickets, pull requests and threads: whole turns, with the title repeated as context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.pack import Splitter, pack_to_limits, split_span
from knowledge_pipeline.chunking.sentences import Range, split_lines, split_paragraphs, split_sentences
from knowledge_pipeline.config.sources.chunking import ChunkingSettings
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document

VERSION = 1
_DIFF = "diff"  # the kind of a turn that is a hunk

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
    heading: str = ""  # its first line, where that names author and date


def chunk_conversation(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """As many whole turns as fit; a turn that is too long is cut at paragraphs, then sentences.

    Each hunk of a diff is a chunk of its own, or several that end at lines.

    Raises:
        DocumentSkipped: the document is not a conversation.
    """
    del chunking
    document = measured.document
    if not document.metadata.get("segments"):
        raise DocumentSkipped("it is not a conversation")
    turns = list(_split_turns(document))
    for bounds, splitters in _group_turns(turns):
        ranges = (
            part for turn in bounds for part in split_span(measured, turn, limits.max_tokens, splitters)
        )
        for span in pack_to_limits(ranges, measured, limits):
            yield _build_span(document, span, turns)


def _group_turns(turns: list[_Turn]) -> Iterator[tuple[list[Range], Sequence[Splitter]]]:
    """The turns that may share a chunk, and how the long ones are cut: a hunk shares with none."""
    runs = groupby(enumerate(turns), lambda each: each[0] if each[1].kind == _DIFF else -1)
    for at, run in runs:
        splitters = (split_paragraphs, split_sentences) if at < 0 else (split_lines,)
        yield [(turn.start_char, turn.end_char) for _, turn in run], splitters


def _split_turns(document: Document) -> Iterator[_Turn]:
    """The turns of the text, which start where the source says, else at the lines that open them.

    The source's starts are checked, because a sanitizer may have changed the text since.
    """
    text = document.text
    given: list[dict[str, Any]] = sorted(document.metadata["segments"], key=lambda each: each["start_char"])
    starts = [int(segment["start_char"]) for segment in given]
    if starts[0] != 0 or not all(_TURN_HEADING.match(text, start) for start in starts[1:]):
        dated = [match for match in _TURN_HEADING.finditer(text) if _DATED_HEADING.search(match[0])]
        kinds = (re.split(r" by | on |, \d", match[0], maxsplit=1)[0].rstrip(":").lower() for match in dated)
        given = [{"kind": kind} for kind in (given[0]["kind"], *kinds)]
        starts = [0, *(match.start() for match in dated)]
    for segment, (start, end) in zip(given, pairwise([*starts, len(text)]), strict=True):
        match = _TURN_HEADING.match(text, start)
        heading = match[0].rstrip(":") if match else ""
        yield _Turn(start, end, str(segment["kind"]), segment.get("author"), heading)


def _build_span(document: Document, span: Range, turns: list[_Turn]) -> ChunkSpan:
    start, end = span
    inside = [turn for turn in turns if turn.start_char < end and turn.end_char > start]
    authors = list(dict.fromkeys(turn.author for turn in inside if turn.author))
    metadata = {"authors": authors} if authors else {}
    title = "" if start == 0 else document.title  # the text begins with it
    heading = inside[0].heading if start > inside[0].start_char else ""  # of a turn that goes on
    header = "\n".join(part for part in (document.path, title, heading) if part)
    return ChunkSpan(start, end, inside[0].kind, header, metadata)
