"""Cuts a document as its source's settings say, and describes its chunks: chunkers, limits, extractors."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from knowledge_pipeline.chunking.base import (
    Chunker,
    HeadingOutline,
    MeasuredDocument,
    TokenLimits,
    find_title,
    has_headings,
    is_rendered_notebook,
)
from knowledge_pipeline.chunking.blocks import drop_blobs, parse_front_matter, to_bounded_json
from knowledge_pipeline.config.sources import ChunkingSettings, ChunkingStrategy, SourceConfig
from knowledge_pipeline.contract.filters import NAMESPACE_PREFIX
from knowledge_pipeline.errors import ConfigError, DocumentSkipped
from knowledge_pipeline.file_languages import GRAPH_LANGUAGES, PARSED_LANGUAGES, is_code
from knowledge_pipeline.plugins import load_plugin
from knowledge_pipeline.records import Chunk, Document, Metadata, Tokenize, build_embedded_text, is_branch_tag
from knowledge_pipeline.text import is_list

if TYPE_CHECKING:
    from knowledge_pipeline.chunking.coverage import CoverageReport


MAX_HEADER_TOKENS = 48
"""Room kept for the header; a chunk that needs less than its share leaves it more."""

VERSION = 5

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
    "semantic": _ChunkerEntry("prose", "chunk_semantic", min_tokens=64),
    "ast_aware": _ChunkerEntry("code", "chunk_code", min_tokens=64),
    "lines": _ChunkerEntry("pack", "chunk_lines"),
    "notebook": _ChunkerEntry("conversation", "chunk_notebook", min_tokens=64),
    "endpoint": _ChunkerEntry("openapi", "chunk_endpoints", max_tokens=1024, min_tokens=32),
    "commit": _ChunkerEntry("conversation", "chunk_commit"),
    "conversation": _ChunkerEntry("conversation", "chunk_conversation"),
}
_CHUNKER_VERSIONS = (
    ("prose", "VERSION"), ("prose", "SEMANTIC_VERSION"), ("code", "VERSION"), ("pack", "VERSION"),
    ("openapi", "VERSION"), ("conversation", "COMMITS_VERSION"), ("conversation", "VERSION"),
)  # fmt: skip
"""Where each chunker's version stands; their order is part of every fingerprint."""

_LANGUAGE_VERSIONS = dict.fromkeys((PARSED_LANGUAGES - GRAPH_LANGUAGES) | {"notebook"}, 1)
"""Raised whenever a file in one of these languages would be cut or described differently."""

_DEFAULT_CHUNKERS: dict[str, _ChunkerName] = {
    "code": "ast_aware",
    "openapi": "endpoint",
    "git_history": "commit",
    **dict.fromkeys(("github_pr", "github_issues", "discussions", "jira", "slack"), "conversation"),
    **dict.fromkeys(("markdown", "releases", "confluence", "archive", "table"), "semantic"),
    **dict.fromkeys(("snippets", "files", "custom", "push"), "sentence"),
}


def chunk_document(
    document: Document,
    source: SourceConfig,
    *,
    tokenize: Tokenize,
    model_tokens: int,
    coverage: CoverageReport | None = None,
) -> list[Chunk]:
    """Cut a document as its source's settings say; any text but white space gives at least one chunk.

    A document that its chunker refuses (an invalid OpenAPI file) is cut in the next best way, and
    each chunk's `metadata["note"]` holds the reason. Minified code and encoded data are left out, but
    for a first chunk where there is nothing else.

    Args:
        tokenize: the tokenizer of the source's embedding model.
        model_tokens: how much that model reads of one text; caps the default limits.
        coverage: what `read_coverage` returned.

    Raises:
        ConfigError: a custom extractor cannot be loaded.
    """
    if not document.text or document.text.isspace():
        return []
    measured = MeasuredDocument(document, tokenize)
    chunks, total, note = _run_chunkers(measured, source, model_tokens)
    chunks = _truncate_headers(chunks, total, tokenize)
    return list(add_metadata(chunks, document, source, note, coverage))


