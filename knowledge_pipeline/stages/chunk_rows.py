"""Builds the chunk rows of documents: the same in every process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from knowledge_pipeline.chunking import registry as chunking
from knowledge_pipeline.chunking.commits import find_message_end
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.sources.source import SourceConfig, resolve_sanitize
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.records import (
    SPACE_BEFORE_KEY,
    Chunk,
    Document,
    Tokenize,
    build_embedded_text,
    hash_strings,
)
from knowledge_pipeline.relations.mentions import (
    extract_front_matter_mentions,
    extract_mentions,
    extract_metadata_mentions,
    keep_most_specific,
)
from knowledge_pipeline.relations.names import DocumentContext, list_names
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.sanitizing.custom import SanitizerFailed
from knowledge_pipeline.sources.web_location import build_web_location
from knowledge_pipeline.store.schemas import CHUNKS

_METADATA_COLUMNS = ("symbol", "symbol_kind", "section", "page")  # metadata with a column of its own
_CHUNKER_ONLY_METADATA = frozenset({"page_starts", "segments", "original"})
"""Document metadata that only chunkers use, or that holds the unsanitized document."""


@dataclass(frozen=True, slots=True)
class ChunkedDocuments:
    """The chunk rows of some documents, and what was counted while they were cut."""

    documents: int
    rows: pa.RecordBatch  # by the schema of the table
    found: Counter[str]  # secrets and personal data, by kind
    notes: Counter[str]
    tokens: int


_DOCUMENT_COLUMNS = ("uri", "path", "language", "url", "author", "last_modified")


class ChunkRowBuilder:
    """Cuts the documents of a source."""

    def __init__(self, source: SourceConfig, embedding: EmbeddingSettings) -> None:
        embedder = open_embedder(embedding)
        self._source = source
        self._tokenize: Tokenize = embedder.tokenizer()
        self._model_tokens = embedder.space.max_tokens
        self._found, self._notes, self._tokens = Counter[str](), Counter[str](), 0

    def build(self, documents: Sequence[dict[str, Any]], fingerprints: Mapping[str, str]) -> ChunkedDocuments:
        """The rows of some documents, which are rows of the snapshot; `fingerprints` are theirs, by uri."""
        self._found, self._notes, self._tokens = Counter[str](), Counter[str](), 0
        rows = [row for each in documents for row in self._build_rows(each, fingerprints[each["uri"]])]
        batch = pa.RecordBatch.from_pylist(rows, schema=CHUNKS)
        return ChunkedDocuments(len(documents), batch, self._found, self._notes, self._tokens)

    def _build_rows(self, document_row: dict[str, Any], fingerprint: str) -> list[dict[str, Any]]:
        try:
            return self._build_sanitized_rows(document_row, fingerprint)
        except SanitizerFailed as error:  # nothing of a text that nobody has looked through is kept
            fields = {name: document_row[name] for name in _DOCUMENT_COLUMNS} | {
                "title": "",
                "fingerprint": fingerprint,
            }
            return [_skip_row(fields | {"archived": document_row["archived_at"] is not None}, str(error))]

    def _build_sanitized_rows(self, document_row: dict[str, Any], fingerprint: str) -> list[dict[str, Any]]:
        source, sanitize_settings = self._source, resolve_sanitize(self._source)
        fields: dict[str, Any] = {name: document_row[name] for name in _DOCUMENT_COLUMNS}
        fields["title"] = sanitizing.sanitize(document_row["title"] or "", sanitize_settings).text
        columns = fields | {
            "archived": document_row["archived_at"] is not None,
            "fingerprint": fingerprint,
        }
        metadata = json.loads(document_row["metadata"])
        texts = _split_pages(document_row["text"], metadata)
        pages = [sanitizing.sanitize(text, sanitize_settings) for text in texts]
        findings = sum((Counter(page.findings_by_kind) for page in pages), Counter[str]())
        self._found.update(findings)
        if any(page.dropped for page in pages):
            return [_skip_row(columns, f"dropped by the sanitizer: {', '.join(sorted(findings))}")]
        if "page_starts" in metadata:
            metadata["page_starts"] = list(accumulate((len(page.text) for page in pages[:-1]), initial=0))
        document = Document(**fields, text="".join(page.text for page in pages), metadata=metadata)
        chunks = chunking.chunk_document(
            document, source, tokenize=self._tokenize, model_tokens=self._model_tokens
        )
        notes = (metadata.get("note"), *(chunk.metadata.get("note") for chunk in chunks[:1]))
        self._notes.update({note for note in notes if note})
        self._tokens += sum(chunk.tokens for chunk in chunks)
        shared = {key: value for key, value in metadata.items() if key not in _CHUNKER_ONLY_METADATA}
        related = _ChunkRelations(build_name_scope(source, fields["path"]), document, shared, chunks)
        duplicates, rows = Counter[tuple[str, str]](), list[dict[str, Any]]()
        for chunk in chunks:  # the order distinguishes only chunks that are equal in place and content
            key = (chunk.anchor, chunk.text)
            id_ = hash_strings(source.id, chunk.uri, *key, str(duplicates[key]))
            duplicates[key] += 1
            rows.append(_build_chunk_row(columns, shared | related.build_metadata(chunk), chunk, id_=id_))
        return rows or [_skip_row(columns, "no text")]


def _split_pages(text: str, metadata: dict[str, Any]) -> list[str]:
    """The text page by page, because redaction moves the start of every later page."""
    starts: list[int] = metadata.get("page_starts") or [0]
    return [text[start:end] for start, end in zip([0, *starts[1:]], [*starts[1:], None], strict=True)]


def _skip_row(document_columns: dict[str, Any], reason: str) -> dict[str, Any]:
    uri = document_columns["uri"]
    empty, id_ = Chunk(uri, "", 0, 0, 1, 1, "", "", 0), hash_strings("no chunk", uri)
    return _build_chunk_row(document_columns, {}, empty, id_=id_) | {"skipped": reason}


def build_name_scope(source: SourceConfig, path: str = "") -> DocumentContext:
    """The context that gives short names in a document their meaning."""
    return DocumentContext(
        source.id, source.type, path, repo=build_web_location(source).repo, host=source.connection.host
    )


class _ChunkRelations:
    """The chunks of a document, with the other documents that each mentions."""

    def __init__(
        self, scope: DocumentContext, document: Document, shared: dict[str, Any], chunks: list[Chunk]
    ) -> None:
        self._chunks, self._scope = chunks, scope
        known = {**shared, **chunks[0].metadata} if chunks else shared
        self._document_names = list_names(
            scope, document.uri, url=document.url, title=document.title, metadata=known
        )
        matter = known.get("front_matter")
        in_front_matter = extract_front_matter_mentions(matter, scope) if is_object(matter) else []
        self._document_mentions = [*extract_metadata_mentions(shared, scope), *in_front_matter]
        is_commit = scope.source_type == "git_history"  # its diff quotes other documents
        self._mentions_end_char = find_message_end(document.text) if is_commit else len(document.text)

    def build_metadata(self, chunk: Chunk) -> dict[str, Any]:
        """Names of the document, and what the chunk mentions; only the first chunk has the changed files."""
        leads = chunk is self._chunks[0]
        of_document = [each for each in self._document_mentions if leads or each.kind != "changes"]
        text = chunk.text[: max(0, self._mentions_end_char - chunk.start_char)]
        links = chunk.metadata.get("links", ()) if chunk.end_char <= self._mentions_end_char else ()
        mentions = keep_most_specific(
            mention
            for mention in [*of_document, *extract_mentions(text, self._scope, links)]
            if mention.name not in self._document_names
        )
        return {
            "names": self._document_names,
            "mentions": [mention.as_json() for mention in mentions],
            **({"leads": True} if leads else {}),
        }


def _build_chunk_row(
    document_columns: dict[str, Any], shared_metadata: dict[str, Any], chunk: Chunk, *, id_: str
) -> dict[str, Any]:
    metadata = {**shared_metadata, **chunk.metadata}
    if chunk.space_before:
        metadata[SPACE_BEFORE_KEY] = chunk.space_before
    row = {
        **document_columns,
        "id": id_,
        "title": metadata.pop("title", None) or document_columns["title"],
        "anchor": chunk.anchor,
        "start_char": chunk.start_char,
        "end_char": chunk.end_char,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "tokens": chunk.tokens,
        "header": chunk.header,
        "text": chunk.text,
        "content_hash": hash_strings(chunk.text),
        "text_key": hash_strings(build_embedded_text(chunk.header, chunk.text)),
        **{name: metadata.pop(name, None) for name in _METADATA_COLUMNS},
        "metadata": json.dumps(metadata, sort_keys=True, default=str),
        "skipped": None,
    }
    row["row_hash"] = _hash_row(row)
    return row


def _hash_row(row: Mapping[str, Any]) -> str:
    return hash_strings(*(f"{name}={row[name]}" for name in sorted(row) if name != "fingerprint"))


def flip_archived(rows: Sequence[dict[str, Any]], fingerprints: Mapping[str, str]) -> pa.RecordBatch:
    """Stored rows of documents that are archived now, or are no more: they would be cut as they are.

    Args:
        rows: all of these documents.
        fingerprints: their new ones, by uri.
    """
    for row in rows:
        del row["row_hash"]
        row |= {"archived": not row["archived"], "fingerprint": fingerprints[row["uri"]]}
        row["row_hash"] = _hash_row({**row, "skipped": None})  # as before a reason is given
    return pa.RecordBatch.from_pylist(list(rows), schema=CHUNKS)
