"""Index: the retrievable rows of a source, in the table of its space. Key: chunk id.

All sources of the space share the table, so the index lock is held while it is written, in one commit. A
chunk gets its row before its text is embedded: full text finds it. The vector follows, by itself.

Each chunk of a small document carries the words of the whole document, so that full text finds the document
even if a query's words are spread over its chunks. The fingerprint of such a row covers its siblings, too.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.config.embedding import find_content
from knowledge_pipeline.connectors.registry import build_web_location
from knowledge_pipeline.embedding.base import Space
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.records import build_embedded_text, hash_strings, is_branch_tag
from knowledge_pipeline.stages.context import RefreshContext, Stats, claim_immediately, measure_stage
from knowledge_pipeline.stages.permissions import load_audiences
from knowledge_pipeline.stages.snapshot import load_branches
from knowledge_pipeline.store import indexes, schemas
from knowledge_pipeline.store.filters import UNEMBEDDED, contains, eq, has_non_ascii, is_null, one_of
from knowledge_pipeline.store.fragments import StaleRows
from knowledge_pipeline.store.held_terms import ChangeTracker
from knowledge_pipeline.store.reconcile import MERGE_MAX_ROWS, ReconcilePlan, plan_changes_arrow, reconcile
from knowledge_pipeline.store.schemas import WORDS_KEY, WORDS_VERSION
from knowledge_pipeline.store.search import (
    SourceLocation,
    build_branch_tags,
    build_payload,
    read_locations,
    write_location,
)
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table, split_batches
from knowledge_pipeline.words import expand_indexed_text

SMALL_DOCUMENT_CHUNKS = range(2, 5)  # of a small document
DOCUMENT_ORDER = itemgetter("start_char", "end_char", "id")

_DOCUMENTS_AT_ONCE = 200
_READ_COLUMNS = ["id", "uri", "archived", "header", "text", "start_char", "end_char", "words"]
_MAY_CHANGE = (
    has_non_ascii("text") | has_non_ascii("header") | contains("text", "-\n") | contains("text", "-\r\n")
)
"""Rows whose words may be others than in the first form; all other words are the same in both."""


class WordBuilder:
    """Builds the words of chunks of one source."""

    def __init__(self, source_type: str) -> None:
        self._is_prose = find_content(source_type) == "prose"

    def expand(self, text: str) -> str:
        """The words of a text."""
        return expand_indexed_text(text, is_prose=self._is_prose)

    def build(self, chunk: Mapping[str, Any]) -> str:
        """A chunk's own words."""
        return self.expand(build_embedded_text(chunk["header"], chunk["text"]))

    def build_shared(self, chunk: Mapping[str, Any], document: Mapping[str, str]) -> str:
        """A chunk's own words, then those of its small document; the own ones so count twice.

        Args:
            chunk: one of the document.
            document: the words of each of its texts by the chunk's id, in their order.
        """
        own = build_embedded_text(self.expand(chunk["header"]), document[chunk["id"]])
        return "\n\n".join((own, *document.values()))


def has_former_words(table: Table) -> bool:
    """Whether words of the table may have a form that questions no longer have."""
    if not table.exists:
        return False
    metadata: Mapping[bytes, bytes] = table.open_version().schema.metadata or {}
    return metadata.get(WORDS_KEY.encode()) != WORDS_VERSION.encode()


def rewrite_former_words(table: Table) -> int:
    """Give all rows words of the present form; how many had others.

    Rows with the same words stay as they are, and so do all fingerprints and vectors. Needs the index lock. A
    kill is harmless: the next call goes on.
    """
    affected: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in table.read_rows(["source", "source_type", "uri"], _MAY_CHANGE).to_pylist():
        affected[row["source"], row["source_type"]].add(row["uri"])
    ids = [id_ for changed in iter_changed_words(table, affected) for id_ in changed]
    stale = [StaleRows(table.key, batch) for batch in split_batches(ids)]
    table.replace_rows(stale, _iter_changed_rows(table, affected))
    table.note_in_schema(**{WORDS_KEY: WORDS_VERSION})
    return len(ids)


