"""Chunks: spans of a source's documents. Key: uri; fingerprint: document, chunker, sanitizer.

A document without chunks leaves one row with the reason, so that it is not cut again at every refresh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from knowledge_pipeline.chunking import registry as chunking
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.sources.source import SourceConfig, resolve_sanitize
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.relations import mentions as relations
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.stages.chunk_rows import (
    ChunkedDocuments,
    ChunkRowBuilder,
    build_name_scope,
    flip_archived,
)
from knowledge_pipeline.stages.context import RefreshContext, Stats, measure_stage
from knowledge_pipeline.stages.worker_pool import WorkerPool
from knowledge_pipeline.store.changes.change_tracker import ChangeTracker
from knowledge_pipeline.store.filters import Filter, is_null, one_of
from knowledge_pipeline.store.reconcile import load_fingerprints, plan_changes, reconcile
from knowledge_pipeline.store.tables import Table, split_batches

_DOCUMENTS_PER_COMMIT = 256
_DOCUMENTS_PER_PORTION = 32  # cut by one process at a time
MIN_DOCUMENTS = 400  # fewer are cut before the processes have started: a second and a half
MAX_PROCESSES = 8  # of 200 MB each

Portion = tuple[list[dict[str, Any]], dict[str, str]]
"""Documents, and the fingerprint of each by its uri."""


def refresh(ctx: RefreshContext) -> Stats:
    """Bring the chunks of one source up to date with its snapshot."""
    snapshot = ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    table = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    with measure_stage("chunks", ctx.source.id) as stats:
        chunker = _compute_chunker_digest(ctx)
        digest = hash_strings(chunker, chunking.fingerprint_languages())
        tracker = ChangeTracker(
            ctx.lake, ctx.source.id, "chunks", digest, [snapshot, table], forget=ctx.options.full
        )
        changed = tracker.find_changed_values("uri", "uri")
        where = None if changed is None else one_of("uri", sorted(changed))
        documents = _load_documents(snapshot, where)
        desired = {uri: _compute_fingerprint(each, chunker) for uri, each in documents.items()}
        actual = load_fingerprints(table, "uri", "fingerprint", where)
        plan = plan_changes(desired, actual, full=ctx.options.full)
        if changed is not None:
            others = snapshot.count_rows(is_null("skipped")) - len(desired)
            plan = replace(plan, unchanged=plan.unchanged + others)
        if plan:
            kept = [uri for uri in plan.changed if actual[uri] == _flip_archived(documents[uri], chunker)]
            builder = _ChunkBatchBuilder(ctx, snapshot, table, desired, stats)
            builder.kept = frozenset(() if ctx.options.full else kept)
            reconcile(table, plan, builder.build_batches, group_column="uri")
            ctx.upkeep.tend(table)
        tracker.remember(has_written=bool(plan))
        stats.seen = len(plan.keys_to_write) + plan.unchanged
        stats.add_plan(plan)
        stats.skipped = Counter(table.read_rows(["skipped"], ~is_null("skipped")).to_pydict()["skipped"])
        stats.rows, stats.version = table.count_rows() - stats.skipped.total(), table.version
    return stats


def _compute_chunker_digest(ctx: RefreshContext) -> str:
    """Of everything that decides how documents are cut."""
    space = open_embedder(ctx.settings.resolve_embedding(ctx.source)).space
    return hash_strings(
        chunking.fingerprint(ctx.source, model_tokens=space.max_tokens, tokenizer=space.name),
        sanitizing.fingerprint(resolve_sanitize(ctx.source)),
        relations.VERSION,
        build_name_scope(ctx.source).fingerprint(),
    )


def _load_documents(snapshot: Table, where: Filter | None) -> dict[str, dict[str, Any]]:
    """What decides the chunks of the documents that match, by uri."""
    readable = is_null("skipped")
    names = ["uri", "content_hash", "archived_at", "language"]
    rows = snapshot.read_rows(names, where & readable if where else readable).to_pylist()
    return {row["uri"]: row for row in rows}


def _compute_fingerprint(document: dict[str, Any], chunker: str) -> str:
    """The fingerprint of a document's chunks."""
    return hash_strings(
        document["content_hash"],
        str(document["archived_at"] is not None),
        chunker,
        *chunking.fingerprint_language(document["language"]),
    )


