"""What is told of each question to whoever observes a service: metrics, traces and logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from knowledge_pipeline import errors
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.query.code_graph.answers import GraphAnswer
from knowledge_pipeline.query.relations import Relations
from knowledge_pipeline.query.search.assemble import Answer

Outcome = Literal[
    "ok",
    "refused",  # it makes no sense
    "not_found",
    "unauthenticated",
    "forbidden",
    "limited",  # asked too often
    "timed_out",
    "abandoned",  # nobody waits for the answer any more
    "failed",
]
Told = Answer | GraphAnswer | Relations

_OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (errors.QuestionRefused, "refused"),
    (errors.ConfigError, "refused"),
    (errors.NotFound, "not_found"),
    (errors.Unauthenticated, "unauthenticated"),
    (errors.Forbidden, "forbidden"),
    (errors.TooManyRequests, "limited"),
    (errors.AnswerTimedOut, "timed_out"),
    (asyncio.CancelledError, "abandoned"),
)


class Observer:
    """Told of what is asked; overrides what it wants to hear. Nothing here may raise."""

    def identified(self, caller: Caller) -> None:
        """It is known who asks."""

    def waiting(self, change: int) -> None:
        """So many questions more wait for their turn."""

    def running(self, change: int) -> None:
        """So many questions more are being answered."""

    def ended(self, caller: Caller, outcome: Outcome, took_s: float) -> None:
        """One question has ended; it may have asked the knowledge base several things, or none."""

    def heard(self, kind: str, text: str, access: Access, answer: Told) -> None:
        """The knowledge base has answered; called on its thread, in the context of the question."""


class Observers:
    """All observers of a service."""

    def __init__(self, each: Sequence[Observer]) -> None:
        self._each = tuple(each)

    def identified(self, caller: Caller) -> None:
        """See `Observer`."""
        for observer in self._each:
            observer.identified(caller)

    def unidentified(self, caller: Caller) -> None:
        """Tell that nothing could be asked, for it is not known who asks."""
        for observer in self._each:
            observer.ended(caller, "unauthenticated", 0.0)

    def heard(self, kind: str, text: str, access: Access, answer: Told) -> None:
        """See `Observer`."""
        for observer in self._each:
            observer.heard(kind, text, access, answer)

    @contextmanager
    def question(self, caller: Caller) -> Iterator[None]:
        """Tell how the question inside ends, and how long it took."""
        start_s = time.perf_counter()
        outcome: Outcome = "ok"
        try:
            yield
        except BaseException as error:
            outcome = outcome_of(error)
            raise
        finally:
            for observer in self._each:
                observer.ended(caller, outcome, time.perf_counter() - start_s)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """What is inside waits for its turn."""
        self._waiting(1)
        try:
            yield
        finally:
            self._waiting(-1)

    @contextmanager
    def running(self) -> Iterator[None]:
        """What is inside is being answered."""
        self._running(1)
        try:
            yield
        finally:
            self._running(-1)

    def _waiting(self, change: int) -> None:
        for observer in self._each:
            observer.waiting(change)

    def _running(self, change: int) -> None:
        for observer in self._each:
            observer.running(change)


def outcome_of(error: BaseException) -> Outcome:
    """How a question has ended that has raised this."""
    for cls, outcome in _OUTCOMES:
        if isinstance(error, cls):
            return outcome
    return "failed"