def iter_changed_words(
    table: Table, documents: Mapping[tuple[str, str], Iterable[str]]
) -> Iterator[dict[str, str]]:
    """The words of rows of some documents that have others, by id: some documents at a time."""
    for (source, source_type), uris in documents.items():
        builder = WordBuilder(source_type)
        for batch in split_batches(sorted(uris), _DOCUMENTS_AT_ONCE):
            rows = table.read_rows(_READ_COLUMNS, eq("source", source) & one_of("uri", batch))
            yield _find_changed_words(rows.to_pylist(), builder)


def _find_changed_words(rows: Sequence[Mapping[str, Any]], builder: WordBuilder) -> dict[str, str]:
    """The words of rows that have others, by id; the rows are those of whole documents."""
    shared: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in sorted(rows, key=DOCUMENT_ORDER):
        if not row["archived"]:
            shared[row["uri"]][row["id"]] = builder.expand(row["text"])
    changed: dict[str, str] = {}
    for row in rows:
        document = shared[row["uri"]]
        is_shared = not row["archived"] and len(document) in SMALL_DOCUMENT_CHUNKS
        words = builder.build_shared(row, document) if is_shared else builder.build(row)
        if words != row["words"]:
            changed[row["id"]] = words
    return changed


def _iter_changed_rows(
    table: Table, documents: Mapping[tuple[str, str], Iterable[str]]
) -> Iterator[pa.RecordBatch]:
    """The rows with their new words; they are not held at once."""
    schema: Any = table.schema  # whose stubs give fields no type
    position = schema.get_field_index("words")
    for words in iter_changed_words(table, documents):
        for rows in table.iter_rows_by_values("id", sorted(words), schema.names):
            ids: list[Any] = rows["id"].to_pylist()
            column = pa.array([words[id_] for id_ in ids], pa.large_string())
            rows = rows.set_column(position, schema.field(position), column)
            yield from rows.combine_chunks().to_batches()


VERSION = "2"  # of how a chunk becomes an index row
_LIVE = is_null("skipped") & eq("archived", False)
_BATCH_ROWS = KEYS_PER_FILTER  # a batch is read by one filter
_MAX_ROWS_AT_ONCE = 2048  # of whole documents; those of more chunks are read in batches
SLOT_MIN_ROWS = 1024  # fewer take less time than claiming a slot; the lock keeps the table correct anyway
CHUNK_COLUMNS = [name for name in schemas.build_index_schema(1).names if name in schemas.CHUNKS.names]
CHUNK_COLUMNS.remove("fingerprint")