def _flip_archived(document: dict[str, Any], chunker: str) -> str:
    """The fingerprint that its chunks had before it was archived, or while it was."""
    other = None if document["archived_at"] is not None else datetime.now(UTC)
    return _compute_fingerprint({**document, "archived_at": other}, chunker)


class _ChunkBatchBuilder:
    """Builds the chunk rows of chosen documents; many are cut by a process for each core."""

    kept: frozenset[str] = frozenset()  # documents that are archived, or are no more, and otherwise the same

    def __init__(
        self, ctx: RefreshContext, snapshot: Table, table: Table, fingerprints: dict[str, str], stats: Stats
    ) -> None:
        self._ctx, self._snapshot, self._table = ctx, snapshot, table
        self._fingerprints, self._stats = fingerprints, stats

    def build_batches(self, uris: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some documents; each batch is one commit."""
        cut = _CutDocuments(self._ctx.source, self._ctx.settings.resolve_embedding(self._ctx.source))
        to_cut = [uri for uri in uris if uri not in self.kept]
        portions = self._iter_portions(to_cut)
        done, waiting = 0, list[pa.RecordBatch]()
        with WorkerPool("cuts documents", max_processes=MAX_PROCESSES) as pool:
            is_shared = len(to_cut) >= MIN_DOCUMENTS
            chunked = pool.map(cut, portions, _describe_portion) if is_shared else map(cut, portions)
            since_commit = 0
            for portion in chain(self._iter_kept(uris), chunked):
                self._stats.found.update(portion.found)
                self._stats.notes.update(portion.notes)
                self._stats.tokens += portion.tokens
                done, since_commit = done + portion.documents, since_commit + portion.documents
                self._ctx.report("chunks", done, len(uris))
                waiting.append(portion.rows)
                if since_commit >= _DOCUMENTS_PER_COMMIT:
                    yield _concat(waiting)
                    waiting, since_commit = [], 0
            if waiting:
                yield _concat(waiting)

    def _iter_kept(self, uris: list[str]) -> Iterator[ChunkedDocuments]:
        """The stored rows of documents that need not be cut again."""
        for keys in split_batches((uri for uri in uris if uri in self.kept), _DOCUMENTS_PER_COMMIT):
            found = pa.concat_tables(self._table.iter_rows_by_values("uri", keys, self._table.schema.names))
            rows = flip_archived(found.to_pylist(), self._fingerprints)
            yield ChunkedDocuments(len(keys), rows, Counter(), Counter(), 0)

    def _iter_portions(self, uris: list[str]) -> Iterator[Portion]:
        """Rows of the snapshot, and the fingerprints of theirs."""
        for keys in split_batches(uris, _DOCUMENTS_PER_COMMIT):
            found = self._snapshot.iter_rows_by_values("uri", keys, self._snapshot.schema.names)
            documents = [row for table in found for row in table.to_pylist()]
            for start in range(0, len(documents), _DOCUMENTS_PER_PORTION):
                rows = documents[start : start + _DOCUMENTS_PER_PORTION]
                yield rows, {row["uri"]: self._fingerprints[row["uri"]] for row in rows}


@dataclass
class _CutDocuments:
    """Cuts portions of documents; a process makes its builder with the first."""

    source: SourceConfig
    embedding: EmbeddingSettings

    def __call__(self, portion: Portion) -> ChunkedDocuments:
        return self._builder.build(*portion)

    @cached_property
    def _builder(self) -> ChunkRowBuilder:
        return ChunkRowBuilder(self.source, self.embedding)


def _describe_portion(portion: Portion) -> str:
    first, more = portion[0][0]["uri"], len(portion[0]) - 1
    return f"{first!r} or one of the {more} after it" if more else repr(first)


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
