"""Chunks: spans of a source's documents. Key: uri; fingerprint: document, chunker, sanitizer.

Rows are the same in whichever process they are built. A document without chunks leaves one row with the
reason, so that it is not cut again at every refresh.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from knowledge_pipeline import relations
from knowledge_pipeline.chunking import registry as chunking
from knowledge_pipeline.chunking.conversation import find_message_end
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.sources import SourceConfig, resolve_sanitize
from knowledge_pipeline.connectors.registry import build_web_location
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.records import (
    SPACE_BEFORE_KEY,
    Chunk,
    Document,
    Tokenize,
    build_embedded_text,
    hash_each,
    hash_strings,
)
from knowledge_pipeline.relations import (
    DocumentContext,
    extract_front_matter_mentions,
    extract_mentions,
    extract_metadata_mentions,
    keep_most_specific,
    list_names,
)
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.sanitizing.sanitize import SanitizerFailed
from knowledge_pipeline.stages.context import RefreshContext, Stats, measure_stage
from knowledge_pipeline.stages.worker_pool import WorkerPool
from knowledge_pipeline.store.file_cache import Kind
from knowledge_pipeline.store.filters import is_null, one_of
from knowledge_pipeline.store.held_terms import ChangeTracker
from knowledge_pipeline.store.reconcile import load_fingerprints, plan_changes, reconcile
from knowledge_pipeline.store.schemas import CHUNKS
from knowledge_pipeline.store.tables import Table, split_batches
from knowledge_pipeline.text import is_object

if TYPE_CHECKING:
    from knowledge_pipeline.chunking.coverage import CoverageReport

_METADATA_COLUMNS = ("symbol", "symbol_kind", "section", "page")  # metadata with a column of its own
_CHUNKER_ONLY_METADATA = frozenset({"page_starts", "segments", "original", "specification"})
"""Document metadata that only chunkers use, or that holds the unsanitized document."""


_MAX_NAMED_DOCUMENTS, _MAX_NAME_CHARS = 3, 80  # of a note


@dataclass(slots=True)
class DocumentNotes:
    """What is noted of documents: of how many, and which are the first ones by name."""

    counts: Counter[str] = field(default_factory=Counter[str])
    names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, note: str, name: str) -> None:
        """Note something of one document."""
        self._add(note, 1, [name])

    def add_all(self, others: DocumentNotes) -> None:
        """Take over what is noted of other documents."""
        for note, count in others.counts.items():
            self._add(note, count, others.names[note])

    def _add(self, note: str, count: int, names: list[str]) -> None:
        self.counts[note] += count
        self.names[note] = sorted([*self.names.get(note, ()), *names])[:_MAX_NAMED_DOCUMENTS]

    def describe(self) -> Counter[str]:
        """Each note with the names: "not valid UTF-8 at 2 places (a.txt, b.txt, c.txt and 4 more)"."""
        described = Counter[str]()
        for note, count in self.counts.items():
            names = ", ".join(map(_shorten_name, self.names[note]))
            more = f" and {count - _MAX_NAMED_DOCUMENTS:,} more" if count > _MAX_NAMED_DOCUMENTS else ""
            described[f"{note} ({names}{more})"] = count
        return described


def _shorten_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME_CHARS else f"…{name[-_MAX_NAME_CHARS:]}"


@dataclass(frozen=True, slots=True)
class ChunkedDocuments:
    """The chunk rows of some documents, and what was counted while they were cut."""

    documents: int
    rows: pa.RecordBatch  # by the schema of the table
    findings: Counter[str]  # secrets and personal data, by kind
    notes: DocumentNotes
    tokens: int


_DOCUMENT_COLUMNS = ("uri", "path", "language", "url", "author", "last_modified")


class ChunkRowBuilder:
    """Cuts the documents of a source."""

    def __init__(
        self, source: SourceConfig, embedding: EmbeddingSettings, coverage: CoverageReport | None = None
    ) -> None:
        embedder = open_embedder(embedding)
        self._source, self._coverage = source, coverage
        self._tokenize: Tokenize = embedder.tokenizer()
        self._model_tokens = embedder.space.max_tokens
        self._found, self._notes, self._tokens = Counter[str](), DocumentNotes(), 0

    def build(self, documents: Sequence[dict[str, Any]], fingerprints: Mapping[str, str]) -> ChunkedDocuments:
        """The rows of some documents, which are rows of the snapshot; `fingerprints` are theirs, by uri."""
        self._found, self._notes, self._tokens = Counter[str](), DocumentNotes(), 0
        rows = [
            row for document in documents for row in self._build_rows(document, fingerprints[document["uri"]])
        ]
        batch = pa.RecordBatch.from_pylist(rows, schema=CHUNKS)
        return ChunkedDocuments(len(documents), batch, self._found, self._notes, self._tokens)

    def _build_rows(self, document_row: dict[str, Any], fingerprint: str) -> list[dict[str, Any]]:
        try:
            return self._build_sanitized_rows(document_row, fingerprint)
        except SanitizerFailed as error:  # nothing of a text that nobody has looked through is kept
            fields = {name: document_row[name] for name in _DOCUMENT_COLUMNS}
            archived = document_row["archived_at"] is not None
            columns = fields | {"title": "", "fingerprint": fingerprint, "archived": archived}
            return [_skip_row(columns, str(error))]

    def _build_sanitized_rows(self, document_row: dict[str, Any], fingerprint: str) -> list[dict[str, Any]]:
        source, sanitize_settings = self._source, resolve_sanitize(self._source)
        fields: dict[str, Any] = {name: document_row[name] for name in _DOCUMENT_COLUMNS}
        fields["title"] = sanitizing.sanitize(document_row["title"] or "", sanitize_settings).text
        archived = document_row["archived_at"] is not None
        columns = fields | {"archived": archived, "fingerprint": fingerprint}
        metadata = json.loads(document_row["metadata"])
        # Page by page, because redaction moves the start of every later page.
        starts: list[int] = [0, *(metadata.get("page_starts") or [0])[1:]]
        texts = [document_row["text"][start:end] for start, end in pairwise([*starts, None])]
        pages = [sanitizing.sanitize(text, sanitize_settings) for text in texts]
        findings = sum((Counter(page.findings_by_kind) for page in pages), Counter[str]())
        self._found.update(findings)
        if any(page.dropped for page in pages):
            return [_skip_row(columns, f"dropped by the sanitizer: {', '.join(sorted(findings))}")]
        if "page_starts" in metadata:
            metadata["page_starts"] = list(accumulate((len(page.text) for page in pages[:-1]), initial=0))
        if references := metadata.get("specification", {}).get("references"):  # of other files
            for reference, value in references.items():
                references[reference] = sanitizing.sanitize(value, sanitize_settings).text
        document = Document(**fields, text="".join(page.text for page in pages), metadata=metadata)
        chunks = chunking.chunk_document(
            document,
            source,
            tokenize=self._tokenize,
            model_tokens=self._model_tokens,
            coverage=self._coverage,
        )
        notes = (metadata.get("note"), *(chunk.metadata.get("note") for chunk in chunks[:1]))
        for note in {note for note in notes if note}:
            self._notes.add(note, fields["path"] or fields["uri"])
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
        metadata = {**shared, **chunks[0].metadata} if chunks else shared
        self._document_names = list_names(
            scope, document.uri, url=document.url, title=document.title, metadata=metadata
        )
        matter = metadata.get("front_matter")
        in_front_matter = extract_front_matter_mentions(matter, scope) if is_object(matter) else []
        self._document_mentions = [*extract_metadata_mentions(shared, scope), *in_front_matter]
        is_commit = scope.source_type == "git_history"  # its diff quotes other documents
        self._mentions_end_char = find_message_end(document.text) if is_commit else len(document.text)

    def build_metadata(self, chunk: Chunk) -> dict[str, Any]:
        """Names of the document, and what the chunk mentions; only the first chunk has the changed files."""
        leads = chunk is self._chunks[0]
        of_document = [it for it in self._document_mentions if leads or it.kind != "changes"]
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
        coverage = _load_coverage(ctx)  # one that cannot be read is refused before any work
        chunker = _compute_chunker_digest(ctx)
        digest = hash_strings(chunker, chunking.fingerprint_languages())
        tracker = ChangeTracker(
            ctx.lake, ctx.source.id, "chunks", digest, [snapshot, table], forget=ctx.options.full
        )
        changed = tracker.find_changed_values("uri", "uri")
        where = None if changed is None else one_of("uri", sorted(changed))
        readable, columns = is_null("skipped"), ["uri", "content_hash", "archived_at", "language"]
        rows = snapshot.read_rows(columns, where & readable if where else readable).to_pylist()
        documents: dict[str, dict[str, Any]] = {row["uri"]: row for row in rows}
        fingerprints = _compute_fingerprints(rows, chunker)
        desired = {uri: fingerprints[uri] for uri in documents}
        actual = load_fingerprints(table, "uri", "fingerprint", where)
        plan = plan_changes(desired, actual, full=ctx.options.full)
        if changed is not None:
            others = snapshot.count_rows(readable) - len(desired)
            plan = replace(plan, unchanged=plan.unchanged + others)
        ctx.require_few(len(plan.keys_to_write))
        if plan:
            kept = [uri for uri in plan.changed if actual[uri] == _flip_archived(documents[uri], chunker)]
            embedding = ctx.settings.resolve_embedding(ctx.source)
            cut = _CutDocuments(ctx.source, embedding, coverage if ctx.source.metadata.code else None)
            builder = _ChunkBatchBuilder(ctx, snapshot, table, desired, stats, cut)
            builder.kept = frozenset(() if ctx.options.full else kept)
            reconcile(table, plan, builder.build_batches, group_column="uri")
            stats.notes = builder.notes.describe()
            ctx.upkeep.tend(table)
        tracker.remember(has_written=bool(plan))
        stats.seen = len(plan.keys_to_write) + plan.unchanged
        stats.add_plan(plan)
        stats.skipped = Counter(table.read_rows(["skipped"], ~is_null("skipped")).to_pydict()["skipped"])
        stats.rows, stats.version = table.count_rows() - stats.skipped.total(), table.version
    return stats


def cut_rows(ctx: RefreshContext, documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that documents, which are rows of the snapshot, are cut into now."""
    coverage = _load_coverage(ctx) if ctx.source.metadata.code else None
    builder = ChunkRowBuilder(ctx.source, ctx.settings.resolve_embedding(ctx.source), coverage)
    fingerprints = _compute_fingerprints(documents, _compute_chunker_digest(ctx))
    return builder.build(documents, fingerprints).rows.to_pylist()