def refresh(ctx: RefreshContext, *, more_vectors: bool = False) -> Stats:
    """Bring the index rows of one source up to date with its chunks and vectors.

    With `more_vectors` to come soon, the index of vectors is not built yet.

    Raises:
        Busy: another process held the index for too long.
        ConfigError: `vector_index` does not suit the vectors.
    """
    space = resolve_space(ctx.settings.resolve_embedding(ctx.source))
    mine = eq("source", ctx.source.id)
    ctx.settings.vector_index.require_divisor(space.dimensions)
    vector_options = ctx.settings.vector_index.describe()
    with measure_stage("index", ctx.source.id) as stats:
        planned = _plan_index(ctx, space)
        plan, tracker = planned.plan, planned.tracker
        embedded = _find_embedded_rows(ctx, space, [*plan.changed, *plan.removed])
        table = ctx.lake.index(space.name, space.dimensions)
        lacks_index = not more_vectors and indexes.lacks_index(table)  # the last early release left it
        has_moved = table.exists and read_locations(table).find(ctx.source.id) != build_location(ctx)
        is_due = plan or len(embedded) or lacks_index or has_moved or has_former_words(table)
        is_due = is_due or not indexes.has_vector_options(table, vector_options)
        if is_due or find_stale_tables(ctx, space.name):
            written = len(plan.keys_to_write) + len(embedded)
            claim_slot = claim_immediately if written <= SLOT_MIN_ROWS else ctx.claim_slot
            with claim_slot("index"), ctx.lake.lock_index():
                table = ctx.lake.index(space.name, space.dimensions)  # as the last writer left it
                rows = _IndexRowBuilder(ctx, space, table, planned)
                write_location(table, ctx.source.id, build_location(ctx))  # a row alone would have no address
                repaired = replace(plan, removed=[*plan.removed, *planned.duplicate_ids])
                reconcile(table, repaired, rows.build_batches, single_commit=True, within=mine)
                for start in range(0, len(embedded), MERGE_MAX_ROWS):
                    table.update_columns(rows.build_vectors(embedded.slice(start, MERGE_MAX_ROWS)))
                if has_former_words(table) and (rewritten := rewrite_former_words(table)):
                    stats.notes["chunks whose words were brought up to date"] += rewritten
                for stale in find_stale_tables(ctx, space.name):
                    stale.delete_where(mine)
                    write_location(stale, ctx.source.id, SourceLocation())
                    stale.compact_if_due()
                indexes.choose_vector_options(table, vector_options)
                ctx.upkeep.tend_index(table, with_vectors=not more_vectors)
                tracker.remember(has_written=True)
        else:
            tracker.remember(has_written=False)
        stats.seen = len(plan.keys_to_write) + plan.unchanged
        stats.add_plan(plan)
        stats.changed, stats.unchanged = stats.changed + len(embedded), stats.unchanged - len(embedded)
        stats.rows, stats.version = stats.seen, table.version
        stats.unembedded = table.count_rows(mine & UNEMBEDDED)
    return stats


@dataclass(frozen=True, slots=True)
class _RowFingerprints:
    """The second half of the rows' fingerprints: what decides a row besides its own chunk."""

    source_digest: str  # of the configuration and the code
    small_documents: dict[str, str]  # uri -> digest that also covers all chunks of a small document
    audiences: Mapping[str, str]  # uri -> principal, where the source's own permissions decide

    def shares_words(self, uri: str, archived: bool) -> bool:
        """Whether a chunk carries the words of its whole document."""
        return not archived and uri in self.small_documents

    def compute(self, chunks: pa.Table) -> pa.ChunkedArray[Any]:
        """The fingerprints of the index rows of chunks, by their `uri`, `archived` and `row_hash`."""
        uris: Any = pc.dictionary_encode(chunks["uri"].combine_chunks())
        digests = [self.small_documents.get(uri, self.source_digest) for uri in uris.dictionary.to_pylist()]
        live = pa.array(digests, pa.string()).take(uris.indices)
        second_half = pc.if_else(chunks["archived"], self.source_digest, live)
        if not self.audiences:
            return pc.binary_join_element_wise(chunks["row_hash"], second_half, "")
        names = [self.audiences.get(uri, "") for uri in uris.dictionary.to_pylist()]
        audiences = pa.array(names, pa.string()).take(uris.indices)
        return pc.binary_join_element_wise(chunks["row_hash"], second_half, audiences, "")


class _IndexPlan(NamedTuple):
    """What to write, and the ids that are there twice; nothing changes them without the source's lock."""

    plan: ReconcilePlan
    duplicate_ids: list[str]
    fingerprints: _RowFingerprints
    tracker: ChangeTracker
    uris: list[str]  # documents of which rows are written; none where they have many chunks
    stored: pa.Table  # `id` and `indexed_at` of the rows that are written again


