"""Windows, sentences, paragraphs and sections as chunks; headings name them where the text has some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from knowledge_pipeline.chunking.base import (
    ChunkSpan,
    HeadingOutline,
    MeasuredDocument,
    TableOutline,
    TokenLimits,
    build_heading_header,
    has_headings,
    parse_blocks,
)
from knowledge_pipeline.chunking.blocks import Block, Section, TableSpan, split_sections
from knowledge_pipeline.chunking.pack import Splitter, pack, pack_to_limits, split_span, split_windows
from knowledge_pipeline.chunking.sentences import Range, split_lines, split_paragraphs, split_sentences
from knowledge_pipeline.config.sources import ChunkingSettings

VERSION = 3


def chunk_fixed_size(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Windows of at most `max_tokens` that overlap; a word is cut only if it alone is too long."""
    end_char = len(measured.document.text)
    windows = split_windows(measured, 0, end_char, limits.max_tokens, limits.overlap_tokens)
    return _build_spans(measured, chunking, windows)


def chunk_sentences(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Whole sentences, packed, the last ones repeated; a sentence is cut only if it alone is too long."""
    text = measured.document.text
    sentences = split_sentences(text, 0, len(text))
    return _build_spans(measured, chunking, pack_to_limits(measured, sentences, limits))


def chunk_paragraphs(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Whole paragraphs, packed; one that alone is too long is cut into sentences."""
    text = measured.document.text
    paragraphs = split_paragraphs(text, 0, len(text))
    ranges = pack_to_limits(measured, paragraphs, limits, (split_sentences,))
    return _build_spans(measured, chunking, ranges)


def _build_spans(
    measured: MeasuredDocument, chunking: ChunkingSettings, ranges: Iterable[Range]
) -> Iterator[ChunkSpan]:
    document = measured.document
    outline = HeadingOutline(document, chunking.max_section_depth)
    tables = TableOutline(parse_blocks(document) if has_headings(document) else ())
    for start, end in ranges:
        trail = outline.trail_at(start)
        header = build_heading_header(document, trail, tables.header_at(start))
        yield ChunkSpan(start, end, "/".join(trail), header)


SEMANTIC_VERSION = 4

_SCRAP_TOKENS = 16


def chunk_semantic(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """One span for each section that fits; sections smaller than the minimum join their siblings.

    A longer section is packed from whole blocks (a heading with what follows it), a longer
    block is cut at list items, paragraphs, lines or sentences. Reads any text as Markdown.
    """
    sections = split_sections(parse_blocks(measured.document), chunking.max_section_depth)
    for group in _group_sections(list(sections), measured, limits):
        with_body = [section for section in group if section.has_body] or group
        titles = zip(*(section.trail for section in with_body), strict=False)
        common = takewhile(lambda at_level: len(set(at_level)) == 1, titles)
        trail = tuple(at_level[0] for at_level in common) or group[0].trail
        blocks = [block for section in group for block in section.blocks]
        tables = TableOutline(blocks)
        for start, end in _pack_blocks(blocks, tables, measured, limits):
            header = build_heading_header(measured.document, trail, tables.header_at(start))
            yield ChunkSpan(start, end, "/".join(trail), header)


def _group_sections(
    ungrouped: Sequence[Section], measured: MeasuredDocument, limits: TokenLimits
) -> list[list[Section]]:
    """Groups of neighbours: a small section takes in the next, or else joins the one before.

    One that says nothing joins a neighbour of any length, which is then cut between its blocks.
    """

    def fits(first: Section, last: Section) -> bool:
        return measured.count_tokens(first.start_char, last.end_char) <= limits.max_tokens

    groups: list[list[Section]] = []
    for section in [*ungrouped, None]:
        last = groups[-1] if groups else []
        size = measured.count_tokens(last[0].start_char, last[-1].end_char) if last else limits.min_tokens
        has_body = not last or any(member.has_body for member in last)
        # headings alone, or a label, a line, that nobody looks for
        is_scrap = not has_body or size < min(_SCRAP_TOKENS, limits.min_tokens)
        if is_scrap or size < limits.min_tokens:
            if section and _belong_together(last[0], section) and (is_scrap or fits(last[0], section)):
                last.append(section)
                continue
            before = groups[-2] if len(groups) > 1 else None
            if before and _belong_together(before[0], last[0]) and fits(before[0], last[-1]):
                before.extend(groups.pop())
            elif section and is_scrap:
                last.append(section)
                continue
        if section:
            groups.append([section])
    return groups


def _belong_together(first: Section, second: Section) -> bool:
    """Whether the second is a sibling of the first, or its descendant."""
    above, below = first.trail, second.trail
    return above[:-1] == below[:-1] or below[: len(above)] == above


def _pack_blocks(
    blocks: Sequence[Block], tables: TableOutline, measured: MeasuredDocument, limits: TokenLimits
) -> Iterator[Range]:
    """Ranges that fit; one that begins within a table with the table's header row, which is repeated."""

    def count_tokens(start_char: int, end_char: int) -> int:
        table = tables.table_at(start_char)
        repeated = _count_header(table, measured, limits) if table else 0
        return repeated + measured.count_tokens(start_char, end_char)

    start, end = blocks[0].start_char, blocks[-1].end_char
    if measured.count_tokens(start, end) <= limits.max_tokens:
        if not measured.document.text[start:end].isspace():
            yield start, end
        return
    yield from pack(
        _split_blocks(blocks, tables, measured, limits),
        limit=limits.max_tokens,
        count_tokens=count_tokens,
        overlap=limits.overlap_tokens,
        least=limits.min_tokens,
    )


def _count_header(table: TableSpan, measured: MeasuredDocument, limits: TokenLimits) -> int:
    """The tokens that the names of a table's columns take in each chunk, at most half of it."""
    return min(sum(measured.count_tokens(*span) for span in table.header_spans), limits.max_tokens // 2)


def _split_blocks(
    blocks: Sequence[Block], tables: TableOutline, measured: MeasuredDocument, limits: TokenLimits
) -> Iterator[Range]:
    """Blocks, cut where one alone exceeds the limit; a heading goes with what follows it."""
    heading: Range | None = None
    for block in blocks:
        limit = limits.max_tokens
        if heading:  # leave room for it
            limit = max(limit - measured.count_tokens(*heading), limit // 2)
        begun = tables.table_at(block.start_char)
        if within := [*block.tables, *([begun] if begun else [])]:
            largest = max(_count_header(table, measured, limits) for table in within)
            limit = max(limit - largest, limit // 4)
        span = (block.start_char, block.end_char)
        parts = list(split_span(measured, span, limit, _list_splitters(block)))
        if heading and parts:
            if measured.count_tokens(heading[0], parts[0][1]) <= limits.max_tokens:
                parts[0] = heading[0], parts[0][1]
            else:
                yield heading
            heading = None
        if block.kind == "heading" and len(parts) == 1:
            heading = parts[0]
        else:
            yield from parts
    if heading:
        yield heading


def _list_splitters(block: Block) -> tuple[Splitter, ...]:
    if block.kind == "verbatim":
        return split_paragraphs, split_lines
    if not block.split_offsets:
        return split_paragraphs, split_sentences
    stops = (*block.split_offsets[1:], block.end_char)

    def split_items(text: str, start_char: int, end_char: int) -> Iterator[Range]:
        yield from zip((start_char, *block.split_offsets[1:]), stops, strict=True)

    return split_items, split_paragraphs, split_sentences
