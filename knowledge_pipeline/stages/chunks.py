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
from knowledge_pipeline.chunking.commits import message_end
from knowledge_pipeline.config.settings import SourceConfig, sanitize_of
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.records import SPACE_BEFORE, Chunk, Document, Tokenize, digest, embedded_text
from knowledge_pipeline.relations import mentions as relations
from knowledge_pipeline.relations.mentions import (
    Mention,
    mentions_in,
    mentions_of_front_matter,
    mentions_told,
    most_telling,
)
from knowledge_pipeline.relations.names import Ground, names_of
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.sources.web_location import host_of, place
from knowledge_pipeline.stages.context import Pass, Stats, measured
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.reconcile import difference, fingerprints, reconcile
from knowledge_pipeline.store.tables import Table, portions

_COMMIT_DOCUMENTS = 256

_COLUMNS = ("symbol", "symbol_kind", "section", "page")  # metadata with a column of its own
_UNSHARED = frozenset({"page_starts", "segments", "original"})
"""Document metadata that is for the chunkers alone, or holds the document itself, unsanitized."""


def refresh(this: Pass) -> Stats:
    """Bring the chunks of one source up to date with its snapshot."""
    snapshot = this.lake.snapshot(this.source.type, this.source.id)
    table = this.lake.chunks(this.source.type, this.source.id)
    with measured("chunks", this.source.id) as stats:
        desired = _desired(this, snapshot)
        planned = difference(desired, fingerprints(table, "uri", "fingerprint"), full=this.full)
        if planned:
            cutting = _Cutting(this, snapshot, table, desired, stats)
            reconcile(table, planned, cutting.batches, group="uri")
        stats.seen = len(desired)
        stats.count(planned)
        stats.skipped = Counter(table.rows(["skipped"], ~is_null("skipped"))["skipped"].to_pylist())
        stats.rows, stats.version = table.count(is_null("skipped")), table.version
    return stats


def _desired(this: Pass, snapshot: Table) -> dict[str, str]:
    space = open_embedder(this.settings.embedding_of(this.source)).space
    cutter = digest(
        chunking.fingerprint(this.source, model_tokens=space.max_tokens, tokenizer=space.name),
        sanitizing.fingerprint(sanitize_of(this.source)),
        relations.VERSION,
        str(_ground(this.source)),
    )
    rows = snapshot.rows(["uri", "content_hash", "archived_at"], is_null("skipped"))
    columns = (rows[name].to_pylist() for name in ("uri", "content_hash", "archived_at"))
    return {
        uri: digest(hash_, str(gone is not None), cutter) for uri, hash_, gone in zip(*columns, strict=True)
    }


class _Cutting:
    """Makes the chunk rows of chosen documents and counts what it met."""

    def __init__(
        self, this: Pass, snapshot: Table, table: Table, desired: dict[str, str], stats: Stats
    ) -> None:
        self._this, self._snapshot, self._table = this, snapshot, table
        self._desired, self._stats = desired, stats
        embedder = open_embedder(this.settings.embedding_of(this.source))
        self._tokenize: Tokenize = embedder.tokenizer()
        self._model_tokens = embedder.space.max_tokens

    def batches(self, uris: list[str]) -> Iterator[pa.RecordBatch]:
        done = 0
        for portion in portions(uris, _COMMIT_DOCUMENTS):
            made: list[dict[str, Any]] = []
            for found in self._snapshot.rows_of("uri", portion, self._snapshot.schema.names):
                for stored in found.to_pylist():
                    made.extend(self._rows(stored))
                    done += 1
                    self._this.report("chunks", done, len(uris))
            yield pa.RecordBatch.from_pylist(made, schema=self._table.schema)

    def _rows(self, stored: dict[str, Any]) -> list[dict[str, Any]]:
        base = {name: stored[name] for name in ("uri", "path", "language", "url", "author")}
        base["title"] = sanitizing.sanitize(stored["title"] or "", sanitize_of(self._this.source)).text
        base["last_modified"] = stored["last_modified"]
        base["archived"] = stored["archived_at"] is not None
        base["fingerprint"] = self._desired[stored["uri"]]
        metadata = json.loads(stored["metadata"])
        pages = _pages(stored["text"], metadata)
        clean = [sanitizing.sanitize(page, sanitize_of(self._this.source)) for page in pages]
        found = sum((Counter(page.found) for page in clean), Counter[str]())
        self._stats.found.update(found)
        if any(page.dropped for page in clean):
            return [_note(base, f"dropped by the sanitizer: {', '.join(sorted(found))}")]
        text = "".join(page.text for page in clean)
        if "page_starts" in metadata:
            metadata["page_starts"] = list(accumulate((len(page.text) for page in clean[:-1]), initial=0))
        document = Document(**_known(stored | base), text=text, metadata=metadata)
        chunks = self._cut(document)
        told = (metadata.get("note"), *(chunk.metadata.get("note") for chunk in chunks[:1]))
        self._stats.notes.update({note for note in told if note})
        self._stats.tokens += sum(chunk.tokens for chunk in chunks)
        shared = {key: value for key, value in metadata.items() if key not in _UNSHARED}
        related = _Related(_ground(self._this.source, base["path"]), document, shared, chunks)
        return _chunk_rows(self._this.source.id, base, shared, related) or [_note(base, "no text")]

    def _cut(self, document: Document) -> list[Chunk]:
        return chunking.chunk_document(
            document, self._this.source, tokenize=self._tokenize, model_tokens=self._model_tokens
        )


