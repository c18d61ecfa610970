"""What metrics, traces and logs learn of each query."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Literal

from knowledge_pipeline import errors
from knowledge_pipeline.contract.responses import GraphResponse, RelationsResponse, SearchResponse
from knowledge_pipeline.query.access import Access, Caller

Outcome = Literal[
    "ok",
    "invalid",
    "not_found",
    "unauthenticated",
    "forbidden",
    "rate_limited",
    "unidentified",  # the identity server does not answer
    "timeout",
    "overloaded",
    "cancelled",  # the client no longer waits for the response
    "error",
]
AnyResponse = SearchResponse | GraphResponse | RelationsResponse

_OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (errors.InvalidQuery, "invalid"),
    (errors.ConfigError, "invalid"),
    (errors.NotFound, "not_found"),
    (errors.Unauthenticated, "unauthenticated"),
    (errors.Forbidden, "forbidden"),
    (errors.TooManyRequests, "rate_limited"),
    (errors.IdentityUnavailable, "unidentified"),
    (errors.ResponseTimeout, "timeout"),
    (errors.Overloaded, "overloaded"),
    (asyncio.CancelledError, "cancelled"),
)


class Observer:
    """Learns of queries; overrides the methods that it needs. None of them may raise."""

    def on_identified(self, caller: Caller) -> None:
        """The sender of a request is known."""

    def on_queued(self, delta: int) -> None:
        """The number of queries that wait for their turn has changed by `delta`."""

    def on_running(self, delta: int) -> None:
        """The number of queries that are being answered has changed by `delta`."""

    def on_ended(self, caller: Caller, outcome: Outcome, took_s: float) -> None:
        """A query has ended; it may have asked the knowledge base several times, or not at all."""

    def on_answered(self, kind: str, text: str, access: Access, answer: AnyResponse) -> None:
        """The knowledge base has answered; called on its thread, in the context of the query."""


class Observers:
    """All observers of a service."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = tuple(observers)

    def notify(self, call: Callable[[Observer], None]) -> None:
        """Call each observer."""
        for observer in self._observers:
            call(observer)

    def notify_answered(self, kind: str, text: str, access: Access, answer: AnyResponse) -> None:
        """See `Observer.on_answered`."""
        self.notify(lambda observer: observer.on_answered(kind, text, access, answer))

    @contextmanager
    def observe_query(self, caller: Caller) -> Generator[None]:
        """Report how the query inside ends, and how long it took."""
        start_s = time.perf_counter()
        outcome: Outcome = "ok"
        try:
            yield
        except BaseException as error:
            outcome = outcome_of(error)
            raise
        finally:
            took_s = time.perf_counter() - start_s
            self.notify(lambda observer: observer.on_ended(caller, outcome, took_s))

    @contextmanager
    def count(self, change: Callable[[Observer, int], None]) -> Generator[None]:
        """Report one query more, and at the end one less, by `on_queued` or `on_running`."""
        self.notify(lambda observer: change(observer, 1))
        try:
            yield
        finally:
            self.notify(lambda observer: change(observer, -1))


def outcome_of(error: BaseException) -> Outcome:
    """How a query has ended that raised an error."""
    for cls, outcome in _OUTCOMES:
        if isinstance(error, cls):
            return outcome
    return "error"
