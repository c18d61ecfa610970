"""Index: the retrievable rows of a source, in the table of its space. Key: chunk id.

All sources of the space share the table, so the index lock is held while it is written: one upsert, or a few
where many rows changed, then one delete. Readers of a release do not see the state in between.

Each chunk of a small document carries the words of the whole document, so that full text finds the document
even if a query's words are spread over its chunks. The fingerprint of such a row covers its siblings, too.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.embedding.base import Space
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.identifiers import expand_identifiers
from knowledge_pipeline.records import build_embedded_text, hash_strings
from knowledge_pipeline.sources.web_location import build_web_location
from knowledge_pipeline.stages.context import RefreshContext, Stats, claim_immediately, measure_stage
from knowledge_pipeline.store import indexes, schemas
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.index_payload import build_payload
from knowledge_pipeline.store.reconcile import ReconcilePlan, exclude_keys, plan_changes_arrow, reconcile
from knowledge_pipeline.store.tables import Table, split_batches

VERSION = "2"  # of how a chunk becomes an index row
SMALL_DOCUMENT_CHUNKS = range(2, 5)  # of a small document
_LIVE = is_null("skipped") & eq("archived", False)
_BATCH_ROWS = 1024
SLOT_MIN_ROWS = 1024  # fewer take less time than claiming a slot; the lock keeps the table correct anyway
CHUNK_COLUMNS = [name for name in schemas.build_index_schema(1).names if name in schemas.CHUNKS.names]
CHUNK_COLUMNS.remove("fingerprint")


def refresh(ctx: RefreshContext) -> Stats:
    """Bring the index rows of one source up to date with its chunks and vectors.

    Raises:
        Busy: another process held the index for too long.
        StoreError: a chunk has no vector; run the embeddings stage first.
    """
    space = resolve_space(ctx.settings.resolve_embedding(ctx.source))
    with measure_stage("index", ctx.source.id) as stats:
        plan, duplicate_ids, fingerprints = _plan_index(ctx, space)
        if plan or _find_stale_tables(ctx, space.name):
            claim_slot = claim_immediately if len(plan.keys_to_write) <= SLOT_MIN_ROWS else ctx.claim_slot
            with claim_slot("index"), ctx.lake.lock_index():
                table = ctx.lake.index(space.name, space.dimensions)  # as the last writer left it
                rows = _IndexRowBuilder(ctx, space, table, fingerprints)
                if plan.keys_to_write:
                    rows.require_vectors()
                    table.delete_keys(duplicate_ids)  # an upsert would replace both and leave both
                reconcile(table, plan, rows.build_batches, single_commit=True)
                for stale in _find_stale_tables(ctx, space.name):
                    stale.delete_where(eq("source", ctx.source.id))
                    stale.compact_if_due()
                if plan:
                    indexes.maintain_indexes(table)
        table = ctx.lake.index(space.name, space.dimensions)
        stats.seen = len(plan.keys_to_write) + plan.unchanged
        stats.add_plan(plan)
        stats.rows, stats.version = table.count_rows(eq("source", ctx.source.id)), table.version
    return stats


@dataclass(frozen=True, slots=True)
class _RowFingerprints:
    """The second half of the rows' fingerprints: what decides a row besides its own chunk."""

    source_digest: str  # of the configuration and the code
    small_documents: dict[str, str]  # uri -> digest that also covers all chunks of a small document

    def shares_words(self, uri: str, archived: bool) -> bool:
        """Whether a chunk carries the words of its whole document."""
        return not archived and uri in self.small_documents

    def compute(self, chunks: pa.Table) -> pa.ChunkedArray[Any]:
        """The fingerprints of the index rows of chunks, by their `uri`, `archived` and `row_hash`."""
        uris: Any = pc.dictionary_encode(chunks["uri"].combine_chunks())
        digests = [self.small_documents.get(uri, self.source_digest) for uri in uris.dictionary.to_pylist()]
        live = pa.array(digests, pa.string()).take(uris.indices)
        second_half = pc.if_else(chunks["archived"], self.source_digest, live)
        return pc.binary_join_element_wise(chunks["row_hash"], second_half, "")


