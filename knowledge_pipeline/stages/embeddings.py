"""Embeddings: one vector per text of a source, in its space. Key: the hash of the text.

A model never embeds a text twice: vectors of deleted texts stay until maintenance collects them, and the
vector of a text that another source of the space has is copied from the index. Some texts are embedded
first, and how long the rest takes is estimated.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from knowledge_pipeline.embedding.base import Embedder, Space, StreamEmbedder, find_invalid_vectors
from knowledge_pipeline.embedding.registry import (
    count_read_tokens,
    describe_missing_prompts,
    find_known_prompts,
    open_embedder,
    resolve_space,
)
from knowledge_pipeline.errors import KnowledgeError, StoreError
from knowledge_pipeline.file_languages import classify_file
from knowledge_pipeline.records import build_embedded_text
from knowledge_pipeline.stages.context import RefreshContext, Stats, claim_immediately, measure_stage
from knowledge_pipeline.stages.run_log import log_embedding_calls
from knowledge_pipeline.store.file_cache import Kind
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.held_terms import ChangeTracker
from knowledge_pipeline.store.reconcile import ReconcilePlan, Spool, exclude_keys, reconcile
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table, split_batches

_ROLE_RANKS = {"source": 0, "test": 1, "generated": 2}
_TOKENS_PER_TEXT = 32  # take as long as what a text takes whatever its length, by the default models
_TOKEN_SAMPLE_TEXTS = 32  # of all lengths; about a second


def order_texts(ctx: RefreshContext, keys: Collection[str]) -> list[str]:
    """Keys of texts: sources before tests, examples and generated files, live before archived ones.

    Among those, files that others use most come first (by powers of two), then the last modified ones.
    """
    uses, wanted = _count_uses(ctx), set(keys)
    columns = ["text_key", "path", "archived", "last_modified"]
    places: dict[str, tuple[Any, ...]] = {}
    for batch in ctx.lake.chunks(ctx.source.type, ctx.source.id).iter_batches(columns, is_null("skipped")):
        for key, path, archived, modified in zip(*batch.to_pydict().values(), strict=True):
            if key in wanted:
                age = -modified.timestamp() if modified else 0.0
                role = _ROLE_RANKS[classify_file(path)]
                order = archived, role, -uses[path].bit_length(), age, path
                places[key] = min(order, places.get(key, order))
    return sorted(places, key=lambda key: (places[key], key))


def _count_uses(ctx: RefreshContext) -> Counter[str]:
    """How often other files use a file, by the code graph; nothing where there is none."""
    where = eq("source", ctx.source.id) & ~is_null("target_path")
    edges = ctx.lake.graph_table("edges").read_rows(["path", "target_path"], where)
    ends: Any = zip(edges["path"].to_pylist(), edges["target_path"].to_pylist(), strict=True)
    return Counter(str(target) for path, target in ends if path != target)


def measure_work(batches: Iterable[pa.RecordBatch], keys: Collection[str], max_tokens: int) -> dict[str, int]:
    """Tokens that take time, by the keys of texts: a model reads the beginning of a long one alone.

    Args:
        batches: `text_key` and `tokens` of chunks, others than those of `keys` too.
        keys: of the texts.
        max_tokens: that the model reads of a text.
    """
    work = dict.fromkeys(keys, _TOKENS_PER_TEXT)
    for batch in batches:
        for key, tokens in zip(*batch.to_pydict().values(), strict=True):
            if key in work:
                work[key] = _TOKENS_PER_TEXT + min(tokens, max_tokens)
    return work


def estimate_rest_s(contexts: Sequence[RefreshContext]) -> float | None:
    """How long the texts of some sources that have no vector take, by a sample of them.

    Loads the models. None where an endpoint or other machines embed, or a model fails, which the stage
    reports.
    """
    seconds_per_token, total_s = dict[str, float](), 0.0
    with suppress(KnowledgeError):
        for ctx in contexts:
            embedding = ctx.settings.resolve_embedding(ctx.source)
            if embedding.provider != "local" or embedding.ray is not None:
                return None
            embedder = open_embedder(embedding)
            work = _measure_missing(ctx, embedder, count_read_tokens(embedding, embedder.space))
            space = embedder.space.name
            if work and space not in seconds_per_token:
                seconds_per_token[space] = _time_sample(ctx, embedder, work)
            total_s += sum(work.values()) * seconds_per_token.get(space, 0.0)
        return total_s
    return None


def find_missing_texts(ctx: RefreshContext, space: Space) -> list[str]:
    """Keys of the texts of a source that have no vector yet."""
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    vectors = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
    desired = chunks.read_rows(["text_key"], is_null("skipped"))["text_key"].unique()
    return exclude_keys(desired, vectors.read_rows(["text_key"])["text_key"]).to_pylist()


def _measure_missing(ctx: RefreshContext, embedder: Embedder, max_tokens: int) -> dict[str, int]:
    chunks, missing = ctx.lake.chunks(ctx.source.type, ctx.source.id), find_missing_texts(ctx, embedder.space)
    return measure_work(chunks.iter_batches(["text_key", "tokens"], is_null("skipped")), missing, max_tokens)


def _time_sample(ctx: RefreshContext, embedder: Embedder, work: Mapping[str, int]) -> float:
    """Seconds a token of work, of texts between the shortest and the longest ones."""
    by_length = sorted(work, key=lambda key: (work[key], key))
    sample = by_length[:: -(-len(by_length) // _TOKEN_SAMPLE_TEXTS)]
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    where = is_null("skipped") & one_of("text_key", sample)
    rows = chunks.read_rows(["text_key", "header", "text"], where).to_pylist()
    texts = {row["text_key"]: build_embedded_text(row["header"], row["text"]) for row in rows}
    embedder.embed(list(texts.values())[:1])  # loads the model
    started = time.perf_counter()
    embedder.embed([texts[key] for key in sample])
    return (time.perf_counter() - started) / sum(work[key] for key in sample)


TEXTS_PER_COMMIT = 512  # embedded in this process: what a killed refresh loses at most, or
SECONDS_PER_COMMIT = 30.0  # so much work
_QUICK_COMMIT_S, _MAX_TEXTS_PER_COMMIT = 1.0, 8_192  # of a model that embeds so quickly, more texts at once
SLOT_MIN_TEXTS = 64  # fewer take less time than claiming a slot
_DISTRIBUTED_TEXTS_PER_COMMIT = 1_000_000  # the same, embedded by several machines
_DISTRIBUTED_TEXTS_PER_UPSERT = 65_536  # a merge holds all its rows in memory: 200 MB of 768 dimensions
_LOCAL_TEXTS_PER_REPORT = 64  # a few seconds of a local model; an endpoint gets a whole commit at once
_SAMPLED_TEXTS, _SAMPLE_TEXTS = 64, 2  # the longest of so many tell how long a model takes

_USED_SPACE = Kind[bool](lambda _: 0)  # whose model this process has loaded


def refresh(ctx: RefreshContext) -> Stats:
    """Embed what the chunks of one source hold and its space does not.

    Raises `ModelMissing`, `EmbeddingUnavailable`: the texts embedded before are kept. `ConfigError`: none is.
    """
    embedder = open_embedder(ctx.settings.resolve_embedding(ctx.source))
    ctx.settings.vector_index.require_divisor(embedder.space.dimensions)
    started = time.perf_counter()
    try:
        return _embed_missing(ctx, embedder)
    finally:  # the cost of a failed refresh is logged too
        if embedder.usage.texts:
            log_embedding_calls(ctx, embedder.usage, seconds=round(time.perf_counter() - started, 4))


def estimate_seconds(ctx: RefreshContext, texts: int) -> float | None:
    """How long a model of this machine takes for so many texts of a source, by some of its longer ones.

    None where this process has not used the model yet: loading it may take longer than all else.
    """
    embedder = open_embedder(ctx.settings.resolve_embedding(ctx.source))
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    batches = chunks.iter_batches(["header", "text"], is_null("skipped"), batch_rows=_SAMPLED_TEXTS)
    is_loaded = ctx.lake.files.get(_USED_SPACE, embedder.space.name)
    if not is_loaded or (batch := next(batches, None)) is None:
        return None
    rows = zip(*batch.to_pydict().values(), strict=True)
    sample = sorted((build_embedded_text(*row) for row in rows), key=len)[-_SAMPLE_TEXTS:]
    started = time.perf_counter()
    with suppress(KnowledgeError):  # which the stage will raise, too
        embedder.embed(sample)
        return (time.perf_counter() - started) / len(sample) * texts
    return None


def _embed_missing(ctx: RefreshContext, embedder: Embedder) -> Stats:
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    table = ctx.lake.embeddings(embedder.space.name, ctx.source.id, embedder.space.dimensions)
    with measure_stage("embeddings", ctx.source.id) as stats:
        tracker = track_texts(ctx, embedder.space)
        keys, live = tracker.find_changed_values("text_key", "text_key"), is_null("skipped")
        among = None if keys is None else one_of("text_key", sorted(keys))
        desired = chunks.read_rows(["text_key"], live & among if among else live)["text_key"].unique()
        added = exclude_keys(desired, table.read_rows(["text_key"], among)["text_key"])
        changed: Any = exclude_keys(desired, added) if ctx.options.reembed else desired[:0]
        total = tracker.count_values("text_key", live, keys)
        unchanged = total - len(added) - len(changed)
        plan = ReconcilePlan(added.to_pylist(), changed.to_pylist(), [], unchanged)
        builder = _VectorRowBuilder(ctx, embedder, chunks, table)
        stats.notes.update(_list_prompt_notes(ctx, is_new=not table.exists))
        if isinstance(embedder, StreamEmbedder) and len(plan.keys_to_write) >= embedder.min_stream_texts:
            _reconcile_distributed(table, plan, builder, ctx.lake.cache)
        else:
            reconcile(table, plan, builder.build_batches)
        if plan:
            ctx.upkeep.tend(table)
        tracker.remember(has_written=bool(plan))
        stats.seen = total
        stats.add_plan(plan)
        stats.notes.update({"taken from another source": builder.reused} if builder.reused else {})
        stats.tokens, stats.cost = embedder.usage.tokens, embedder.usage.cost
        stats.rows, stats.version = total, table.version
    return stats


def track_texts(ctx: RefreshContext, space: Space) -> ChangeTracker:
    """Which texts have changed since all had their vectors; see `ChangeTracker`."""
    vectors = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
    tables = [ctx.lake.chunks(ctx.source.type, ctx.source.id), vectors]
    forget = ctx.options.full or ctx.options.reembed
    return ChangeTracker(ctx.lake, ctx.source.id, "embeddings", space.name, tables, forget=forget)


def _list_prompt_notes(ctx: RefreshContext, *, is_new: bool) -> list[str]:
    """What to say of the model's prompts: that they are switched off, or are why all is embedded again.

    Args:
        is_new: whether the source has no vector in its space yet.
    """
    settings = ctx.settings.resolve_embedding(ctx.source)
    notes = [note] if (note := describe_missing_prompts(settings)) else []
    if settings.document_prompt is None and is_new:
        bare = resolve_space(settings.model_copy(update={"document_prompt": ""}))
        former = ctx.lake.embeddings(bare.name, ctx.source.id, bare.dimensions)
        if bare.name != resolve_space(settings).name and former.exists:
            prompt = find_known_prompts(settings.model).document
            notes.append(
                f"documents are embedded again, with the prompt {prompt!r} of the model {settings.model!r}; "
                "the former vectors answer until the new ones are complete"
            )
    return notes


def _reconcile_distributed(table: Table, plan: ReconcilePlan, rows: _VectorRowBuilder, folder: Path) -> None:
    """Carry out a plan in few commits, each of vectors collected on disk before it starts."""
    commits = [(keys, table.append) for keys in split_batches(plan.added, _DISTRIBUTED_TEXTS_PER_COMMIT)]
    commits += [(keys, table.upsert) for keys in split_batches(plan.changed, _DISTRIBUTED_TEXTS_PER_UPSERT)]
    for keys, write in commits:
        with Spool(table.schema, folder) as spool:
            for batch in rows.build_distributed_batches(keys):
                spool.add_batch(batch)
            write(spool.iter_batches())
    reconcile(table, replace(plan, added=[], changed=[]), rows.build_batches)


class _VectorRowBuilder:
    """Builds the vectors of chosen texts: copied from the index where it has them, else embedded."""

    def __init__(self, ctx: RefreshContext, embedder: Embedder, chunks: Table, table: Table) -> None:
        self._ctx, self._embedder, self._chunks, self._table = ctx, embedder, chunks, table
        self.reused = 0

    def build_batches(self, keys: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some texts; each batch is one commit."""
        yield from self._iter_batches(keys, self._embed_in_process)

    def build_distributed_batches(self, keys: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some texts, in any order, embedded by a cluster."""
        yield from self._iter_batches(keys, self._embed_distributed)

    def _iter_batches(
        self, keys: list[str], embed: Callable[[set[str]], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        missing, embedding = set(keys), self._ctx.settings.resolve_embedding(self._ctx.source)
        if not self._ctx.options.reembed:
            space = self._embedder.space
            index = self._ctx.lake.index(space.name, space.dimensions)
            for batch in split_batches(keys):
                has_vector = one_of("text_key", batch) & is_null("unembedded")
                rows = index.read_rows(["text_key", "vector"], has_vector)
                if row_by_key := {key: row for row, key in enumerate(rows["text_key"].to_pylist())}:
                    unique = rows.take(list(row_by_key.values())).cast(self._table.schema)
                    missing.difference_update(row_by_key)
                    self.reused += len(row_by_key)
                    yield from unique.combine_chunks().to_batches()
        claim_slot = claim_immediately if len(missing) <= SLOT_MIN_TEXTS else self._ctx.claim_slot
        host = None if embedding.provider == "local" else urlsplit(embedding.base_url).hostname
        with claim_slot(host or "embedder"):  # this machine has one embedder
            yield from embed(missing)

    def _embed_in_process(self, missing: set[str]) -> Iterator[pa.RecordBatch]:
        reporter = _WorkReporter(self._ctx, self._measure_work(missing))
        for texts in self._iter_commit_texts(missing):
            for batch in self._embed_texts(texts, reporter):
                yield batch
                self._ctx.after_vectors()

    def _iter_commit_texts(self, missing: set[str]) -> Iterator[dict[str, str]]:
        """The texts of each commit; those for a model of this machine, which takes longest, in good order."""
        if self._is_local:
            is_one_commit = len(missing) <= TEXTS_PER_COMMIT
            ordered = iter(missing if is_one_commit else order_texts(self._ctx, missing))
            size = TEXTS_PER_COMMIT
            while keys := list(islice(ordered, size)):
                started = time.monotonic()
                yield {key: text for some in split_batches(keys) for key, text in self._iter_texts(set(some))}
                is_quick = time.monotonic() < started + _QUICK_COMMIT_S
                size = min(4 * size, _MAX_TEXTS_PER_COMMIT) if is_quick else TEXTS_PER_COMMIT
            return
        texts = self._iter_texts(missing)
        while batch := dict(islice(texts, TEXTS_PER_COMMIT)):
            yield batch

    @property
    def _is_local(self) -> bool:
        return self._ctx.settings.resolve_embedding(self._ctx.source).provider == "local"

    def _embed_distributed(self, missing: set[str]) -> Iterator[pa.RecordBatch]:
        assert isinstance(self._embedder, StreamEmbedder)
        reporter = _WorkReporter(self._ctx, self._measure_work(missing))
        for keys, vectors in self._embedder.embed_stream(self._iter_texts(missing)):
            reporter.add(keys)
            yield self._to_batch(keys, vectors)

    def _iter_texts(self, missing: set[str]) -> Iterator[tuple[str, str]]:
        left = set(missing)
        for batch in self._iter_chunks(["header", "text"], missing):
            for row in batch.to_pylist():
                if row["text_key"] in left:
                    left.discard(row["text_key"])
                    yield row["text_key"], build_embedded_text(row["header"], row["text"])

    def _iter_chunks(self, columns: Sequence[str], keys: Collection[str]) -> Iterator[pa.RecordBatch]:
        """The column `text_key`, and others, of the chunks of some texts; of all where these are many."""
        where = is_null("skipped")
        if len(keys) <= KEYS_PER_FILTER:
            where = where & one_of("text_key", sorted(keys))
        yield from self._chunks.iter_batches(["text_key", *columns], where) if keys else ()

    def _measure_work(self, missing: Collection[str]) -> dict[str, int]:
        embedding = self._ctx.settings.resolve_embedding(self._ctx.source)
        limit = count_read_tokens(embedding, self._embedder.space)
        return measure_work(self._iter_chunks(["tokens"], missing), missing, limit)

    def _embed_texts(self, texts: Mapping[str, str], reporter: _WorkReporter) -> Iterator[pa.RecordBatch]:
        """Embed in small portions, to report progress; each batch is one commit."""
        keys = sorted(texts, key=lambda key: len(texts[key]))  # a batch is padded to its longest text
        step = _LOCAL_TEXTS_PER_REPORT if self._is_local else TEXTS_PER_COMMIT
        portions = [keys[start : start + step] for start in range(0, len(keys), step)]
        embedded, vectors, started = list[str](), list[np.ndarray](), time.monotonic()
        while portions:
            portion = portions.pop(-(len(portions) % 2))  # long and short in turn: bars move evenly
            vectors.append(self._embedder.embed([texts[key] for key in portion]))
            self._ctx.lake.files.put(_USED_SPACE, self._embedder.space.name, None, True)
            embedded = embedded + portion
            reporter.add(portion)
            if not portions or time.monotonic() > started + SECONDS_PER_COMMIT:
                yield self._to_batch(embedded, np.concatenate(vectors))
                embedded, vectors, started = [], [], time.monotonic()

    def _to_batch(self, keys: list[str], vectors: np.ndarray) -> pa.RecordBatch:
        require_valid_vectors(vectors, self._ctx.source.id)
        values = pa.array(vectors.reshape(-1), pa.float32())
        column: Any = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of the stubs
        return pa.RecordBatch.from_pydict({"text_key": keys, "vector": column}, schema=self._table.schema)


class _WorkReporter:
    """Reports texts as they are embedded, with the share of the work, which follows their length."""

    def __init__(self, ctx: RefreshContext, work: Mapping[str, int]) -> None:
        self._ctx, self._work, self._total = ctx, work, sum(work.values())
        self._texts = self._done = 0

    def add(self, keys: Collection[str]) -> None:
        self._texts += len(keys)
        self._done += sum(self._work[key] for key in keys)
        self._ctx.report("embeddings", self._texts, len(self._work), self._done / self._total)


def require_valid_vectors(vectors: np.ndarray, source: str) -> None:
    """Raise `StoreError`, before anything is written, for vectors not finite or not of length 1."""
    if find_invalid_vectors(vectors).any():
        raise StoreError(
            f"the embedding model gave vectors for source {source!r} that are not finite or not of length 1: "
            "check the model, then refresh again"
        )