def fingerprint(source: SourceConfig, *, model_tokens: int, tokenizer: str) -> str:
    """Changes whenever `chunk_document` could cut or describe the same document differently.

    `tokenizer` is a name that changes with it. Raises ConfigError as `chunk_document` does.
    """
    versions = [VERSION, EXTRACTORS_VERSION, DOCUMENT_METADATA_VERSION]
    for module, name in _CHUNKER_VERSIONS:
        versions.append(getattr(importlib.import_module(f"knowledge_pipeline.chunking.{module}"), name))
    coverage = source.metadata.coverage
    inputs = {
        "versions": versions,
        "type": source.type,
        "chunking": source.chunking.to_json(),
        "metadata": source.metadata.model_dump(mode="json", exclude={"coverage"}),
        "model_tokens": model_tokens,
        "tokenizer": tokenizer,
        "coverage": hashlib.sha256(coverage.read_bytes()).hexdigest() if coverage else "",
        "custom": [
            load_plugin("extractor", name, key=_EXTRACTOR_KEY).fingerprint for name in source.metadata.custom
        ],
    }
    if source.chunking.custom:
        plugin = load_plugin("chunker", source.chunking.custom, key=_CHUNKER_KEY)
        inputs["custom_chunker"] = plugin.fingerprint
    if source.type == "archive":  # whose tags were once lost beside those of the source
        inputs["own_tags"] = 1
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def fingerprint_language(language: str | None) -> tuple[str, ...]:
    """What the fingerprint of a document has beside its source's: none, or how its language is cut.

    Languages cut by syntax since the first version add nothing: a new one has only its own files cut again.
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
        chunks, problem = _run_custom_chunker(source.chunking.custom, measured, source.chunking, limits)
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
        if chunks := [chunk for chunk in chunks if chunk.text.strip()]:
            if name in ("endpoint", "commit", "conversation"):  # which are kept whole
                return chunks, total, "; ".join(notes)
            # compact JSON says what it says without spaces
            language = measured.document.language
            is_data = language in ("json", "notebook") or source.type == "openapi"
            kept = drop_blobs(chunks, measured.document.text, language, may_be_compact=is_data)
            notes += [_BLOB_NOTE] if len(kept) < len(chunks) else []
            return kept, total, "; ".join(notes)
    return [], 0, "; ".join(notes)


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
    if source.type in ("snippets", "files", "custom", "push") or "attached_to" in document.metadata:
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


_CHUNKER_KEY, _EXTRACTOR_KEY = "chunking.custom", "metadata.custom"
_MAX_CHUNKS = 100_000  # of one document


def _run_custom_chunker(
    name: str, measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> tuple[list[Chunk], str]:
    """The chunks of a document, or none and the reason, so that it is cut in another way."""
    chunker: Chunker = load_plugin("chunker", name, key=_CHUNKER_KEY).value
    try:
        spans = list(islice(chunker(measured, chunking, limits), _MAX_CHUNKS))
        length = len(measured.document.text)
        for span in spans:
            if not 0 <= span.start_char < span.end_char <= length:
                raise ValueError(f"[{span.start_char}, {span.end_char}) is no span of {length} characters")
        chunks = [measured.build_chunk(span) for span in spans]
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - a foreign function's fault must not lose the document
        return [], f"not cut by {name!r}: {type(error).__name__}: {error}"[:300]
    filled = [chunk for chunk in chunks if chunk.text.strip()]
    return filled, "" if filled else f"not cut by {name!r}: it gave no chunk"


EXTRACTORS_VERSION = 1


def add_metadata(
    chunks: Iterable[Chunk],
    document: Document,
    source: SourceConfig,
    note: str,
    coverage: CoverageReport | None,
) -> Iterator[Chunk]:
    """The chunks with their metadata; `note` says what was unusual about the document, "" if nothing was."""
    settings, is_prose = source.metadata, source.type != "code" or not is_code(document.language)
    extractor = DocumentMetadataExtractor(document) if settings.documents and is_prose else None
    for chunk in chunks:
        custom, notes = _run_custom_extractors(settings.custom, document, chunk)
        metadata = _select_chunker_metadata(chunk, source, document.path, coverage)
        if settings.standard:
            metadata |= {"source_type": source.type, "file_path": document.path}
        if extractor:
            metadata |= extractor.extract(chunk)
        document_tags = extractor.tags if extractor else ()
        own_tags = [
            tag
            for tag in (*document.metadata.get("tags", ()), *chunk.metadata.get("tags", ()), *document_tags)
            if not str(tag).startswith(NAMESPACE_PREFIX)  # a document joins no namespace by itself
        ]
        reserved = [tag for tag in own_tags if is_branch_tag(tag)]
        own_tags = [tag for tag in own_tags if tag not in reserved]
        notes += [
            f"the tag {tag!r} is left out: it is one of branches"[:100] for tag in dict.fromkeys(reserved)
        ]
        if tags := list(dict.fromkeys([*settings.tags, *own_tags])):
            metadata["tags"] = tags
        metadata |= custom
        if remarks := [str(remark) for remark in (note, chunk.metadata.get("note"), *notes) if remark]:
            metadata["note"] = "; ".join(remarks)
        yield replace(chunk, metadata=metadata)


def _select_chunker_metadata(
    chunk: Chunk, source: SourceConfig, path: str, coverage: CoverageReport | None
) -> dict[str, Any]:
    """The metadata that the chunker gave, with test coverage; without the code switch, nothing about code."""
    if not source.metadata.code:
        from knowledge_pipeline.chunking.code import CODE_METADATA_KEYS

        return {key: value for key, value in chunk.metadata.items() if key not in CODE_METADATA_KEYS}
    share = coverage.share_of_lines(path, chunk.start_line, chunk.end_line) if coverage else None
    return {**chunk.metadata, **({} if share is None else {"test_coverage": share})}


def read_coverage(path: Path) -> CoverageReport:
    """The coverage report that a source names; raises ConfigError."""
    from knowledge_pipeline.chunking.coverage import CoverageReport

    return CoverageReport.read(path)


DOCUMENT_METADATA_VERSION = 2

_MAX_LINKS = 50
_MAX_TAGS = 50
_MAX_LINK_CHARS = 1000
_LINK = re.compile(
    r"\]\(\s{0,9}<?([^\s<>()]+(?:\([^\s<>()]*\)[^\s<>()]*)*)"  # [text](target)
    r"|^ {0,3}\[[^\]\n]{1,999}\]:[ \t]{0,99}<?([^\s<>]+)"  # [label]: target
    r"|`[^`<>\n]{0,999}<([^<>`\s]+)>`_"  # `text <target>`_ of reStructuredText
    r"|\b(https?://[^\s<>\"'`\[\](){}|\\^]+)",
    re.MULTILINE,
)


class DocumentMetadataExtractor:
    """Extracts a chunk's place in its document: title, section, links, tags, page."""

    def __init__(self, document: Document) -> None:
        self._outline = HeadingOutline(document)
        page_starts: Any = document.metadata.get("page_starts", ())
        self._page_starts = sorted(int(start) for start in page_starts)
        self._front_matter: Metadata = parse_front_matter(document.text) if has_headings(document) else {}
        # an attachment's own title says which document it hangs on
        self._title = "" if "attached_to" in document.metadata else find_title(document)
        self.tags = _parse_tags(self._front_matter)

    def extract(self, chunk: Chunk) -> Metadata:
        """Metadata of one chunk; unknown facts are left out.

        The section is that of the chunk's first character, else of a heading in it; `sections` are this one
        and those that begin in the chunk, where they are several.
        """
        facts: dict[str, Any] = {}
        section = self._outline.section_at(chunk.start_char) or self._outline.section_at(chunk.end_char - 1)
        if section is not None:
            facts |= {"section": section.trail[-1], "header_level": section.level}
            facts["parent_section"] = section.trail[-2] if len(section.trail) > 1 else ""
            inside = self._outline.sections_within(chunk.start_char, chunk.end_char)
            headings = dict.fromkeys(within.trail[-1] for within in (section, *inside))
            facts["sections"] = list(headings) if len(headings) > 1 else []
        facts["title"] = self._title
        facts["links"] = extract_links(chunk.text)
        facts["front_matter"] = self._front_matter
        if self._page_starts:
            facts["page"] = max(1, bisect_right(self._page_starts, chunk.start_char))
        return {key: fact for key, fact in facts.items() if fact not in ("", [], {})}