_COVERAGE = Kind["tuple[tuple[int, int], CoverageReport]"](lambda _: 1 << 20)


def _load_coverage(ctx: RefreshContext) -> CoverageReport | None:
    """The coverage report that a source names, read anew when size or time of the file changed."""
    if (path := ctx.source.metadata.coverage) is None:
        return None
    status = path.stat() if path.is_file() else None
    stamp = (status.st_mtime_ns, status.st_size) if status else (0, 0)
    return ctx.lake.files.load(_COVERAGE, str(path), None, stamp, lambda: chunking.read_coverage(path))


def _compute_chunker_digest(ctx: RefreshContext) -> str:
    """Of everything that decides how documents are cut."""
    space = open_embedder(ctx.settings.resolve_embedding(ctx.source)).space
    return hash_strings(
        chunking.fingerprint(ctx.source, model_tokens=space.max_tokens, tokenizer=space.name),
        sanitizing.fingerprint(resolve_sanitize(ctx.source)),
        relations.VERSION,
        build_name_scope(ctx.source).fingerprint(),
    )


def _compute_fingerprints(documents: Iterable[dict[str, Any]], chunker: str) -> dict[str, str]:
    """By uri; those of one language together."""
    groups = defaultdict[tuple[bool, str | None], dict[str, str]](dict)
    for document in documents:
        group = groups[document["archived_at"] is not None, document["language"]]
        group[document["uri"]] = document["content_hash"]
    fingerprints = dict[str, str]()
    for (archived, language), hashes in groups.items():
        own = chunking.fingerprint_language(language)
        fingerprints |= zip(hashes, hash_each(hashes.values(), str(archived), chunker, *own), strict=True)
    return fingerprints


