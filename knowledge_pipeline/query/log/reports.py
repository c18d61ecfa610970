"""Turns what an agent reports of its own model calls into rows of the log."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from knowledge_pipeline.config.costs import CostSettings, ModelPrice
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.requests import (
    MAX_REPORTED_COST,
    MAX_REPORTED_SECONDS,
    MAX_REPORTED_TOKENS,
    ModelCallRequest,
)
from knowledge_pipeline.contract.usage_labels import require_label
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.llm.model_calls import CallReport, ModelCall
from knowledge_pipeline.query.access import Access


def build_reported_call(request: ModelCallRequest, access: Access, settings: Settings) -> ModelCall:
    """The call as it is recorded, on the caller's account.

    Raises:
        InvalidQuery: a name is no label, or a number is negative, or too large to be true.
    """
    for name in ("provider", "model", "error"):
        require_label(name, getattr(request, name))
    _require_number("input_tokens", request.input_tokens, MAX_REPORTED_TOKENS)
    _require_number("output_tokens", request.output_tokens, MAX_REPORTED_TOKENS)
    _require_number("cost", request.cost or 0.0, MAX_REPORTED_COST)
    _require_number("seconds", request.seconds, MAX_REPORTED_SECONDS)
    keeps_texts = settings.costs.keep_texts
    return ModelCall(
        ended_at=datetime.now(UTC),
        model=request.model,
        requests=1,
        tokens=request.input_tokens + request.output_tokens,
        cost=_compute_cost(request, settings) if request.cost is None else request.cost,
        seconds=request.seconds,
        account=access.account,
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        report=CallReport(
            request.provider,
            access.caller.interface,
            access.caller.token,
            request.error,
            request.prompt if keeps_texts else None,
            request.response if keeps_texts else None,
        ),
    )


def _compute_cost(request: ModelCallRequest, settings: Settings) -> float:
    """By the price of the model; 0 where none is configured."""
    price = _find_price(request.model, settings.costs) or settings.language_model
    if price is None or price.model != request.model:
        return 0.0
    return (
        request.input_tokens * price.price_per_million_input_tokens
        + request.output_tokens * price.price_per_million_output_tokens
    ) / 1e6


def _find_price(model: str, costs: CostSettings) -> ModelPrice | None:
    return next((price for price in costs.prices if price.model == model), None)


def _require_number(name: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= most):
        raise InvalidQuery(f"found {name} {value:g}; allowed: 0 to {most:,.0f}")
