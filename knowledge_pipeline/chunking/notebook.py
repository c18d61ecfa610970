"""Notebooks by cell: small cells stay with what follows, a cell that is too long is cut by lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, pairwise

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.headings import HeadingOutline, is_rendered_notebook
from knowledge_pipeline.chunking.lines import number_duplicate_anchors, split_to_limit
from knowledge_pipeline.chunking.sentences import Range
from knowledge_pipeline.config.sources.chunking import ChunkingSettings
from knowledge_pipeline.errors import DocumentSkipped

_CODE = re.compile(
    r"^(?P<fence>`{3,})[^`\n]*\n(?:[^\n]*\n)*?(?P=fence)$"
    r"(?:\n(?P<output>`{3,})output\n(?:[^\n]*\n)*?(?P=output)$)?",
    re.MULTILINE,
)
_MAX_HEADER_CHARS = 160


def chunk_notebook(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Cut a rendered notebook between its cells; a `Chunker`.

    The anchor is the trail of headings, which cells put in elsewhere leave alone.

    Raises:
        DocumentSkipped: the document is not a rendered notebook.
    """
    del chunking
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
