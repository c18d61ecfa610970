"""Conversations, commits and notebooks as chunks: whole turns, messages, diffs and cells."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any

from knowledge_pipeline.chunking.base import (
    ChunkSpan,
    HeadingOutline,
    MeasuredDocument,
    TableOutline,
    TokenLimits,
    is_rendered_notebook,
    parse_blocks,
)
from knowledge_pipeline.chunking.pack import number_duplicate_anchors, pack_to_limits, split_to_limit
from knowledge_pipeline.chunking.sentences import Range, split_lines, split_paragraphs, split_sentences
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document

VERSION = 3
_DIFF = "diff"  # the kind of a turn that is a hunk, and of an excerpt of a commit's diff

_TURN_HEADING = re.compile(
    r"(?<=\n\n)[A-Z][a-z]+(?: [a-z]+){0,2}(?: by [^\n]{1,100}?)?(?: on [^\n]{1,300}?)?"
    r"(?:, \d{4}-\d\d-\d\d)?:(?=\n)"
)
_DATED_HEADING = re.compile(r", \d{4}-\d\d-\d\d:$")


@dataclass(frozen=True, slots=True)
class _Part:
    """A turn of a conversation, or a part of a commit's text."""

    span: Range
    kind: str
    author: str | None = None
    heading: str = ""  # of a turn: its first line, where that names author and date
    path: str = ""  # of a commit's diff


def _list_overlapping(parts: list[_Part], span: Range) -> list[_Part]:
    return [part for part in parts if part.span[0] < span[1] and part.span[1] > span[0]]


