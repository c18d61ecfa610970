"""One commit as one chunk; a long one as its message and files, then its diffs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.pack import pack, split_span
from knowledge_pipeline.chunking.sentences import Range, split_lines, split_paragraphs
from knowledge_pipeline.config.settings import ChunkingSettings
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document

VERSION = 1

_SEGMENT_START = re.compile(r"^(?:Files changed: \d+|diff (?P<path>\S[^\n]*)\n(?=@@ ))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: Literal["message", "files", "diff"]
    start_char: int
    end_char: int
    path: str = ""


def find_message_end(text: str) -> int:
    """Where the message of a commit's document ends, and the list of files or a diff begins."""
    mark = _SEGMENT_START.search(text)
    return mark.start() if mark else len(text)


def chunk_commit(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """One span for a commit that fits; else message and files first, then the excerpts of the diff.

    Raises:
        DocumentSkipped: the document is no commit.
    """
    document = measured.document
    if not document.metadata.get("sha"):
        raise DocumentSkipped("it is no commit")
    segments = list(_split_segments(document))
    whole = (0, len(document.text))
    if measured.count_tokens(*whole) <= limits.max_tokens:
        yield _build_span(document, whole, segments)
        return
    for group in _group_segments(segments):
        pieces = (
            piece
            for segment in group
            for piece in split_span(
                measured,
                (segment.start_char, segment.end_char),
                limits.max_tokens,
                (split_paragraphs, split_lines),
            )
        )
        for piece in pack(
            pieces, limit=limits.max_tokens, count_tokens=measured.count_tokens, overlap=limits.overlap_tokens
        ):
            yield _build_span(document, piece, segments)


def _group_segments(segments: list[_Segment]) -> list[list[_Segment]]:
    """What is packed together: message and files, and apart from them the diffs."""
    told = [segment for segment in segments if segment.kind != "diff"]
    return [told, [segment for segment in segments if segment.kind == "diff"]]


def _split_segments(document: Document) -> Iterator[_Segment]:
    """The parts of a commit's text: where the source says, or else by their first lines.

    What the source says is checked, because a sanitizer may have changed the text since.
    """
    text = document.text
    starts = _list_source_starts(document) or [match.start() for match in _SEGMENT_START.finditer(text)]
    bounds = [0, *(start for start in starts if start > 0), len(text)]
    for start, end in pairwise(bounds):
        mark = _SEGMENT_START.match(text, start) if start else None
        if mark is None:
            yield _Segment("message", start, end)
        elif mark["path"]:
            yield _Segment("diff", start, end, mark["path"])
        else:
            yield _Segment("files", start, end)


def _list_source_starts(document: Document) -> list[int]:
    """The starts that the source gave; none if one of them does not fit the text."""
    given: list[dict[str, Any]] = document.metadata.get("segments") or []
    starts = sorted(int(segment["start_char"]) for segment in given)
    fit = all(start == 0 or _SEGMENT_START.match(document.text, start) for start in starts)
    return starts if fit else []


def _build_span(document: Document, piece: Range, segments: list[_Segment]) -> ChunkSpan:
    start, end = piece
    inside = [each for each in segments if each.start_char < end and each.end_char > start]
    paths = [each.path for each in inside if each.kind == "diff"]
    holds_message = inside[0].kind == "message" and inside[0].start_char == start
    anchor = f"diff {inside[0].path}" if inside[0].kind == "diff" else "message"
    sha = str(document.metadata["sha"])
    metadata = {"sha": sha, "paths": paths} if paths else {"sha": sha}
    return ChunkSpan(start, end, anchor, _build_header(document, sha, holds_message), metadata)


def _build_header(document: Document, sha: str, holds_message: bool) -> str:
    """The commit's id alone where the text tells the rest, else subject, author and date too."""
    name = f"commit {sha[:12]}"
    if holds_message:
        return name
    day = document.last_modified.date().isoformat() if document.last_modified else ""
    signed = ", ".join(part for part in (document.author or "", day) if part)
    subject = document.title or document.text.partition("\n")[0].strip()
    return "\n".join(part for part in (f"{name}: {subject}", signed) if part)
