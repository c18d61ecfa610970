"""Ranks fused hits: what is relevant, recent and linked comes first, and each chunk once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from knowledge_pipeline.query.code_graph.visible_graph import VisibleGraph
from knowledge_pipeline.query.search.hits import AnyChunkT, Hit, IndexedChunk, sort_best_first
from knowledge_pipeline.query.search.neighbours import find_linked_locations
from knowledge_pipeline.records import is_variant_uri
from knowledge_pipeline.times import parse_time

HALF_LIFE_DAYS = 180.0  # a chunk that is so much older than the newest gets half the boost
MAX_SEED_HITS = 3  # hits whose links are followed


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


async def boost_linked_hits(
    graph: VisibleGraph, hits: Sequence[Hit[IndexedChunk]], *, weight: float
) -> list[Hit[IndexedChunk]]:
    """Favours code that the best hits use, or that uses them; scores are in [0, 1] again.

    The answer to a question about one thing often stands in what a caller calls, or in what hands a
    value on. No chunk is added: of the hits, those that the code graph links to the best ones rise.
    A hit gains, for each of the best that it is linked to, `weight` times the confidence of the
    surest link as a share of that one's score. (docs/decisions/code-graph.md)
    """
    own = [hit for hit in hits if not is_variant_uri(hit.chunk.uri)]  # the graph has no others
    best = own[:MAX_SEED_HITS]
    linked = await find_linked_locations(graph, [hit.chunk for hit in best])
    by_file: dict[tuple[str, str], list[IndexedChunk]] = {}
    for hit in own:
        by_file.setdefault((hit.chunk.source, hit.chunk.path), []).append(hit.chunk)
    gains: dict[str, float] = {}
    for hit, locations in zip(best, linked, strict=True):
        confidences: dict[str, float] = {}  # chunk id -> that of the surest link
        for location in locations:
            in_file = by_file.get((location.source, location.path), ())
            around = [chunk for chunk in in_file if chunk.start_line <= location.line <= chunk.end_line]
            inner = min(around, key=lambda chunk: (chunk.end_line - chunk.start_line, chunk.id), default=None)
            if inner is not None and inner.id != hit.chunk.id:
                confidences[inner.id] = max(confidences.get(inner.id, 0.0), location.confidence)
        for chunk_id, confidence in confidences.items():
            gains[chunk_id] = gains.get(chunk_id, 0.0) + weight * confidence * hit.score
    max_gain = max(gains.values(), default=0.0)
    boosted: list[Hit[IndexedChunk]] = []
    for hit in hits:
        gain = gains.get(hit.chunk.id, 0.0)
        explained = {"graph": gain} if gain else {}
        boosted.append(hit.with_boost(gain, max_boost=max_gain, explained_as=explained))
    return sort_best_first(boosted)
