"""Sections of a document as chunks: cut at headings, code and tables left whole, small siblings joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge_pipeline.chunking.base import Limits, Measured, Span
from knowledge_pipeline.chunking.blocks import Block, Section, blocks_of, sections
from knowledge_pipeline.chunking.headings import common_trail, heading_anchor, heading_header
from knowledge_pipeline.chunking.pack import Cut, pack, split_span
from knowledge_pipeline.chunking.sentences import Range, lines, paragraphs, sentences
from knowledge_pipeline.config.settings import Chunking

VERSION = 1

_Group = list[Section]


def chunk_semantic(measured: Measured, chunking: Chunking, limits: Limits) -> Iterator[Span]:
    """One span for each section that fits; sections smaller than the minimum join their siblings.

    A longer section is packed from whole blocks (a heading with what follows it), a longer
    block is cut at list items, paragraphs, lines or sentences. Reads any text as Markdown.
    """
    found = sections(blocks_of(measured.document), chunking.max_section_depth)
    for group in _joined(list(found), measured, limits):
        trail = common_trail([section.trail for section in group]) or group[0].trail
        header = heading_header(measured.document, trail)
        blocks = [block for section in group for block in section.blocks]
        for start, end in _pieces(blocks, measured, limits):
            yield Span(start, end, heading_anchor(trail), header)


def _joined(found: Sequence[Section], measured: Measured, limits: Limits) -> list[_Group]:
    """Groups of neighbours: a small section takes in the next, or else joins the one before."""
    groups: list[_Group] = []
    for section in found:
        if groups and _tokens(groups[-1], measured) < limits.min_tokens:
            if _may_join(groups[-1], [section], measured, limits):
                groups[-1].append(section)
                continue
            _join_back(groups, measured, limits)
        groups.append([section])
    if groups and _tokens(groups[-1], measured) < limits.min_tokens:
        _join_back(groups, measured, limits)
    return groups


def _join_back(groups: list[_Group], measured: Measured, limits: Limits) -> None:
    if len(groups) > 1 and _may_join(groups[-2], groups[-1], measured, limits):
        groups[-2].extend(groups.pop())


def _may_join(group: _Group, follower: _Group, measured: Measured, limits: Limits) -> bool:
    """Whether the follower is a sibling of the group, or its first descendant, and both fit together."""
    above, below = group[0].trail, follower[0].trail
    is_related = above[:-1] == below[:-1] or below[: len(above)] == above
    return is_related and measured.tokens(group[0].start_char, follower[-1].end_char) <= limits.max_tokens


def _tokens(group: _Group, measured: Measured) -> int:
    return measured.tokens(group[0].start_char, group[-1].end_char)


def _pieces(blocks: Sequence[Block], measured: Measured, limits: Limits) -> Iterator[Range]:
    start, end = blocks[0].start_char, blocks[-1].end_char
    if measured.tokens(start, end) <= limits.max_tokens:
        if not measured.document.text[start:end].isspace():
            yield start, end
        return
    ranges = _ranges(blocks, measured, limits)
    yield from pack(ranges, limit=limits.max_tokens, size=measured.tokens, overlap=limits.overlap_tokens)


def _ranges(blocks: Sequence[Block], measured: Measured, limits: Limits) -> Iterator[Range]:
    """Blocks, cut where one alone exceeds the limit; a heading goes with what follows it."""
    heading: Range | None = None
    for block in blocks:
        pieces = list(_cut(block, heading, measured, limits))
        if heading and pieces:
            if measured.tokens(heading[0], pieces[0][1]) <= limits.max_tokens:
                pieces[0] = heading[0], pieces[0][1]
            else:
                yield heading
            heading = None
        if block.kind == "heading" and len(pieces) == 1:
            heading = pieces[0]
        else:
            yield from pieces
    if heading:
        yield heading


def _cut(block: Block, heading: Range | None, measured: Measured, limits: Limits) -> Iterator[Range]:
    """The pieces of a block; those of prose leave room for a heading that waits before it."""
    limit = limits.max_tokens
    if heading and block.kind == "prose":
        limit = max(limit - measured.tokens(*heading), limit // 2)
    return split_span(measured, (block.start_char, block.end_char), limit, _cuts(block))


def _cuts(block: Block) -> tuple[Cut, ...]:
    if block.kind == "verbatim":
        return paragraphs, lines
    if not block.breaks:
        return paragraphs, sentences
    stops = (*block.breaks[1:], block.end_char)

    def items(text: str, start_char: int, end_char: int) -> Iterator[Range]:
        yield from zip((start_char, *block.breaks[1:]), stops, strict=True)

    return items, paragraphs, sentences
