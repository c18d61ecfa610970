"""Releases sources before all their texts are embedded: words answer at once, vectors follow as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from knowledge_pipeline.embedding.base import Space
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.stages import index
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.stages.embeddings import estimate_seconds, track_texts
from knowledge_pipeline.store.filters import UNEMBEDDED, eq, is_null, one_of
from knowledge_pipeline.store.reconcile import exclude_keys

MIN_LOCAL_TEXTS, MIN_REMOTE_TEXTS = 64, 2048  # without a vector; fewer are embedded in seconds
MAX_WAIT_S = 1.0  # of words for vectors that a model of this machine makes so soon
INTERVAL_S = 60.0  # between two releases of vectors
MAX_TIME_SHARE = 0.1  # of a refresh, spent on them
MIN_KEPT_SHARE = 0.9  # of the rows with a vector that are in the index


class EarlyReleases:
    """Releases what is indexed so far, in at most `MAX_TIME_SHARE` of the time."""

    def __init__(self, release: Callable[[], object]) -> None:
        self._release = release
        self._is_waiting = False
        self._released_at = self._next_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether the last release is long enough ago for one with more vectors."""
        return time.monotonic() >= max(self._next_at, self._released_at + INTERVAL_S)

    def start_interval(self) -> None:
        """Count the interval from now, where nothing was released yet."""
        self._released_at = max(self._released_at, time.monotonic())

    def release(self) -> None:
        """Release now, or with the next one where the last took long."""
        self._is_waiting = True
        if time.monotonic() >= self._next_at:
            self.flush()

    def flush(self) -> None:
        """Release now, if anything waits for it."""
        if self._is_waiting:
            started = time.monotonic()
            self._release()
            self._is_waiting, self._released_at = False, time.monotonic()
            self._next_at = self._released_at + (self._released_at - started) / MAX_TIME_SHARE


def index_words(ctx: RefreshContext) -> Stats | None:
    """Index a source before it is embedded; None where that is soon done, or live vectors would go."""
    embedding = ctx.settings.resolve_embedding(ctx.source)
    is_local = embedding.provider == "local"
    few = MIN_LOCAL_TEXTS if is_local else MIN_REMOTE_TEXTS
    space = resolve_space(embedding)
    changed = track_texts(ctx, space).find_changed_values("text_key", "text_key")
    if changed is not None and (len(changed) <= few or _count_without_vector(ctx, space, changed) <= few):
        return None
    missing = _count_texts_to_embed(ctx)
    if missing is None or missing <= few:
        return None
    seconds = estimate_seconds(ctx, missing) if is_local else None
    return None if seconds is not None and seconds <= MAX_WAIT_S else index.refresh(ctx, more_vectors=True)


def index_vectors(ctx: RefreshContext) -> Stats | None:
    """Index the vectors that came since; None where live vectors would go."""
    return None if _count_texts_to_embed(ctx) is None else index.refresh(ctx, more_vectors=True)


def _count_without_vector(ctx: RefreshContext, space: Space, keys: Collection[str]) -> int:
    table = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
    return len(keys) - table.count_rows(one_of("text_key", sorted(keys))) if keys else 0


def _count_texts_to_embed(ctx: RefreshContext) -> int | None:
    """Chunks without a vector; None where their rows would replace many that have one.

    That is where a source has got another model, or its chunks another form: what is live then answers
    until the new vectors are complete.
    """
    space = resolve_space(ctx.settings.resolve_embedding(ctx.source))
    if index.find_stale_tables(ctx, space.name):
        return None
    chunks = ctx.lake.chunks(ctx.source.type, ctx.source.id).read_rows(["text_key"], is_null("skipped"))
    vectors = ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions).read_rows(["text_key"])
    missing = len(exclude_keys(chunks["text_key"], vectors["text_key"]))
    table, mine = ctx.lake.index(space.name, space.dimensions), eq("source", ctx.source.id)
    live = table.count_rows(mine) - table.count_rows(mine & UNEMBEDDED)
    return missing if len(chunks) - missing >= MIN_KEPT_SHARE * live else None
