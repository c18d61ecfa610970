"""Windows, sentences and paragraphs as chunks; headings name them where the text has some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.headings import HeadingOutline, build_heading_header, format_heading_anchor
from knowledge_pipeline.chunking.pack import pack_to_limits, split_span, split_windows
from knowledge_pipeline.chunking.sentences import Range, split_paragraphs, split_sentences
from knowledge_pipeline.config.sources.chunking import ChunkingSettings

VERSION = 1


def chunk_fixed_size(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Windows of at most `max_tokens` that overlap; a word is cut only if it alone is too long."""
    end_char = len(measured.document.text)
    found = split_windows(measured, 0, end_char, limits.max_tokens, limits.overlap_tokens)
    return _build_spans(measured, chunking, found)


def chunk_sentences(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Whole sentences, packed, the last ones repeated; a sentence is cut only if it alone is too long."""
    text = measured.document.text
    sentences = split_sentences(text, 0, len(text))
    parts = (part for each in sentences for part in split_span(measured, each, limits.max_tokens, ()))
    return _build_spans(measured, chunking, pack_to_limits(parts, measured, limits))


def chunk_paragraphs(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Whole paragraphs, packed; one that alone is too long is cut into sentences."""
    text = measured.document.text
    found = (
        part
        for paragraph in split_paragraphs(text, 0, len(text))
        for part in split_span(measured, paragraph, limits.max_tokens, (split_sentences,))
    )
    return _build_spans(measured, chunking, pack_to_limits(found, measured, limits))


def _build_spans(
    measured: MeasuredDocument, chunking: ChunkingSettings, ranges: Iterable[Range]
) -> Iterator[ChunkSpan]:
    outline = HeadingOutline(measured.document, chunking.max_section_depth)
    for start, end in ranges:
        trail = outline.trail_at(start)
        header = build_heading_header(measured.document, trail)
        yield ChunkSpan(start, end, format_heading_anchor(trail), header)
