"""Among passages that answer equally well, the recent ones first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from knowledge_pipeline.query.search.hits import Hit
from knowledge_pipeline.times import parse_time

HALF_LIFE_DAYS = 180.0  # a passage that is so much older than the newest gets half as much


def boost_recent(hits: Sequence[Hit], max_boost: float) -> list[Hit]:
    """Hits with a boost by their age, best first; scores stay in [0, 1].

    Ages count from the newest of the hits, not from today, so that a project which rests
    has an order too, and the same question gets the same answer tomorrow.

    Args:
        hits: with `last_modified` in their metadata; those without get nothing.
        most: what the newest gets, beside a score of at most 1.
    """
    moments = [_parse_timestamp(hit.chunk.metadata.get("last_modified")) for hit in hits]
    newest = max((moment for moment in moments if moment), default=None)
    if newest is None:
        return list(hits)
    boosted = [
        _apply_boost(hit, max_boost * _compute_freshness(moment, newest), max_boost)
        for hit, moment in zip(hits, moments, strict=True)
    ]
    return sorted(boosted, key=lambda hit: (-hit.score, hit.chunk.id))


def _parse_timestamp(value: object) -> datetime | None:
    return parse_time(value) if isinstance(value, str) else None


def _compute_freshness(moment: datetime | None, newest: datetime) -> float:
    """1 for the newest, 0.5 after the half-life, towards 0."""
    if moment is None:
        return 0.0
    return 0.5 ** ((newest - moment).total_seconds() / 86400 / HALF_LIFE_DAYS)


def _apply_boost(hit: Hit, boost: float, max_boost: float) -> Hit:
    boosts = {**hit.explanation.boosts, "recency": round(boost, 6)} if boost else hit.explanation.boosts
    score = (hit.score + boost) / (1 + max_boost)
    return replace(hit, score=score, explanation=replace(hit.explanation, boosts=boosts))