def extract_links(text: str) -> list[str]:
    """The targets of a text's links, each once, in order; at most 50."""
    links: dict[str, None] = {}
    for match in _LINK.finditer(text):
        target = (match[1] or match[2] or match[3] or match[4].rstrip(".,;:!?*_")).strip()
        if target and len(target) <= _MAX_LINK_CHARS:
            links[target] = None
        if len(links) == _MAX_LINKS:
            break
    return list(links)


def _parse_tags(metadata: Metadata) -> list[str]:
    """Tags and keywords of front matter, whether listed or written with commas."""
    tags: dict[str, None] = {}
    for key in ("tags", "keywords"):
        value = metadata.get(key)
        listed = value.split(",") if isinstance(value, str) else value
        for tag in listed if is_list(listed) else []:
            if isinstance(tag, str | int) and str(tag).strip():
                tags[str(tag).strip()] = None
    return list(tags)[:_MAX_TAGS]


CustomExtractor = Callable[[Document, Chunk], Mapping[str, Any] | None]
"""Returns further metadata of a chunk; None and {} add nothing."""

_MAX_VALUES = 500


def _run_custom_extractors(
    names: Sequence[str], document: Document, chunk: Chunk
) -> tuple[Metadata, list[str]]:
    """The metadata that extractors add to a chunk, and a note for each one that failed; later ones win."""
    metadata: dict[str, Any] = {}
    notes: list[str] = []
    for name in names:
        extract: CustomExtractor = load_plugin("extractor", name, key=_EXTRACTOR_KEY).value
        try:
            added = extract(document, chunk)
            if added is not None and not isinstance(added, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"it returned {type(added).__name__} instead of a mapping or None")
            metadata |= to_bounded_json(added or {}, max_values=_MAX_VALUES)
        except Exception as error:  # noqa: BLE001 - a foreign function's fault must not lose the chunk
            notes.append(f"the metadata extractor {name} failed: {type(error).__name__}: {error}"[:300])
    return metadata, notes