def _plan_index(ctx: RefreshContext, space: Space) -> _IndexPlan:
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    table = ctx.lake.index(space.name, space.dimensions)
    source_columns, audiences = build_source_columns(ctx), load_audiences(ctx)
    readers = json.dumps(audiences, sort_keys=True)
    digest = hash_strings(VERSION, space.name, format_source_columns(source_columns), readers)
    tracker = ChangeTracker(
        ctx.lake, ctx.source.id, "index", digest, [chunks, table], forget=ctx.options.full
    )
    uris = tracker.find_changed_values("uri", "uri")
    changed, mine = None if uris is None else one_of("uri", sorted(uris)), eq("source", ctx.source.id)
    live = is_null("skipped")
    rows = chunks.read_rows(["id", "uri", "archived", "row_hash"], changed & live if changed else live)
    fingerprints = _build_row_fingerprints(rows, source_columns, audiences)
    all_rows = table.read_rows(["id", "fingerprint", "indexed_at"], mine & changed if changed else mine)
    duplicate_ids: list[str] = []  # left by two writers without a common lock: missing, and built again
    if pc.count_distinct(all_rows["id"]).as_py() < all_rows.num_rows:
        times: Counter[Any] = Counter(all_rows["id"].to_pylist())
        duplicate_ids = [id_ for id_ in times if times[id_] > 1]
    is_duplicate = pc.is_in(all_rows["id"], value_set=pa.array(duplicate_ids, pa.string()))
    stored = all_rows.filter(pc.invert(is_duplicate))
    desired = rows["id"], fingerprints.compute(rows)
    plan = plan_changes_arrow(desired, (stored["id"], stored["fingerprint"]), full=ctx.options.full)
    if changed:
        plan = replace(plan, unchanged=plan.unchanged + chunks.count_rows(live) - len(rows))
    written = pa.array(plan.keys_to_write, pa.string())
    uris = rows.filter(pc.is_in(rows["id"], value_set=written))["uri"].unique()
    has_few_chunks = len(rows.filter(pc.is_in(rows["uri"], value_set=uris))) <= _MAX_ROWS_AT_ONCE
    documents: list[Any] = uris.to_pylist() if has_few_chunks else []
    again = all_rows.filter(pc.is_in(all_rows["id"], value_set=written)).select(["id", "indexed_at"])
    return _IndexPlan(plan, duplicate_ids, fingerprints, tracker, documents, again)


def _find_embedded_rows(ctx: RefreshContext, space: Space, excluded: list[str]) -> pa.Table:
    """`id` and `text_key` of rows without a vector whose texts have one now, but for some ids."""
    table = ctx.lake.index(space.name, space.dimensions)
    waiting = table.read_rows(["id", "text_key"], eq("source", ctx.source.id) & UNEMBEDDED)
    if not len(waiting):
        return waiting
    vectors = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions).read_rows(["text_key"])
    is_embedded = pc.is_in(waiting["text_key"], value_set=vectors["text_key"])
    is_excluded = pc.is_in(waiting["id"], value_set=pa.array(excluded, pa.string()))
    return waiting.filter(pc.and_not(is_embedded, is_excluded))


def build_source_columns(ctx: RefreshContext) -> dict[str, Any]:
    """Columns that the configuration decides, the same for all rows of the source.

    Its branch is null in them: see `build_location`.
    """
    source = ctx.source
    return {
        "source": source.id,
        "source_type": source.type,
        "repo": build_web_location(source).repo,
        "branch": None,
        "tags": source.tags,
        "visibility": "private" if source.access.visibility == "from_source" else source.access.visibility,
        "tenant": source.access.tenant,
        "principals": sorted(source.access.principals),
    }


def build_location(ctx: RefreshContext) -> SourceLocation:
    """What the rows do not say, because it changes whenever the source reads another branch."""
    location = build_web_location(ctx.source)
    return SourceLocation(location.branch, location.web_prefix, load_branches(ctx.lake, ctx.source))


def format_source_columns(columns: Mapping[str, Any]) -> str:
    """The columns as a text to hash; a web prefix was once one of them, and sources without one keep it."""
    return json.dumps({**columns, "web_prefix": None}, sort_keys=True)


