"""What is told of each question to whoever observes a service: metrics, traces and logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from knowledge_pipeline import errors
from knowledge_pipeline.contract.responses import GraphResponse, RelationsResponse, SearchResponse
from knowledge_pipeline.query.access import Access, Caller

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
AnyAnswer = SearchResponse | GraphResponse | RelationsResponse

_OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (errors.InvalidQuery, "refused"),
    (errors.ConfigError, "refused"),
    (errors.NotFound, "not_found"),
    (errors.Unauthenticated, "unauthenticated"),
    (errors.Forbidden, "forbidden"),
    (errors.TooManyRequests, "limited"),
    (errors.ResponseTimeout, "timed_out"),
    (asyncio.CancelledError, "abandoned"),
)


class Observer:
    """Told of what is asked; overrides what it wants to hear. Nothing here may raise."""

    def on_identified(self, caller: Caller) -> None:
        """It is known who asks."""

    def on_waiting(self, delta: int) -> None:
        """So many questions more wait for their turn."""

    def on_running(self, delta: int) -> None:
        """So many questions more are being answered."""

    def on_ended(self, caller: Caller, outcome: Outcome, took_s: float) -> None:
        """One question has ended; it may have asked the knowledge base several things, or none."""

    def on_answered(self, kind: str, text: str, access: Access, answer: AnyAnswer) -> None:
        """The knowledge base has answered; called on its thread, in the context of the question."""


class ObserverGroup:
    """All observers of a service."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def notify_identified(self, caller: Caller) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.on_identified(caller)

    def notify_unauthenticated(self, caller: Caller) -> None:
        """Tell that nothing could be asked, for it is not known who asks."""
        for observer in self._observers:
            observer.on_ended(caller, "unauthenticated", 0.0)

    def notify_answered(self, kind: str, text: str, access: Access, answer: AnyAnswer) -> None:
        """See `Observer`."""
        for observer in self._observers:
            observer.on_answered(kind, text, access, answer)

    @contextmanager
    def observe_query(self, caller: Caller) -> Iterator[None]:
        """Tell how the question inside ends, and how long it took."""
        start_s = time.perf_counter()
        outcome: Outcome = "ok"
        try:
            yield
        except BaseException as error:
            outcome = outcome_of(error)
            raise
        finally:
            for observer in self._observers:
                observer.on_ended(caller, outcome, time.perf_counter() - start_s)

    @contextmanager
    def track_waiting(self) -> Iterator[None]:
        """What is inside waits for its turn."""
        self._notify_waiting(1)
        try:
            yield
        finally:
            self._notify_waiting(-1)

    @contextmanager
    def track_running(self) -> Iterator[None]:
        """What is inside is being answered."""
        self._notify_running(1)
        try:
            yield
        finally:
            self._notify_running(-1)

    def _notify_waiting(self, delta: int) -> None:
        for observer in self._observers:
            observer.on_waiting(delta)

    def _notify_running(self, delta: int) -> None:
        for observer in self._observers:
            observer.on_running(delta)


def outcome_of(error: BaseException) -> Outcome:
    """How a question has ended that has raised this."""
    for cls, outcome in _OUTCOMES:
        if isinstance(error, cls):
            return outcome
    return "failed"