def chunk_conversation(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """As many whole turns as fit; a turn that is too long is cut at paragraphs, then sentences.

    Each hunk of a diff is a chunk of its own, or several that end at lines.
    """
    document = measured.document
    if not document.metadata.get("segments"):
        raise DocumentSkipped("it is not a conversation")
    turns = list(_split_turns(document))
    tables: TableOutline | None = None  # parsed where a turn is cut
    # a hunk shares a chunk with no other turn
    runs = groupby(enumerate(turns), lambda numbered: numbered[0] if numbered[1].kind == _DIFF else -1)
    for at, run in runs:
        splitters = (split_paragraphs, split_sentences) if at < 0 else (split_lines,)
        for span in pack_to_limits(measured, (turn.span for _, turn in run), limits, splitters):
            inside, start = _list_overlapping(turns, span), span[0]
            authors = list(dict.fromkeys(turn.author for turn in inside if turn.author))
            metadata = {"authors": authors} if authors else {}
            title = "" if start == 0 else document.title  # the text begins with it
            heading = columns = ""
            if start > inside[0].span[0]:  # a turn that goes on
                tables = tables or TableOutline(parse_blocks(document))
                heading, columns = inside[0].heading, tables.header_at(start)
            header = "\n".join(part for part in (document.path, title, heading, columns) if part)
            yield ChunkSpan(*span, inside[0].kind, header, metadata)


def _split_turns(document: Document) -> Iterator[_Part]:
    """The turns of the text, which start where the source says, else at the lines that open them.

    The source's starts are checked, because a sanitizer may have changed the text since.
    """
    text = document.text
    segments: list[dict[str, Any]] = sorted(
        document.metadata["segments"], key=lambda segment: segment["start_char"]
    )
    starts = [int(segment["start_char"]) for segment in segments]
    if starts[0] != 0 or not all(_TURN_HEADING.match(text, start) for start in starts[1:]):
        dated = [match for match in _TURN_HEADING.finditer(text) if _DATED_HEADING.search(match[0])]
        kinds = (re.split(r" by | on |, \d", match[0], maxsplit=1)[0].rstrip(":").lower() for match in dated)
        segments = [{"kind": kind} for kind in (segments[0]["kind"], *kinds)]
        starts = [0, *(match.start() for match in dated)]
    for segment, span in zip(segments, pairwise([*starts, len(text)]), strict=True):
        match = _TURN_HEADING.match(text, span[0])
        heading = match[0].rstrip(":") if match else ""
        yield _Part(span, str(segment["kind"]), segment.get("author"), heading)


COMMITS_VERSION = 1

_SEGMENT_START = re.compile(r"^(?:Files changed: \d+|diff (?P<path>\S[^\n]*)\n(?=@@ ))", re.MULTILINE)


def find_message_end(text: str) -> int:
    """Where the message of a commit's document ends, and the list of files or a diff begins."""
    mark = _SEGMENT_START.search(text)
    return mark.start() if mark else len(text)


def chunk_commit(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """One span for a commit that fits; else message and files first, then the excerpts of the diff."""
    document = measured.document
    if not document.metadata.get("sha"):
        raise DocumentSkipped("it is not a commit")
    segments = list(_split_segments(document))
    whole = (0, len(document.text))
    if measured.count_tokens(*whole) <= limits.max_tokens:
        yield _build_commit_span(document, whole, segments)
        return
    for is_diff in (False, True):  # message and files are packed together, diffs apart from them
        spans = (segment.span for segment in segments if (segment.kind == _DIFF) is is_diff)
        for span in pack_to_limits(measured, spans, limits, (split_paragraphs, split_lines)):
            yield _build_commit_span(document, span, segments)


def _split_segments(document: Document) -> Iterator[_Part]:
    """The parts of a commit's text, which start where the source says, else at their first lines.

    The source's starts are checked, because a sanitizer may have changed the text since.
    """
    text = document.text
    segments: list[dict[str, Any]] = document.metadata.get("segments") or []
    starts = sorted(int(segment["start_char"]) for segment in segments)
    if not starts or not all(start == 0 or _SEGMENT_START.match(text, start) for start in starts):
        starts = [match.start() for match in _SEGMENT_START.finditer(text)]
    for start, end in pairwise([0, *(start for start in starts if start > 0), len(text)]):
        mark = _SEGMENT_START.match(text, start) if start else None
        path = (mark["path"] or "") if mark else ""
        yield _Part((start, end), "message" if mark is None else _DIFF if path else "files", path=path)


def _build_commit_span(document: Document, span: Range, segments: list[_Part]) -> ChunkSpan:
    inside = _list_overlapping(segments, span)
    paths = [segment.path for segment in inside if segment.kind == _DIFF]
    holds_message = inside[0].kind == "message" and inside[0].span[0] == span[0]
    anchor = f"diff {inside[0].path}" if inside[0].kind == _DIFF else "message"
    sha = str(document.metadata["sha"])
    metadata = {"sha": sha, "paths": paths} if paths else {"sha": sha}
    return ChunkSpan(*span, anchor, _build_header(document, sha, holds_message), metadata)


def _build_header(document: Document, sha: str, holds_message: bool) -> str:
    """The commit's id alone where the text holds the rest, else subject, author and date too."""
    name = f"commit {sha[:12]}"
    if holds_message:
        return name
    day = document.last_modified.date().isoformat() if document.last_modified else ""
    signed = ", ".join(part for part in (document.author or "", day) if part)
    subject = document.title or document.text.partition("\n")[0].strip()
    return "\n".join(part for part in (f"{name}: {subject}", signed) if part)


_CODE = re.compile(
    r"^(?P<fence>`{3,})[^`\n]*\n(?:[^\n]*\n)*?(?P=fence)$"
    r"(?:\n(?P<output>`{3,})output\n(?:[^\n]*\n)*?(?P=output)$)?",
    re.MULTILINE,
)
_MAX_HEADER_CHARS = 160


def chunk_notebook(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Cut a rendered notebook between its cells: small ones join the next, long ones are cut by lines.

    The anchor is the trail of headings, which cells put in elsewhere leave alone.
    """
    if not is_rendered_notebook(measured.document):
        raise DocumentSkipped("it is not a notebook")
    yield from number_duplicate_anchors(measured.document.text, _build_spans(measured, limits))


def _build_spans(measured: MeasuredDocument, limits: TokenLimits) -> Iterator[ChunkSpan]:
    document = measured.document
    outline = HeadingOutline(document)
    bounds = _find_bounds(document.text, outline)
    for start, end in _join_small_cells(measured, bounds, limits):
        trail = outline.trail_at(start) or outline.trail_at(end - 1)
        header = "\n".join([document.path, " / ".join(trail)]).strip()[:_MAX_HEADER_CHARS]
        for part in split_to_limit(measured, start, end, limits.max_tokens):
            yield ChunkSpan(*part, anchor="/".join(trail) or "notebook", header=header)


def _find_bounds(text: str, outline: HeadingOutline) -> list[int]:
    """Where cells begin and end: around code with its output, and before headings, which no code holds."""
    code = [match.span() for match in _CODE.finditer(text)]
    ends = [end for _, end in code]
    headings = [section.start_char for section in outline.sections]
    after = [bisect_right(ends, at) for at in headings]  # the first code that ends behind a heading
    outside = [
        at for at, index in zip(headings, after, strict=True) if index == len(code) or at <= code[index][0]
    ]
    return sorted({0, *chain.from_iterable(code), *outside, len(text)})


def _join_small_cells(measured: MeasuredDocument, bounds: list[int], limits: TokenLimits) -> Iterator[Range]:
    """The cells in order, each below the minimum joined to the one after it where both fit."""
    first = bounds[0]
    for end, following in pairwise([*bounds[1:], bounds[-1]]):
        is_small = measured.count_tokens(first, end) < limits.min_tokens
        if end < following and is_small and measured.count_tokens(first, following) <= limits.max_tokens:
            continue
        yield first, end
        first = end