def _build_row_fingerprints(
    rows: pa.Table, source_columns: dict[str, Any], audiences: Mapping[str, str]
) -> _RowFingerprints:
    """Decides which documents are small."""
    digest = hash_strings(VERSION, format_source_columns(source_columns))
    live = rows.filter(pc.invert(rows["archived"]))
    documents = live.group_by("uri", use_threads=False).aggregate([("row_hash", "list")])
    counts = pc.list_value_length(documents["row_hash_list"])
    small = documents.filter(pc.is_in(counts, value_set=pa.array(SMALL_DOCUMENT_CHUNKS, pa.int32())))
    hashes = zip(*small.select(["uri", "row_hash_list"]).to_pydict().values(), strict=True)
    small_documents = {uri: hash_strings(digest, *sorted(row_hashes)) for uri, row_hashes in hashes}
    return _RowFingerprints(digest, small_documents, audiences)


def find_stale_tables(ctx: RefreshContext, space: str) -> list[Table]:
    """The tables of other spaces that hold rows of the source, from its former models."""
    others = {name: dimensions for name, dimensions in ctx.lake.list_spaces().items() if name != space}
    tables = [ctx.lake.index(name, dimensions) for name, dimensions in others.items()]
    return [table for table in tables if table.count_rows(eq("source", ctx.source.id))]


@lru_cache(maxsize=4_096)
def _find_extension(path: str) -> str | None:
    return PurePosixPath(path).suffix.lower() or None


