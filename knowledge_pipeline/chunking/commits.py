"""One commit as one chunk; a long one as its message and files, then its diffs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.pack import pack_to_limits, split_span
from knowledge_pipeline.chunking.sentences import Range, split_lines, split_paragraphs
from knowledge_pipeline.config.sources.chunking import ChunkingSettings
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
        DocumentSkipped: the document is not a commit.
    """
    document = measured.document
    if not document.metadata.get("sha"):
        raise DocumentSkipped("it is not a commit")
    segments = list(_split_segments(document))
    whole = (0, len(document.text))
    if measured.count_tokens(*whole) <= limits.max_tokens:
        yield _build_span(document, whole, segments)
        return
    for is_diff in (False, True):  # message and files are packed together, diffs apart from them
        ranges = (
            part
            for segment in segments
            if (segment.kind == "diff") is is_diff
            for part in split_span(
                measured,
                (segment.start_char, segment.end_char),
                limits.max_tokens,
                (split_paragraphs, split_lines),
            )
        )
        for span in pack_to_limits(ranges, measured, limits):
            yield _build_span(document, span, segments)


def _split_segments(document: Document) -> Iterator[_Segment]:
    """The parts of a commit's text, which start where the source says, else at their first lines.

    The source's starts are checked, because a sanitizer may have changed the text since.
    """
    text = document.text
    given: list[dict[str, Any]] = document.metadata.get("segments") or []
    starts = sorted(int(segment["start_char"]) for segment in given)
    if not starts or not all(start == 0 or _SEGMENT_START.match(text, start) for start in starts):
        starts = [match.start() for match in _SEGMENT_START.finditer(text)]
    for start, end in pairwise([0, *(start for start in starts if start > 0), len(text)]):
        mark = _SEGMENT_START.match(text, start) if start else None
        if mark is None:
            yield _Segment("message", start, end)
        elif mark["path"]:
            yield _Segment("diff", start, end, mark["path"])
        else:
            yield _Segment("files", start, end)


def _build_span(document: Document, span: Range, segments: list[_Segment]) -> ChunkSpan:
    start, end = span
    inside = [segment for segment in segments if segment.start_char < end and segment.end_char > start]
    paths = [segment.path for segment in inside if segment.kind == "diff"]
    holds_message = inside[0].kind == "message" and inside[0].start_char == start
    anchor = f"diff {inside[0].path}" if inside[0].kind == "diff" else "message"
    sha = str(document.metadata["sha"])
    metadata = {"sha": sha, "paths": paths} if paths else {"sha": sha}
    return ChunkSpan(start, end, anchor, _build_header(document, sha, holds_message), metadata)


def _build_header(document: Document, sha: str, holds_message: bool) -> str:
    """The commit's id alone where the text holds the rest, else subject, author and date too."""
    name = f"commit {sha[:12]}"
    if holds_message:
        return name
    day = document.last_modified.date().isoformat() if document.last_modified else ""
    signed = ", ".join(part for part in (document.author or "", day) if part)
    subject = document.title or document.text.partition("\n")[0].strip()
    return "\n".join(part for part in (f"{name}: {subject}", signed) if part)
