"""What a language model was asked, what it said, and what that cost. Typed values, without I/O."""

from __future__ import annotations

from collections.abc import Iterator
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
class Payer:
    """On whose account a call goes."""

    session: str | None = None  # of a user or agent
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One use of the model, answered or not, as it is recorded."""

    at: datetime  # of its end, with time zone
    model: str
    requests: int  # tries that were sent
    tokens: int  # of prompts and completions; 0 where no try was answered
    cost: float
    seconds: float
    payer: Payer


_NOBODY = Payer()
_payer: ContextVar[Payer] = ContextVar("payer")


@contextmanager
def on_behalf_of(*, session: str | None = None, project: str | None = None) -> Iterator[None]:
    """Everything that is asked inside, in this task and those it starts, goes on this account."""
    token = _payer.set(Payer(session, project))
    try:
        yield
    finally:
        _payer.reset(token)


def current_payer() -> Payer:
    """The account of the innermost `on_behalf_of`; an empty one outside."""
    return _payer.get(_NOBODY)