class _IndexRowBuilder:
    def __init__(self, ctx: RefreshContext, space: Space, table: Table, planned: _IndexPlan):
        self._ctx, self._table, self._fingerprints = ctx, table, planned.fingerprints
        self._uris, self._stored = planned.uris, planned.stored
        self._chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
        self._embeddings = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
        self._source_columns = build_source_columns(ctx)
        self._has_branches = bool(ctx.source.branches)
        self._words = WordBuilder(ctx.source.type)
        self._now = datetime.now(UTC)

    def build_batches(self, ids: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some chunks."""
        done = 0
        for chunks, siblings in self._read_chunks(ids):
            done += len(chunks)
            self._ctx.report("index", done, len(ids))
            yield from self._build_rows(chunks, siblings).combine_chunks().to_batches()

    def _read_chunks(self, ids: list[str]) -> Iterator[tuple[pa.Table, pa.Table | None]]:
        """Chunks in batches; beside them all of their documents, where these are read at once."""
        columns = [*CHUNK_COLUMNS, "row_hash"]
        for batch in split_batches(ids, _BATCH_ROWS) if not self._uris else ():
            yield pa.concat_tables(self._chunks.iter_rows_by_values("id", batch, columns)), None
        if self._uris:
            documents = pa.concat_tables(
                self._chunks.read_rows(columns, one_of("uri", batch) & is_null("skipped"))
                for batch in split_batches(self._uris)
            )
            chunks = documents.filter(pc.is_in(documents["id"], value_set=pa.array(ids, pa.string())))
            yield chunks, documents

    def _build_rows(self, chunks: pa.Table, documents: pa.Table | None) -> pa.Table:
        """Index rows: chunks with what is computed for each; their vectors never become Python objects."""
        rows = chunks.to_pylist()
        sharing = {row["uri"] for row in rows if self._shares_words(row)}
        words = self._load_document_words(sharing, documents)
        computed = [self._compute_columns(row, words) for row in rows]
        text_keys = [row["text_key"] for row in rows]
        columns: dict[str, Any] = {
            **{name: [value] * len(rows) for name, value in self._source_columns.items()},
            "principals": [self._list_principals(row["uri"]) for row in rows],
            **{name: chunks[name] for name in CHUNK_COLUMNS},
            **{name: [row[name] for row in computed] for name in (computed[0] if computed else ())},
            **self._load_vectors(text_keys),
            "fingerprint": self._fingerprints.compute(chunks),
            "indexed_at": self._find_indexed_at(chunks["id"]),
            "updated_at": [self._now] * len(rows),
        }
        return pa.Table.from_pydict(columns, schema=self._table.schema)

    def _list_principals(self, uri: str) -> list[str]:
        """Those of the configuration, and the document's audience, if it has one."""
        audience = self._fingerprints.audiences.get(uri)
        return sorted([*self._source_columns["principals"], *([audience] if audience else [])])

    def _find_indexed_at(self, ids: Any) -> Any:
        """When rows were first written: now, where they are not there yet."""
        arrow: Any = pc  # whose stubs give what is found no type
        times: Any = self._stored["indexed_at"]
        stored_times = times.take(arrow.index_in(ids, value_set=self._stored["id"]))
        return stored_times.fill_null(pa.scalar(self._now, stored_times.type))

    def build_vectors(self, rows: pa.Table) -> pa.Table:
        """What changes in rows, of which `id` and `text_key` are given, that get their vector."""
        columns: dict[str, Any] = {"id": rows["id"], "updated_at": [self._now] * len(rows)}
        keys: list[Any] = rows["text_key"].to_pylist()
        columns |= self._load_vectors(keys)
        fields: list[pa.Field[Any]] = [self._table.schema.field(name) for name in columns]
        return pa.Table.from_pydict(columns, schema=pa.schema(fields))

    def _load_vectors(self, text_keys: list[Any]) -> dict[str, Any]:
        """The columns `vector` and `unembedded` of texts, in their order."""
        columns = ["text_key", "vector"]
        tables = self._embeddings.iter_rows_by_values("text_key", sorted(set(text_keys)), columns)
        vectors = pa.concat_tables(tables).combine_chunks()
        order = pc.index_in(pa.array(text_keys, pa.string()), value_set=vectors["text_key"])
        unembedded = [None if has_vector else True for has_vector in order.is_valid().to_pylist()]
        return {"vector": vectors["vector"].combine_chunks().take(order), "unembedded": unembedded}

    def _load_document_words(self, uris: set[str], documents: pa.Table | None) -> dict[str, dict[str, str]]:
        """The words of all chunks of some documents: uri -> chunk id -> words, in the document's order."""
        words: defaultdict[str, dict[str, str]] = defaultdict(dict)
        if not uris:
            return words
        columns = ["uri", "start_char", "end_char", "id", "text"]
        if documents is None:
            chunks = self._chunks.read_rows(columns, one_of("uri", sorted(uris)) & _LIVE)
        else:
            is_sharing = pc.is_in(documents["uri"], value_set=pa.array(sorted(uris), pa.string()))
            chunks = documents.filter(pc.and_not(is_sharing, documents["archived"])).select(columns)
        for chunk in sorted(chunks.to_pylist(), key=DOCUMENT_ORDER):
            words[chunk["uri"]][chunk["id"]] = self._words.expand(chunk["text"])
        return words

    def _shares_words(self, chunk: dict[str, Any]) -> bool:
        return self._fingerprints.shares_words(chunk["uri"], chunk["archived"])

    def _compute_columns(
        self, chunk: dict[str, Any], document_words: dict[str, dict[str, str]]
    ) -> dict[str, Any]:
        """What a row has besides its chunk's own columns, its source's and its vector."""
        metadata = json.loads(chunk["metadata"])
        own_tags = (tag for tag in metadata.get("tags", ()) if not is_branch_tag(tag))
        tags = {*self._source_columns["tags"], *own_tags}
        document = document_words[chunk["uri"]] if self._shares_words(chunk) else None
        computed = {
            "url": chunk["url"] or None,
            "tags": sorted(tags),
            "extension": _find_extension(chunk["path"]),
            "labels": list(metadata.get("labels", ())),
            **{name: metadata.get(name) for name in ("project", "status", "wiki_space")},
            **schemas.list_held(chunk, metadata),
            "names": metadata.get("names", []) if metadata.get("leads") else [],
            "mentions": sorted({mention["name"] for mention in metadata.get("mentions", ())}),
            "words": self._words.build_shared(chunk, document) if document else self._words.build(chunk),
        }
        shown = build_payload(self._source_columns | chunk | computed, metadata)  # without those of branches
        branch_tags = build_branch_tags(metadata) if self._has_branches else ()
        return computed | {"shown": shown, "tags": sorted({*tags, *branch_tags})}
