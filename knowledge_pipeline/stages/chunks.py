"""Chunks: spans of a source's documents. Key: uri; fingerprint: document, chunker, sanitizer.

A document without chunks leaves one row with the reason, so that it is not cut again at every refresh.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pyarrow as pa

from knowledge_pipeline.chunking import registry as chunking
from knowledge_pipeline.chunking.commits import find_message_end
from knowledge_pipeline.config.settings import SourceConfig, resolve_sanitize
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
from knowledge_pipeline.relations import mentions as relations
from knowledge_pipeline.relations.mentions import (
    extract_front_matter_mentions,
    extract_mentions,
    extract_metadata_mentions,
    keep_most_specific,
)
from knowledge_pipeline.relations.names import DocumentContext, list_names
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.sources.web_location import build_web_location
from knowledge_pipeline.stages.context import RefreshContext, Stats, measure_stage
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.reconcile import load_fingerprints, plan_changes, reconcile
from knowledge_pipeline.store.tables import Table, split_batches

_DOCUMENTS_PER_COMMIT = 256

_METADATA_COLUMNS = ("symbol", "symbol_kind", "section", "page")  # metadata with a column of its own
_CHUNKER_ONLY_METADATA = frozenset({"page_starts", "segments", "original"})
"""Document metadata that only chunkers use, or that holds the unsanitized document."""


def refresh(ctx: RefreshContext) -> Stats:
    """Bring the chunks of one source up to date with its snapshot."""
    snapshot = ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    table = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    with measure_stage("chunks", ctx.source.id) as stats:
        desired = _compute_fingerprints(ctx, snapshot)
        plan = plan_changes(desired, load_fingerprints(table, "uri", "fingerprint"), full=ctx.options.full)
        if plan:
            builder = _ChunkRowBuilder(ctx, snapshot, table, desired, stats)
            reconcile(table, plan, builder.build_batches, group_column="uri")
        stats.seen = len(desired)
        stats.add_plan(plan)
        stats.skipped = Counter(table.read_rows(["skipped"], ~is_null("skipped")).to_pydict()["skipped"])
        stats.rows, stats.version = table.count_rows(is_null("skipped")), table.version
    return stats


def _compute_fingerprints(ctx: RefreshContext, snapshot: Table) -> dict[str, str]:
    space = open_embedder(ctx.settings.resolve_embedding(ctx.source)).space
    chunker = hash_strings(
        chunking.fingerprint(ctx.source, model_tokens=space.max_tokens, tokenizer=space.name),
        sanitizing.fingerprint(resolve_sanitize(ctx.source)),
        relations.VERSION,
        _build_name_scope(ctx.source).fingerprint(),
    )
    rows = snapshot.read_rows(["uri", "content_hash", "archived_at"], is_null("skipped"))
    columns = zip(*rows.to_pydict().values(), strict=True)
    return {uri: hash_strings(hash_, str(at is not None), chunker) for uri, hash_, at in columns}


class _ChunkRowBuilder:
    """Builds the chunk rows of chosen documents, and counts findings, notes and tokens."""

    def __init__(
        self, ctx: RefreshContext, snapshot: Table, table: Table, desired: dict[str, str], stats: Stats
    ):
        self._ctx, self._snapshot, self._table, self._desired, self._stats = (
            ctx,
            snapshot,
            table,
            desired,
            stats,
        )
        embedder = open_embedder(ctx.settings.resolve_embedding(ctx.source))
        self._tokenize: Tokenize = embedder.tokenizer()
        self._model_tokens = embedder.space.max_tokens

    def build_batches(self, uris: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some documents; each batch is one commit."""
        done = 0
        for batch in split_batches(uris, _DOCUMENTS_PER_COMMIT):
            rows: list[dict[str, Any]] = []
            for documents in self._snapshot.iter_rows_by_values("uri", batch, self._snapshot.schema.names):
                for document_row in documents.to_pylist():
                    rows.extend(self._build_rows(document_row))
                    done += 1
                    self._ctx.report("chunks", done, len(uris))
            yield pa.RecordBatch.from_pylist(rows, schema=self._table.schema)

    def _build_rows(self, document_row: dict[str, Any]) -> list[dict[str, Any]]:
        source, sanitize_settings = self._ctx.source, resolve_sanitize(self._ctx.source)
        names = ("uri", "path", "language", "url", "author", "last_modified")
        fields: dict[str, Any] = {name: document_row[name] for name in names}
        fields["title"] = sanitizing.sanitize(document_row["title"] or "", sanitize_settings).text
        columns = fields | {
            "archived": document_row["archived_at"] is not None,
            "fingerprint": self._desired[document_row["uri"]],
        }
        metadata = json.loads(document_row["metadata"])
        texts = _split_pages(document_row["text"], metadata)
        pages = [sanitizing.sanitize(text, sanitize_settings) for text in texts]
        findings = sum((Counter(page.findings_by_kind) for page in pages), Counter[str]())
        self._stats.found.update(findings)
        if any(page.dropped for page in pages):
            return [_skip_row(columns, f"dropped by the sanitizer: {', '.join(sorted(findings))}")]
        if "page_starts" in metadata:
            metadata["page_starts"] = list(accumulate((len(page.text) for page in pages[:-1]), initial=0))
        document = Document(**fields, text="".join(page.text for page in pages), metadata=metadata)
        chunks = chunking.chunk_document(
            document, source, tokenize=self._tokenize, model_tokens=self._model_tokens
        )
        notes = (metadata.get("note"), *(chunk.metadata.get("note") for chunk in chunks[:1]))
        self._stats.notes.update({note for note in notes if note})
        self._stats.tokens += sum(chunk.tokens for chunk in chunks)
        shared = {key: value for key, value in metadata.items() if key not in _CHUNKER_ONLY_METADATA}
        related = _ChunkRelations(_build_name_scope(source, fields["path"]), document, shared, chunks)
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


def _build_name_scope(source: SourceConfig, path: str = "") -> DocumentContext:
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
    row["row_hash"] = hash_strings(*(f"{name}={row[name]}" for name in sorted(row) if name != "fingerprint"))
    return row
