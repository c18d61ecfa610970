"""Ranks fused hits: what is relevant and recent comes first, and each chunk once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from knowledge_pipeline.query.search.hits import AnyChunkT, Hit, IndexedChunk, sort_best_first
from knowledge_pipeline.times import parse_time

HALF_LIFE_DAYS = 180.0  # a chunk that is so much older than the newest gets half the boost


def boost_recent(hits: Sequence[Hit[IndexedChunk]], max_boost: float) -> list[Hit[IndexedChunk]]:
    """Hits with a boost by their age, best first; scores stay in [0, 1].

    Ages count from the newest of the hits, not from today, so that a project that rests
    has an order too, and the same question gets the same answer tomorrow. The log-odds of
    the newest rise by `max_boost`; a hit without `last_modified` gets none.
    """
    dates = [hit.chunk.metadata.get("last_modified") for hit in hits]
    moments = [parse_time(date) if isinstance(date, str) else None for date in dates]
    newest = max((moment for moment in moments if moment), default=None)
    if newest is None:
        return list(hits)
    boosted: list[Hit[IndexedChunk]] = []
    for hit, moment in zip(hits, moments, strict=True):
        age_days = (newest - moment).total_seconds() / 86400 if moment else None
        boost = max_boost * (0.5 ** (age_days / HALF_LIFE_DAYS) if age_days is not None else 0.0)
        boosted.append(hit.with_log_odds("recency", boost) if boost else hit)
    return sort_best_first(boosted)


def merge_hits(hit_lists: Iterable[Sequence[Hit[AnyChunkT]]]) -> Sequence[Hit[AnyChunkT]]:
    """Several ranked lists as one, best first; a chunk of several counts once, by its best score."""
    first, *others = hit_lists
    if not others:
        return first
    best: dict[str, Hit[AnyChunkT]] = {}
    for hits in (first, *others):
        for hit in hits:
            known = best.get(hit.chunk.id)
            if known is None or hit.score > known.score:
                best[hit.chunk.id] = hit
    return sort_best_first(best.values())
