"""From a document and its source's settings to chunks: picks the chunker, the limits and the extractors."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

from knowledge_pipeline.chunking.base import Chunker, Limits, Measured, Span
from knowledge_pipeline.chunking.custom_extractors import extractor_identity
from knowledge_pipeline.chunking.headings import has_headings
from knowledge_pipeline.chunking.metadata_extractors import with_metadata
from knowledge_pipeline.config.settings import Chunking, SourceConfig, Strategy
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.languages import GRAMMARS, is_code
from knowledge_pipeline.records import Chunk, Document, Tokenize, embedded_text

HEADER_TOKENS = 48
"""Room kept for the header; a chunk that needs less than its share leaves it more."""

VERSION = 2

_Way = Strategy | Literal["lines"]


@dataclass(frozen=True, slots=True)
class _Entry:
    module: str  # imported when it is needed: not every process cuts code or OpenAPI
    function: str
    max_tokens: int = 512
    min_tokens: int = 0
    overlap_tokens: int = 0


_WAYS: dict[_Way, _Entry] = {
    "fixed_size": _Entry("prose", "chunk_fixed_size", overlap_tokens=64),
    "sentence": _Entry("prose", "chunk_sentences", max_tokens=1000, overlap_tokens=200),
    "paragraph": _Entry("prose", "chunk_paragraphs"),
    "semantic": _Entry("semantic", "chunk_semantic", min_tokens=64),
    "ast_aware": _Entry("code.chunk", "chunk_code", min_tokens=64),
    "lines": _Entry("lines", "chunk_lines"),
    "endpoint": _Entry("openapi.chunk", "chunk_endpoints", max_tokens=1024, min_tokens=32),
    "commit": _Entry("commits", "chunk_commit"),
    "conversation": _Entry("conversation", "chunk_conversation"),
}
_DEFAULTS: dict[str, _Way] = {
    "code": "ast_aware",
    "markdown": "semantic",
    "openapi": "endpoint",
    "git_history": "commit",
    "github_pr": "conversation",
    "github_issues": "conversation",
    "jira": "conversation",
    "confluence": "semantic",
    "slack": "conversation",
    "files": "sentence",
    "archive": "semantic",
}


def chunk_document(
    document: Document, source: SourceConfig, *, tokenize: Tokenize, model_tokens: int
) -> list[Chunk]:
    """Cut a document as its source's settings say; at least one chunk for any text that is not white.

    A document that its chunker cannot take (an unparsable OpenAPI file) is cut in the
    next best way, and the reason is in each chunk's `metadata["note"]`.

    Args:
        tokenize: the tokenizer of the source's embedding model.
        model_tokens: what that model reads of one text; caps the default limits.

    Raises:
        ConfigError: a custom extractor or the coverage report cannot be loaded.
    """
    if not document.text or document.text.isspace():
        return []
    measured = Measured(document, tokenize)
    chunks, total, note = _cut(measured, source, model_tokens)
    chunks = _with_fitting_headers(chunks, total, tokenize)
    return list(with_metadata(chunks, document, source, note))


def fingerprint(source: SourceConfig, *, model_tokens: int, tokenizer: str) -> str:
    """Changes whenever `chunk_document` could cut or describe the same document otherwise.

    Args:
        tokenizer: a name that changes with the tokenizer.

    Raises:
        ConfigError: a custom extractor or the coverage report cannot be read.
    """
    coverage = source.metadata.coverage
    known = {
        "versions": _versions(),
        "type": source.type,
        "chunking": source.chunking.model_dump(mode="json"),
        "metadata": source.metadata.model_dump(mode="json", exclude={"coverage"}),
        "model_tokens": model_tokens,
        "tokenizer": tokenizer,
        "coverage": _content_hash(source) if coverage else "",
        "custom": [extractor_identity(name) for name in source.metadata.custom],
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def limits_of(way: _Way, chunking: Chunking, model_tokens: int) -> tuple[Limits, int]:
    """The limits of a chunk's text, and the limit of text and header together.

    A limit in the config is honoured even where the model reads less; a default is not
    larger than what the model reads, and its overlap shrinks with it.
    """
    entry = _WAYS[way]
    total = chunking.max_tokens or max(16, min(entry.max_tokens, model_tokens))
    max_tokens = total - min(HEADER_TOKENS, total // 3)
    overlap, least = chunking.overlap_tokens, chunking.min_tokens
    if overlap is None:
        overlap = entry.overlap_tokens * total // entry.max_tokens
    if least is None:
        least = entry.min_tokens
    return Limits(max_tokens, min(least, max_tokens // 2), min(overlap, max_tokens // 2)), total


def _cut(measured: Measured, source: SourceConfig, model_tokens: int) -> tuple[list[Chunk], int, str]:
    """The chunks, the limit of each with its header, and why another way than the first was taken."""
    notes: list[str] = []
    for way in _ways(measured.document, source):
        limits, total = limits_of(way, source.chunking, model_tokens)
        try:
            chunks = list(_chunks(measured, _chunker(way)(measured, source.chunking, limits)))
        except (DocumentSkipped, RecursionError) as error:
            reason = str(error) if isinstance(error, DocumentSkipped) else "it is nested too deep"
            notes.append(f"not cut by {way!r}: {reason}")
            continue
        if chunks:
            return chunks, total, "; ".join(notes)
    limits, total = limits_of("fixed_size", source.chunking, model_tokens)
    spans = _chunker("fixed_size")(measured, source.chunking, limits)
    return list(_chunks(measured, spans)), total, "; ".join(notes)


def _ways(document: Document, source: SourceConfig) -> Iterator[_Way]:
    """How to cut a document, best first."""
    first = source.chunking.strategy or _default(document, source)
    if first == "ast_aware" and document.language not in GRAMMARS:
        first = "semantic" if has_headings(document) else "lines"
    yield first
    if first in ("commit", "conversation"):
        yield "paragraph"
    elif first != "lines":
        yield "semantic" if has_headings(document) and first != "semantic" else "lines"


def _default(document: Document, source: SourceConfig) -> _Way:
    if source.type == "files":
        if document.language in GRAMMARS or (is_code(document.language) and not has_headings(document)):
            return "ast_aware"
        return "semantic" if has_headings(document) else "sentence"
    if source.type == "archive" and document.metadata.get("segments"):
        return "conversation"
    if source.type == "code" and document.language == "text":
        return "paragraph"
    return _DEFAULTS[source.type]


def _chunker(way: _Way) -> Chunker:
    entry = _WAYS[way]
    module = importlib.import_module(f"knowledge_pipeline.chunking.{entry.module}")
    return cast("Chunker", getattr(module, entry.function))


def _chunks(measured: Measured, spans: Iterable[Span]) -> Iterator[Chunk]:
    for span in spans:
        chunk = measured.chunk(span)
        if chunk.text and not chunk.text.isspace():
            yield chunk


def _with_fitting_headers(chunks: Iterable[Chunk], total: int, tokenize: Tokenize) -> Iterator[Chunk]:
    """Cut a header at its end where header and text together exceed the limit."""
    token_starts: dict[str, list[int]] = {}
    for chunk in chunks:
        if chunk.header not in token_starts:
            token_starts[chunk.header] = list(tokenize(embedded_text(chunk.header, "")))
        starts, room = token_starts[chunk.header], max(0, total - chunk.tokens)
        fits = len(starts) <= room
        yield chunk if fits else replace(chunk, header=chunk.header[: starts[room]].rstrip())


def _versions() -> list[int]:
    modules = ("registry", "metadata_extractors", "document_metadata", *{e.module: 0 for e in _WAYS.values()})
    found = (importlib.import_module(f"knowledge_pipeline.chunking.{name}") for name in modules)
    return [int(module.VERSION) for module in found]  # one without a version is a mistake


def _content_hash(source: SourceConfig) -> str:
    from knowledge_pipeline.chunking.metadata_extractors import coverage_of

    coverage_of(source)  # a report that cannot be read is refused here, before any work
    path = source.metadata.coverage
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else ""