def _flip_archived(document: dict[str, Any], chunker: str) -> str:
    """The fingerprint that its chunks had before it was archived, or while it was."""
    other = None if document["archived_at"] is not None else datetime.now(UTC)
    return _compute_fingerprints([{**document, "archived_at": other}], chunker)[document["uri"]]


class _ChunkBatchBuilder:
    """Builds the chunk rows of chosen documents; many are cut by a process for each core."""

    kept: frozenset[str] = frozenset()  # documents that are archived, or are no more, and otherwise the same

    def __init__(
        self,
        ctx: RefreshContext,
        snapshot: Table,
        table: Table,
        fingerprints: dict[str, str],
        stats: Stats,
        cut: _CutDocuments,
    ) -> None:
        self._ctx, self._snapshot, self._table = ctx, snapshot, table
        self._fingerprints, self._stats, self._cut = fingerprints, stats, cut
        self.notes = DocumentNotes()

    def build_batches(self, uris: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some documents; each batch is one commit."""
        to_cut = [uri for uri in uris if uri not in self.kept]
        portions = self._iter_portions(to_cut)
        done, waiting = 0, list[pa.RecordBatch]()
        with WorkerPool("cuts documents", max_processes=MAX_PROCESSES) as pool:
            is_shared = len(to_cut) >= MIN_DOCUMENTS
            chunked = (
                pool.map(self._cut, portions, _describe_portion) if is_shared else map(self._cut, portions)
            )
            since_commit = 0
            for portion in chain(self._iter_kept(uris), chunked):
                self._stats.found.update(portion.findings)
                self.notes.add_all(portion.notes)
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
            stored = pa.concat_tables(self._table.iter_rows_by_values("uri", keys, self._table.schema.names))
            rows = flip_archived(stored.to_pylist(), self._fingerprints)
            yield ChunkedDocuments(len(keys), rows, Counter(), DocumentNotes(), 0)

    def _iter_portions(self, uris: list[str]) -> Iterator[Portion]:
        """Rows of the snapshot, and the fingerprints of theirs."""
        for keys in split_batches(uris, _DOCUMENTS_PER_COMMIT):
            tables = self._snapshot.iter_rows_by_values("uri", keys, self._snapshot.schema.names)
            documents = [row for table in tables for row in table.to_pylist()]
            for start in range(0, len(documents), _DOCUMENTS_PER_PORTION):
                rows = documents[start : start + _DOCUMENTS_PER_PORTION]
                yield rows, {row["uri"]: self._fingerprints[row["uri"]] for row in rows}


@dataclass
class _CutDocuments:
    """Cuts portions of documents; a process makes its builder with the first."""

    source: SourceConfig
    embedding: EmbeddingSettings
    coverage: CoverageReport | None

    def __call__(self, portion: Portion) -> ChunkedDocuments:
        return self._builder.build(*portion)

    @cached_property
    def _builder(self) -> ChunkRowBuilder:
        return ChunkRowBuilder(self.source, self.embedding, self.coverage)


def _describe_portion(portion: Portion) -> str:
    first, more = portion[0][0]["uri"], len(portion[0]) - 1
    return f"{first!r} or one of the {more} after it" if more else repr(first)


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
