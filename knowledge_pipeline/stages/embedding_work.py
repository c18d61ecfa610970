"""Which texts of a source are embedded first, how much work they are, and how long what is left takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from knowledge_pipeline.embedding.base import Embedder
from knowledge_pipeline.embedding.registry import count_read_tokens, open_embedder
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.file_roles import classify_file
from knowledge_pipeline.records import build_embedded_text
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.reconcile import exclude_keys

_ROLE_RANKS = {"source": 0, "test": 1, "generated": 2}
_TOKENS_PER_TEXT = 32  # take as long as what a text takes whatever its length, by the default models
_SAMPLE_TEXTS = 32  # of all lengths; about a second


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
                place = archived, role, -uses[path].bit_length(), age, path
                places[key] = min(place, places.get(key, place))
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


def _measure_missing(ctx: RefreshContext, embedder: Embedder, max_tokens: int) -> dict[str, int]:
    chunks, space = ctx.lake.chunks(ctx.source.type, ctx.source.id), embedder.space
    vectors = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
    present = vectors.read_rows(["text_key"])["text_key"]
    desired = chunks.read_rows(["text_key"], is_null("skipped"))["text_key"].unique()
    missing = exclude_keys(desired, present).to_pylist()
    return measure_work(chunks.iter_batches(["text_key", "tokens"], is_null("skipped")), missing, max_tokens)


def _time_sample(ctx: RefreshContext, embedder: Embedder, work: Mapping[str, int]) -> float:
    """Seconds a token of work, of texts between the shortest and the longest ones."""
    by_length = sorted(work, key=lambda key: (work[key], key))
    sample = by_length[:: -(-len(by_length) // _SAMPLE_TEXTS)]
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id)
    where = is_null("skipped") & one_of("text_key", sample)
    rows = chunks.read_rows(["text_key", "header", "text"], where).to_pylist()
    texts = {row["text_key"]: build_embedded_text(row["header"], row["text"]) for row in rows}
    embedder.embed(list(texts.values())[:1])  # loads the model
    started = time.perf_counter()
    embedder.embed([texts[key] for key in sample])
    return (time.perf_counter() - started) / sum(work[key] for key in sample)
