"""Cuts a document as its source's settings say: picks the chunker, the limits and the extractors."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from knowledge_pipeline.chunking.base import Chunker, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.blobs import drop_blobs
from knowledge_pipeline.chunking.custom_chunkers import load_chunker, run_custom_chunker
from knowledge_pipeline.chunking.custom_extractors import fingerprint_extractor
from knowledge_pipeline.chunking.headings import has_headings, is_rendered_notebook
from knowledge_pipeline.chunking.metadata_extractors import add_metadata, load_coverage
from knowledge_pipeline.config.sources.chunking import ChunkingSettings, ChunkingStrategy
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.languages import GRAPH_LANGUAGES, PARSED_LANGUAGES, is_code
from knowledge_pipeline.records import Chunk, Document, Tokenize, build_embedded_text

MAX_HEADER_TOKENS = 48
"""Room kept for the header; a chunk that needs less than its share leaves it more."""

VERSION = 3

_BLOB_NOTE = "minified code or encoded data is left out"
_MAX_ADDED_TOKENS = 4  # of the empty line after a header, and of what a tokenizer puts before a text

_ChunkerName = ChunkingStrategy | Literal["lines", "notebook"]


@dataclass(frozen=True, slots=True)
class _ChunkerEntry:
    module: str  # imported when needed: not every process cuts code or OpenAPI
    function: str
    max_tokens: int = 512
    min_tokens: int = 0
    overlap_tokens: int = 0


_CHUNKERS: dict[_ChunkerName, _ChunkerEntry] = {
    "fixed_size": _ChunkerEntry("prose", "chunk_fixed_size", overlap_tokens=64),
    "sentence": _ChunkerEntry("prose", "chunk_sentences", max_tokens=1000, overlap_tokens=200),
    "paragraph": _ChunkerEntry("prose", "chunk_paragraphs"),
    "semantic": _ChunkerEntry("semantic", "chunk_semantic", min_tokens=64),
    "ast_aware": _ChunkerEntry("code.chunk", "chunk_code", min_tokens=64),
    "lines": _ChunkerEntry("lines", "chunk_lines"),
    "notebook": _ChunkerEntry("notebook", "chunk_notebook", min_tokens=64),
    "endpoint": _ChunkerEntry("openapi.chunk", "chunk_endpoints", max_tokens=1024, min_tokens=32),
    "commit": _ChunkerEntry("commits", "chunk_commit"),
    "conversation": _ChunkerEntry("conversation", "chunk_conversation"),
}
_LANGUAGE_VERSIONS = dict.fromkeys((PARSED_LANGUAGES - GRAPH_LANGUAGES) | {"notebook"}, 1)
"""Raised whenever a file in one of these languages would be cut or described differently."""

_DEFAULT_CHUNKERS: dict[str, _ChunkerName] = {
    "code": "ast_aware",
    "markdown": "semantic",
    "openapi": "endpoint",
    "git_history": "commit",
    "github_pr": "conversation",
    "github_issues": "conversation",
    "discussions": "conversation",
    "releases": "semantic",
    "snippets": "sentence",
    "jira": "conversation",
    "confluence": "semantic",
    "slack": "conversation",
    "files": "sentence",
    "archive": "semantic",
    "table": "semantic",
    "custom": "sentence",
}


def chunk_document(
    document: Document, source: SourceConfig, *, tokenize: Tokenize, model_tokens: int
) -> list[Chunk]:
    """Cut a document as its source's settings say; any text but white space gives at least one chunk.

    A document that its chunker refuses (an invalid OpenAPI file) is cut in the next best way, and
    each chunk's `metadata["note"]` holds the reason. Minified code and encoded data are left out, but
    for a first chunk where there is nothing else.

    Args:
        tokenize: the tokenizer of the source's embedding model.
        model_tokens: how much that model reads of one text; caps the default limits.

    Raises:
        ConfigError: a custom extractor or the coverage report cannot be loaded.
    """
    if not document.text or document.text.isspace():
        return []
    measured = MeasuredDocument(document, tokenize)
    chunks, total, note = _run_chunkers(measured, source, model_tokens)
    chunks = _truncate_headers(chunks, total, tokenize)
    return list(add_metadata(chunks, document, source, note))


def fingerprint(source: SourceConfig, *, model_tokens: int, tokenizer: str) -> str:
    """Changes whenever `chunk_document` could cut or describe the same document differently.

    Args:
        tokenizer: a name that changes with the tokenizer.

    Raises:
        ConfigError: a custom extractor or the coverage report cannot be read.
    """
    chunkers = dict.fromkeys(e.module for e in _CHUNKERS.values() if e.module not in _LANGUAGE_VERSIONS)
    modules = ("registry", "metadata_extractors", "document_metadata", *chunkers)
    imported = (importlib.import_module(f"knowledge_pipeline.chunking.{name}") for name in modules)
    load_coverage(source)  # a report that cannot be read is refused here, before any work
    coverage = source.metadata.coverage
    inputs = {
        "versions": [int(module.VERSION) for module in imported],  # a module without one is a mistake
        "type": source.type,
        "chunking": source.chunking.to_json(),
        "metadata": source.metadata.model_dump(mode="json", exclude={"coverage"}),
        "model_tokens": model_tokens,
        "tokenizer": tokenizer,
        "coverage": hashlib.sha256(coverage.read_bytes()).hexdigest() if coverage else "",
        "custom": [fingerprint_extractor(name) for name in source.metadata.custom],
    }
    if source.chunking.custom:
        inputs["custom_chunker"] = load_chunker(source.chunking.custom).fingerprint
    if source.type == "archive":  # whose tags were once lost beside those of the source
        inputs["own_tags"] = 1
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def fingerprint_language(language: str | None) -> tuple[str, ...]:
    """What the fingerprint of a document has beside its source's: none, or how its language is cut.

    Languages that are cut by syntax since the first version have nothing to add, so that a new language,
    or a better query for it, has only its own files cut again.
    """
    version = _LANGUAGE_VERSIONS.get(language or "")
    return () if version is None else (f"{language} {version}",)


def fingerprint_languages() -> str:
    """Changes where `fingerprint_language` gives any language another one."""
    return repr(sorted(_LANGUAGE_VERSIONS.items()))


def compute_limits(
    chunker_name: _ChunkerName, chunking: ChunkingSettings, model_tokens: int
) -> tuple[TokenLimits, int]:
    """The limits of a chunk's text, and the limit of text and header together.

    A limit in the config holds even where the model reads less. A default never exceeds what the
    model reads, and its overlap shrinks with it.
    """
    entry = _CHUNKERS[chunker_name]
    total = chunking.max_tokens or max(16, min(entry.max_tokens, model_tokens))
    max_tokens = total - min(MAX_HEADER_TOKENS, total // 3)
    overlap, min_tokens = chunking.overlap_tokens, chunking.min_tokens
    overlap = entry.overlap_tokens * total // entry.max_tokens if overlap is None else overlap
    min_tokens = entry.min_tokens if min_tokens is None else min_tokens
    return TokenLimits(max_tokens, min(min_tokens, max_tokens // 2), min(overlap, max_tokens // 2)), total


def _run_chunkers(
    measured: MeasuredDocument, source: SourceConfig, model_tokens: int
) -> tuple[list[Chunk], int, str]:
    """The chunks, the limit of each with its header, and why the first chunker was not used."""
    notes: list[str] = []
    if source.chunking.custom:
        limits, total = compute_limits("fixed_size", source.chunking, model_tokens)
        chunks, problem = run_custom_chunker(source.chunking.custom, measured, source.chunking, limits)
        if chunks:
            return chunks, total, ""
        notes += [problem] if problem else []
    names: list[_ChunkerName] = [*_list_chunker_names(measured.document, source), "fixed_size"]
    for name in names:
        limits, total = compute_limits(name, source.chunking, model_tokens)
        entry = _CHUNKERS[name]
        module = importlib.import_module(f"knowledge_pipeline.chunking.{entry.module}")
        chunker: Chunker = getattr(module, entry.function)
        try:
            chunks = [measured.build_chunk(span) for span in chunker(measured, source.chunking, limits)]
        except (DocumentSkipped, RecursionError) as error:
            reason = str(error) if isinstance(error, DocumentSkipped) else "it is nested too deep"
            notes.append(f"not cut by {name!r}: {reason}")
            continue
        if chunks := [chunk for chunk in chunks if chunk.text and not chunk.text.isspace()]:
            kept = _drop_blobs(chunks, name, measured.document, source)
            notes += [_BLOB_NOTE] if len(kept) < len(chunks) else []
            return kept, total, "; ".join(notes)
    return [], 0, "; ".join(notes)


def _drop_blobs(
    chunks: list[Chunk], name: _ChunkerName, document: Document, source: SourceConfig
) -> list[Chunk]:
    """Messages and endpoints are kept whole, and compact JSON says what it says without spaces."""
    if name in ("endpoint", "commit", "conversation"):
        return chunks
    is_data = document.language in ("json", "notebook") or source.type == "openapi"
    return drop_blobs(chunks, document.text, may_be_compact=is_data)


def _list_chunker_names(document: Document, source: SourceConfig) -> Iterator[_ChunkerName]:
    """How to cut a document, best first."""
    first = source.chunking.strategy or _default_chunker_name(document, source)
    if first == "ast_aware" and is_rendered_notebook(document):
        first = "notebook"
    if first == "ast_aware" and document.language not in PARSED_LANGUAGES:
        first = "semantic" if has_headings(document) else "lines"
    yield first
    if first in ("commit", "conversation"):
        yield "paragraph"
    elif first != "lines":
        yield "semantic" if has_headings(document) and first != "semantic" else "lines"


def _default_chunker_name(document: Document, source: SourceConfig) -> _ChunkerName:
    if is_rendered_notebook(document):
        return "notebook"
    if document.language == "notebook" and document.metadata.get("note"):
        return "lines"
    if source.type in ("snippets", "files", "custom") or "attached_to" in document.metadata:
        if document.language in PARSED_LANGUAGES:
            return "ast_aware"
        if has_headings(document):
            return "semantic"
        return "ast_aware" if is_code(document.language) else "sentence"
    if source.type == "archive" and document.metadata.get("segments"):
        return "conversation"
    if source.type == "code" and document.language == "text":
        return "paragraph"
    return _DEFAULT_CHUNKERS[source.type]


def _truncate_headers(chunks: Iterable[Chunk], total: int, tokenize: Tokenize) -> Iterator[Chunk]:
    """Cut a header at its end where header and text together exceed the limit."""
    token_starts: dict[str, list[int]] = {}
    for chunk in chunks:
        room = max(0, total - chunk.tokens)
        if len(chunk.header) + _MAX_ADDED_TOKENS <= room and chunk.header.isascii():
            yield chunk  # without asking: no token is shorter than a character
            continue
        if chunk.header not in token_starts:
            token_starts[chunk.header] = list(tokenize(build_embedded_text(chunk.header, "")))
        starts = token_starts[chunk.header]
        fits = len(starts) <= room
        yield chunk if fits else replace(chunk, header=chunk.header[: starts[room]].rstrip())
