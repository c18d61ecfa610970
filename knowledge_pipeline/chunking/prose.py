"""Windows, sentences and paragraphs as chunks; where the text has headings, they are named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge_pipeline.chunking.base import Limits, Measured, Span
from knowledge_pipeline.chunking.headings import Outline, heading_anchor, heading_header
from knowledge_pipeline.chunking.pack import pack, split_span, windows
from knowledge_pipeline.chunking.sentences import Range, paragraphs, sentences
from knowledge_pipeline.config.settings import Chunking

VERSION = 1


def chunk_fixed_size(measured: Measured, chunking: Chunking, limits: Limits) -> Iterator[Span]:
    """Windows of at most `max_tokens` that overlap; a word is cut only if it alone is too long."""
    end_char = len(measured.document.text)
    found = windows(measured, 0, end_char, limits.max_tokens, limits.overlap_tokens)
    return _headed(measured, chunking, found)


def chunk_sentences(measured: Measured, chunking: Chunking, limits: Limits) -> Iterator[Span]:
    """Whole sentences, packed, the last ones repeated; a sentence is cut only if it alone is too long."""
    text = measured.document.text
    found = (
        piece
        for sentence in sentences(text, 0, len(text))
        for piece in split_span(measured, sentence, limits.max_tokens, ())
    )
    return _headed(measured, chunking, _packed(found, measured, limits))


def chunk_paragraphs(measured: Measured, chunking: Chunking, limits: Limits) -> Iterator[Span]:
    """Whole paragraphs, packed; one that alone is too long is cut into sentences."""
    text = measured.document.text
    found = (
        piece
        for paragraph in paragraphs(text, 0, len(text))
        for piece in split_span(measured, paragraph, limits.max_tokens, (sentences,))
    )
    return _headed(measured, chunking, _packed(found, measured, limits))


def _packed(found: Iterable[Range], measured: Measured, limits: Limits) -> Iterator[Range]:
    return pack(found, limit=limits.max_tokens, size=measured.tokens, overlap=limits.overlap_tokens)


def _headed(measured: Measured, chunking: Chunking, found: Iterable[Range]) -> Iterator[Span]:
    outline = Outline(measured.document, chunking.max_section_depth)
    for start, end in found:
        trail = outline.trail(start)
        yield Span(start, end, heading_anchor(trail), heading_header(measured.document, trail))