def _plan_index(ctx: RefreshContext, space: Space) -> tuple[ReconcilePlan, list[str], _RowFingerprints]:
    """What to write, and the ids that are there twice; nothing changes them without the source's lock."""
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    table = ctx.lake.index(space.name, space.dimensions)
    rows = chunks.read_rows(["id", "uri", "archived", "row_hash"], is_null("skipped"))
    fingerprints = _build_row_fingerprints(rows, build_source_columns(ctx))
    stored = table.read_rows(["id", "fingerprint"], eq("source", ctx.source.id))
    duplicate_ids: list[str] = []  # left by two writers without a common lock: missing, and built again
    if pc.count_distinct(stored["id"]).as_py() < stored.num_rows:
        times: Counter[Any] = Counter(stored["id"].to_pylist())
        duplicate_ids = [id_ for id_ in times if times[id_] > 1]
    is_duplicate = pc.is_in(stored["id"], value_set=pa.array(duplicate_ids, pa.string()))
    stored = stored.filter(pc.invert(is_duplicate))
    desired = rows["id"], fingerprints.compute(rows)
    plan = plan_changes_arrow(desired, (stored["id"], stored["fingerprint"]), full=ctx.options.full)
    return plan, duplicate_ids, fingerprints


def build_source_columns(ctx: RefreshContext) -> dict[str, Any]:
    """Columns that the configuration decides, the same for all rows of the source."""
    source, location = ctx.source, build_web_location(ctx.source)
    return {
        "source": source.id,
        "source_type": source.type,
        "repo": location.repo,
        "branch": location.branch,
        "web_prefix": location.web_prefix,
        "tags": sorted(source.metadata.tags),
        "visibility": source.access.visibility,
        "tenant": source.access.tenant,
        "principals": sorted(source.access.principals),
    }


def _build_row_fingerprints(rows: pa.Table, source_columns: dict[str, Any]) -> _RowFingerprints:
    """Decides which documents are small."""
    digest = hash_strings(VERSION, json.dumps(source_columns, sort_keys=True))
    live = rows.filter(pc.invert(rows["archived"]))
    documents = live.group_by("uri").aggregate([("row_hash", "list")])
    counts = pc.list_value_length(documents["row_hash_list"])
    small = documents.filter(pc.is_in(counts, value_set=pa.array(SMALL_DOCUMENT_CHUNKS, pa.int32())))
    hashes = zip(*small.select(["uri", "row_hash_list"]).to_pydict().values(), strict=True)
    return _RowFingerprints(digest, {uri: hash_strings(digest, *sorted(each)) for uri, each in hashes})


def _find_stale_tables(ctx: RefreshContext, space: str) -> list[Table]:
    """The tables of other spaces that hold rows of the source, from its former models."""
    others = {name: dimensions for name, dimensions in ctx.lake.list_spaces().items() if name != space}
    tables = [ctx.lake.index(name, dimensions) for name, dimensions in others.items()]
    return [table for table in tables if table.count_rows(eq("source", ctx.source.id))]


