"""Chunks: spans of a source's documents. Key: uri; fingerprint: document, chunker, sanitizer.

A document that gives no chunk leaves one row that says why, so that it is not cut again
at every refresh.
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
from knowledge_pipeline.records import (
    SPACE_BEFORE_KEY,
    Chunk,
    Document,
    Mention,
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
"""Document metadata that is for the chunkers alone, or holds the document itself, unsanitized."""


def refresh(ctx: RefreshContext) -> Stats:
    """Bring the chunks of one source up to date with its snapshot."""
    snapshot = ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    table = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    with measure_stage("chunks", ctx.source.id) as stats:
        desired = _desired_fingerprints(ctx, snapshot)
        planned = plan_changes(desired, load_fingerprints(table, "uri", "fingerprint"), full=ctx.full)
        if planned:
            cutting = _ChunkRowBuilder(ctx, snapshot, table, desired, stats)
            reconcile(table, planned, cutting.build_batches, group_column="uri")
        stats.seen = len(desired)
        stats.add_plan(planned)
        stats.skipped = Counter(table.read_rows(["skipped"], ~is_null("skipped"))["skipped"].to_pylist())
        stats.rows, stats.version = table.count_rows(is_null("skipped")), table.version
    return stats


def _desired_fingerprints(ctx: RefreshContext, snapshot: Table) -> dict[str, str]:
    space = open_embedder(ctx.settings.resolve_embedding(ctx.source)).space
    cutter = hash_strings(
        chunking.fingerprint(ctx.source, model_tokens=space.max_tokens, tokenizer=space.name),
        sanitizing.fingerprint(resolve_sanitize(ctx.source)),
        relations.VERSION,
        _build_name_scope(ctx.source).fingerprint(),
    )
    rows = snapshot.read_rows(["uri", "content_hash", "archived_at"], is_null("skipped"))
    columns = (rows[name].to_pylist() for name in ("uri", "content_hash", "archived_at"))
    return {
        uri: hash_strings(hash_, str(gone is not None), cutter)
        for uri, hash_, gone in zip(*columns, strict=True)
    }


class _ChunkRowBuilder:
    """Makes the chunk rows of chosen documents and counts what it met."""

    def __init__(
        self, ctx: RefreshContext, snapshot: Table, table: Table, desired: dict[str, str], stats: Stats
    ) -> None:
        self._ctx, self._snapshot, self._table = ctx, snapshot, table
        self._desired, self._stats = desired, stats
        embedder = open_embedder(ctx.settings.resolve_embedding(ctx.source))
        self._tokenize: Tokenize = embedder.tokenizer()
        self._model_tokens = embedder.space.max_tokens

    def build_batches(self, uris: list[str]) -> Iterator[pa.RecordBatch]:
        done = 0
        for portion in split_batches(uris, _DOCUMENTS_PER_COMMIT):
            made: list[dict[str, Any]] = []
            for found in self._snapshot.iter_rows_by_values("uri", portion, self._snapshot.schema.names):
                for stored in found.to_pylist():
                    made.extend(self._build_rows(stored))
                    done += 1
                    self._ctx.report("chunks", done, len(uris))
            yield pa.RecordBatch.from_pylist(made, schema=self._table.schema)

    def _build_rows(self, document_row: dict[str, Any]) -> list[dict[str, Any]]:
        base = {name: document_row[name] for name in ("uri", "path", "language", "url", "author")}
        base["title"] = sanitizing.sanitize(
            document_row["title"] or "", resolve_sanitize(self._ctx.source)
        ).text
        base["last_modified"] = document_row["last_modified"]
        base["archived"] = document_row["archived_at"] is not None
        base["fingerprint"] = self._desired[document_row["uri"]]
        metadata = json.loads(document_row["metadata"])
        pages = _split_pages(document_row["text"], metadata)
        clean = [sanitizing.sanitize(page, resolve_sanitize(self._ctx.source)) for page in pages]
        found = sum((Counter(page.findings_by_kind) for page in clean), Counter[str]())
        self._stats.found.update(found)
        if any(page.dropped for page in clean):
            return [_skip_row(base, f"dropped by the sanitizer: {', '.join(sorted(found))}")]
        text = "".join(page.text for page in clean)
        if "page_starts" in metadata:
            metadata["page_starts"] = list(accumulate((len(page.text) for page in clean[:-1]), initial=0))
        document = Document(**_document_fields(document_row | base), text=text, metadata=metadata)
        chunks = self._chunk_document(document)
        told = (metadata.get("note"), *(chunk.metadata.get("note") for chunk in chunks[:1]))
        self._stats.notes.update({note for note in told if note})
        self._stats.tokens += sum(chunk.tokens for chunk in chunks)
        shared = {key: value for key, value in metadata.items() if key not in _CHUNKER_ONLY_METADATA}
        related = _ChunkRelations(_build_name_scope(self._ctx.source, base["path"]), document, shared, chunks)
        return _build_chunk_rows(self._ctx.source.id, base, shared, related) or [_skip_row(base, "no text")]

    def _chunk_document(self, document: Document) -> list[Chunk]:
        return chunking.chunk_document(
            document, self._ctx.source, tokenize=self._tokenize, model_tokens=self._model_tokens
        )


def _split_pages(text: str, metadata: dict[str, Any]) -> list[str]:
    """The text page by page, because redacting moves the start of every later page."""
    starts: list[int] = metadata.get("page_starts") or [0]
    return [text[start:end] for start, end in zip([0, *starts[1:]], [*starts[1:], None], strict=True)]


def _document_fields(document_row: dict[str, Any]) -> dict[str, Any]:
    names = ("uri", "path", "title", "language", "url", "author", "last_modified")
    return {name: document_row[name] for name in names}


def _skip_row(document_columns: dict[str, Any], reason: str) -> dict[str, Any]:
    empty = Chunk(document_columns["uri"], "", 0, 0, 1, 1, "", "", 0)
    return _build_chunk_row(
        document_columns, {}, empty, id_=hash_strings("no chunk", document_columns["uri"])
    ) | {"skipped": reason}


def _build_name_scope(source: SourceConfig, path: str = "") -> DocumentContext:
    """Where a document of a source stands: what short names in it mean."""
    return DocumentContext(
        source.id, source.type, path, repo=build_web_location(source).repo, host=source.connection.host
    )


class _ChunkRelations:
    """The chunks of a document with what each says of other documents."""

    def __init__(
        self, scope: DocumentContext, document: Document, shared: dict[str, Any], chunks: list[Chunk]
    ) -> None:
        self.chunks, self._scope = chunks, scope
        known = {**shared, **chunks[0].metadata} if chunks else shared
        self._document_names = list_names(
            scope, document.uri, url=document.url, title=document.title, metadata=known
        )
        matter = known.get("front_matter")
        told = extract_front_matter_mentions(matter, scope) if isinstance(matter, dict) else []
        self._document_mentions = [*extract_metadata_mentions(shared, scope), *told]
        is_commit = scope.source_type == "git_history"  # whose diffs quote what other documents say
        self._mentions_end_char = find_message_end(document.text) if is_commit else len(document.text)

    def build_metadata(self, chunk: Chunk) -> dict[str, Any]:
        """Names of the document, and what the chunk mentions; the changed files are the first one's."""
        leads = chunk is self.chunks[0]
        told = [each for each in self._document_mentions if leads or each.kind != "changes"]
        said = chunk.text[: max(0, self._mentions_end_char - chunk.start_char)]
        links = chunk.metadata.get("links", ()) if chunk.end_char <= self._mentions_end_char else ()
        found = _drop_self_mentions(
            [*told, *extract_mentions(said, self._scope, links)], self._document_names
        )
        mentions = [each.as_json() for each in found]
        return {"names": self._document_names, "mentions": mentions, **({"leads": True} if leads else {})}


def _drop_self_mentions(mentions: list[Mention], own_names: list[str]) -> list[Mention]:
    """What is not the document itself, each once."""
    return keep_most_specific(each for each in mentions if each.name not in own_names)


def _build_chunk_rows(
    source: str,
    document_columns: dict[str, Any],
    document_metadata: dict[str, Any],
    relations_by_chunk: _ChunkRelations,
) -> list[dict[str, Any]]:
    """Rows of one document. An id is made of source, place in the structure, and content.

    Only chunks that agree in all of that are told apart by their order.
    """
    twins: Counter[tuple[str, str]] = Counter()
    rows: list[dict[str, Any]] = []
    for chunk in relations_by_chunk.chunks:
        twin = (chunk.anchor, chunk.text)
        id_ = hash_strings(source, chunk.uri, *twin, str(twins[twin]))
        twins[twin] += 1
        rows.append(
            _build_chunk_row(
                document_columns, document_metadata | relations_by_chunk.build_metadata(chunk), chunk, id_=id_
            )
        )
    return rows


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
