"""What a language model was asked, what it said, and what that cost. Typed values, without I/O."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from knowledge_pipeline.contract.usage_labels import UsageLabels


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


_NO_ACCOUNT = UsageAccount()
_account: ContextVar[UsageAccount] = ContextVar("payer")


@contextmanager
def on_behalf_of(
    *, session: str | None = None, project: str | None = None, on_behalf_of: str | None = None
) -> Generator[None]:
    """Everything that is asked inside, in this task and those it starts, goes on this account.

    Raises:
        InvalidQuery: one of them is no label: see `UsageLabels`.
    """
    with charge_to(UsageAccount(session, project, on_behalf_of)):
        yield


@contextmanager
def charge_to(account: UsageAccount) -> Generator[None]:
    """The same, for an account with its tenant."""
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)


def get_current_account() -> UsageAccount:
    """The account of the innermost `on_behalf_of`; an empty one outside."""
    return _account.get(_NO_ACCOUNT)