class _IndexRowBuilder:
    """Builds the index rows of chosen chunks."""

    def __init__(self, ctx: RefreshContext, space: Space, table: Table, fingerprints: _RowFingerprints):
        self._ctx, self._table, self._fingerprints = ctx, table, fingerprints
        self._chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
        self._embeddings = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
        self._source_columns = build_source_columns(ctx)
        self._web_prefix = self._source_columns.pop("web_prefix")
        self._now = datetime.now(UTC)

    def build_batches(self, ids: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some chunks."""
        done, columns = 0, [*CHUNK_COLUMNS, "row_hash"]
        for batch in split_batches(ids, _BATCH_ROWS):
            found = pa.concat_tables(self._chunks.iter_rows_by_values("id", batch, columns))
            chunks = found.append_column("fingerprint", self._fingerprints.compute(found)).to_pylist()
            words = self._load_document_words({row["uri"] for row in chunks if self._shares_words(row)})
            indexed_at: dict[str, datetime] = {}
            for known in self._table.iter_rows_by_values("id", batch, ["id", "indexed_at"]):
                indexed_at.update(zip(*known.to_pydict().values(), strict=True))
            rows = [
                self._build_row(chunk, words)
                | {"indexed_at": indexed_at.get(chunk["id"], self._now), "updated_at": self._now}
                for chunk in chunks
            ]
            done += len(rows)
            self._ctx.report("index", done, len(ids))
            yield self._to_batch(rows)

    def require_vectors(self) -> None:
        """Raise `StoreError` while a chunk has no vector, because nothing may fail within the one commit."""
        needed = self._chunks.read_rows(["text_key"], is_null("skipped"))["text_key"].unique()
        missing = exclude_keys(needed, self._embeddings.read_rows(["text_key"])["text_key"])
        if len(missing):
            raise StoreError(
                f"{len(missing)} texts of source {self._ctx.source.id!r} have no vector: "
                "run the embeddings stage, then the index stage again"
            )

    def _to_batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        """Rows with their vectors, which never become Python objects."""
        schema = self._table.schema
        position = schema.get_field_index("vector")
        batch = pa.RecordBatch.from_pylist(rows, schema=schema.remove(position))
        wanted, columns = sorted({row["text_key"] for row in rows}), ["text_key", "vector"]
        found = pa.concat_tables(self._embeddings.iter_rows_by_values("text_key", wanted, columns))
        order = pc.index_in(batch["text_key"], value_set=found["text_key"])
        field: Any = schema.field(position)  # pyright: ignore[reportUnknownVariableType]
        return batch.add_column(position, field, found["vector"].combine_chunks().take(order))

    def _load_document_words(self, uris: set[str]) -> dict[str, dict[str, str]]:
        """The words of all chunks of some documents: uri -> chunk id -> words, in the document's order."""
        words: defaultdict[str, dict[str, str]] = defaultdict(dict)
        if not uris:
            return words
        columns = ["uri", "start_char", "end_char", "id", "text"]
        chunks = self._chunks.read_rows(columns, one_of("uri", sorted(uris)) & _LIVE).to_pylist()
        for chunk in sorted(chunks, key=itemgetter("start_char", "end_char", "id")):
            words[chunk["uri"]][chunk["id"]] = expand_identifiers(chunk["text"])
        return words

    def _shares_words(self, chunk: dict[str, Any]) -> bool:
        return self._fingerprints.shares_words(chunk["uri"], chunk["archived"])

    def _build_row(self, chunk: dict[str, Any], document_words: dict[str, dict[str, str]]) -> dict[str, Any]:
        metadata = json.loads(chunk["metadata"])
        web_url = self._web_prefix + quote(chunk["path"]) if self._web_prefix else None
        row = {
            **self._source_columns,
            **{name: chunk[name] for name in CHUNK_COLUMNS},
            "url": chunk["url"] or web_url,
            "tags": sorted({*self._source_columns["tags"], *metadata.get("tags", ())}),
            "extension": PurePosixPath(chunk["path"]).suffix.lower() or None,
            "labels": list(metadata.get("labels", ())),
            **{name: metadata.get(name) for name in ("project", "status", "wiki_space")},
            "names": metadata.get("names", []) if metadata.get("leads") else [],
            "mentions": sorted({mention["name"] for mention in metadata.get("mentions", ())}),
            "words": self._build_words(chunk, document_words),
            "fingerprint": chunk["fingerprint"],
        }
        return row | {"shown": build_payload(row)}

    def _build_words(self, chunk: dict[str, Any], document_words: dict[str, dict[str, str]]) -> str:
        """A chunk's own words, then those of a small document; the own ones so count twice."""
        if not self._shares_words(chunk):
            return expand_identifiers(build_embedded_text(chunk["header"], chunk["text"]))
        texts = document_words[chunk["uri"]]
        own = build_embedded_text(expand_identifiers(chunk["header"]), texts[chunk["id"]])
        return "\n\n".join((own, *texts.values()))