def _pages(text: str, metadata: dict[str, Any]) -> list[str]:
    """The text page by page, because redacting moves the start of every later page."""
    starts: list[int] = metadata.get("page_starts") or [0]
    return [text[start:end] for start, end in zip([0, *starts[1:]], [*starts[1:], None], strict=True)]


def _known(stored: dict[str, Any]) -> dict[str, Any]:
    names = ("uri", "path", "title", "language", "url", "author", "last_modified")
    return {name: stored[name] for name in names}


def _note(base: dict[str, Any], reason: str) -> dict[str, Any]:
    empty = Chunk(base["uri"], "", 0, 0, 1, 1, "", "", 0)
    return _chunk_row(base, {}, empty, id_=digest("no chunk", base["uri"])) | {"skipped": reason}


def _ground(source: SourceConfig, path: str = "") -> Ground:
    """Where a document of a source stands: what short names in it mean."""
    return Ground(source.id, source.type, path, repo=place(source).repo, host=host_of(source))


class _Related:
    """The chunks of a document with what each says of other documents."""

    def __init__(
        self, ground: Ground, document: Document, shared: dict[str, Any], chunks: list[Chunk]
    ) -> None:
        self.chunks, self._ground = chunks, ground
        known = {**shared, **chunks[0].metadata} if chunks else shared
        self._names = names_of(ground, document.uri, url=document.url, title=document.title, metadata=known)
        matter = known.get("front_matter")
        told = mentions_of_front_matter(matter, ground) if isinstance(matter, dict) else []
        self._told = [*mentions_told(shared, ground), *told]
        is_commit = ground.source_type == "git_history"  # whose diffs quote what other documents say
        self._end_char = message_end(document.text) if is_commit else len(document.text)

    def metadata(self, chunk: Chunk) -> dict[str, Any]:
        """Names of the document, and what the chunk mentions; the changed files are the first one's."""
        leads = chunk is self.chunks[0]
        told = [each for each in self._told if leads or each.kind != "changes"]
        said = chunk.text[: max(0, self._end_char - chunk.start_char)]
        links = chunk.metadata.get("links", ()) if chunk.end_char <= self._end_char else ()
        found = _others([*told, *mentions_in(said, self._ground, links)], self._names)
        mentions = [each.as_json() for each in found]
        return {"names": self._names, "mentions": mentions, **({"leads": True} if leads else {})}


def _others(mentions: list[Mention], own: list[str]) -> list[Mention]:
    """What is not the document itself, each once."""
    return most_telling(each for each in mentions if each.name not in own)


def _chunk_rows(
    source: str, base: dict[str, Any], shared: dict[str, Any], related: _Related
) -> list[dict[str, Any]]:
    """Rows of one document. An id is made of source, place in the structure, and content.

    Only chunks that agree in all of that are told apart by their order.
    """
    twins: Counter[tuple[str, str]] = Counter()
    rows: list[dict[str, Any]] = []
    for chunk in related.chunks:
        twin = (chunk.anchor, chunk.text)
        id_ = digest(source, chunk.uri, *twin, str(twins[twin]))
        twins[twin] += 1
        rows.append(_chunk_row(base, shared | related.metadata(chunk), chunk, id_=id_))
    return rows


def _chunk_row(base: dict[str, Any], shared: dict[str, Any], chunk: Chunk, *, id_: str) -> dict[str, Any]:
    metadata = {**shared, **chunk.metadata}
    if chunk.space_before:
        metadata[SPACE_BEFORE] = chunk.space_before
    row = {
        **base,
        "id": id_,
        "title": metadata.pop("title", None) or base["title"],
        "anchor": chunk.anchor,
        "start_char": chunk.start_char,
        "end_char": chunk.end_char,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "tokens": chunk.tokens,
        "header": chunk.header,
        "text": chunk.text,
        "content_hash": digest(chunk.text),
        "text_key": digest(embedded_text(chunk.header, chunk.text)),
        **{name: metadata.pop(name, None) for name in _COLUMNS},
        "metadata": json.dumps(metadata, sort_keys=True, default=str),
        "skipped": None,
    }
    row["row_hash"] = digest(*(f"{name}={row[name]}" for name in sorted(row) if name != "fingerprint"))
    return row
