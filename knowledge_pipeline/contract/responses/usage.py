"""How the knowledge base is used, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from knowledge_pipeline.contract.responses.base import JsonResponse


@dataclass(frozen=True, slots=True)
class QueryStats:
    """The queries of a period."""

    count: int
    zero_result_count: int
    degraded: int
    cached: int
    by_type: Mapping[str, int]
    by_interface: Mapping[str, int]
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class StatsResponse(JsonResponse):
    """How much is indexed, and how it is used."""

    release: int
    chunks: int
    by_type: Mapping[str, int]
    hours: int
    queries: QueryStats | None = field(
        metadata={"description": "Of the caller's tenant, or all for an operator; null: none, or not logged."}
    )


@dataclass(frozen=True, slots=True)
class ModelCallResponse(JsonResponse):
    """What was recorded of a reported model call."""

    cost: float
    budget: str | None = field(
        metadata={"description": "The caller's budget that is nearly or wholly spent, in a sentence."}
    )
