"""What a language model was asked, what it said, and what that cost. Typed values, without I/O."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


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
class UsageAccount:
    """On whose account a call goes."""

    session: str | None = None  # of a user or agent
    project: str | None = None


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


_NO_ACCOUNT = UsageAccount()
_account: ContextVar[UsageAccount] = ContextVar("payer")


@contextmanager
def on_behalf_of(*, session: str | None = None, project: str | None = None) -> Generator[None]:
    """Everything that is asked inside, in this task and those it starts, goes on this account."""
    token = _account.set(UsageAccount(session, project))
    try:
        yield
    finally:
        _account.reset(token)


def get_current_account() -> UsageAccount:
    """The account of the innermost `on_behalf_of`; an empty one outside."""
    return _account.get(_NO_ACCOUNT)
