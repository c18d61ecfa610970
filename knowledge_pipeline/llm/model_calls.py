"""What a model was asked, what it said, and what that cost. Typed values, without I/O."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from knowledge_pipeline.config.settings import LanguageModelSettings, ModelPrice, Settings
from knowledge_pipeline.contract.requests import (
    MAX_REPORTED_COST,
    MAX_REPORTED_SECONDS,
    MAX_REPORTED_TOKENS,
    ModelCallRequest,
)
from knowledge_pipeline.contract.usage_labels import UsageLabels, require_label
from knowledge_pipeline.errors import InvalidQuery


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of what is sent. What comes from documents or people belongs into `user` alone."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model said, and what it took."""

    text: str  # without the model's thinking; may be empty
    prompt_tokens: int
    completion_tokens: int
    seconds: float  # all tries and waits together
    cost: float  # in the currency of the prices
    estimated: bool = False  # the endpoint did not tell the tokens
    cut: bool = False  # the text ends where `max_tokens` were reached


@dataclass(frozen=True, slots=True)
class UsageAccount(UsageLabels):
    """On whose account a call goes."""

    tenant: str | None = None
    token: str | None = None  # the id of the caller's token


@dataclass(frozen=True, slots=True)
class CallReport:
    """What an agent says of a call that it made itself, and how that came."""

    provider: str
    interface: str
    token: str | None = None  # the id of the token that it came with
    error: str | None = None  # what kind of error the call ended in; None: it was answered
    prompt: str | None = None
    response: str | None = None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One use of the model, answered or not, as it is recorded."""

    ended_at: datetime  # of its end, with time zone
    model: str
    requests: int  # tries that were sent
    tokens: int  # of prompts and completions; 0 where no try was answered
    cost: float
    seconds: float
    account: UsageAccount
    input_tokens: int | None = None  # of `tokens`, where both are known
    output_tokens: int | None = None
    report: CallReport | None = None  # None: our own call
    kind: str = "completion"  # or "embedding"
    provider: str = "openai"  # the protocol, as in the settings of embeddings


def build_reported_call(
    request: ModelCallRequest, account: UsageAccount, settings: Settings, *, interface: str, token: str | None
) -> ModelCall:
    """A call that an agent reports, as it is recorded: through which interface, with the token of which id.

    Raises `InvalidQuery`: a name is no label, or a number is negative, or too large to be true.
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
        cost=_estimate_cost(request, settings) if request.cost is None else request.cost,
        seconds=request.seconds,
        account=account,
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        report=CallReport(
            request.provider,
            interface,
            token,
            request.error,
            request.prompt if keeps_texts else None,
            request.response if keeps_texts else None,
        ),
    )


def _estimate_cost(request: ModelCallRequest, settings: Settings) -> float:
    """By the price of the model; 0 where none is configured."""
    prices = (*settings.costs.prices, settings.language_model)
    price = next((price for price in prices if price and price.model == request.model), None)
    return compute_cost(price, request.input_tokens, request.output_tokens) if price else 0.0


def compute_cost(price: ModelPrice | LanguageModelSettings, input_tokens: int, output_tokens: int) -> float:
    """What tokens cost, in the currency of the price."""
    cost_of_input = input_tokens * price.price_per_million_input_tokens
    return (cost_of_input + output_tokens * price.price_per_million_output_tokens) / 1e6


def _require_number(name: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= most):
        raise InvalidQuery(f"found {name} {value:g}; allowed: 0 to {most:,.0f}")


NO_ACCOUNT = UsageAccount()
current_account: ContextVar[UsageAccount] = ContextVar("payer", default=NO_ACCOUNT)
"""Of the innermost `on_behalf_of`; an empty one outside."""


@contextmanager
def on_behalf_of(
    *, session: str | None = None, project: str | None = None, on_behalf_of: str | None = None
) -> Generator[None]:
    """Everything that is asked inside, in this task and those it starts, goes on this account.

    Raises `InvalidQuery`: one of them is no label: see `UsageLabels`.
    """
    with charge_to(UsageAccount(session, project, on_behalf_of)):
        yield


@contextmanager
def charge_to(account: UsageAccount) -> Generator[None]:
    """The same, for an account with its tenant."""
    token = current_account.set(account)
    try:
        yield
    finally:
        current_account.reset(token)
