"""What all interfaces share: the knowledge base, who may query it, how often, and for how long.

An interface identifies callers with `identify` and queries with `execute`; nothing else touches content.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar
from weakref import WeakValueDictionary

from knowledge_pipeline.config.operation import ServeSettings, is_loopback
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.usage_labels import HEADER_NAMES, UsageLabels, read_labels
from knowledge_pipeline.errors import (
    Forbidden,
    IdentityUnavailable,
    KnowledgeError,
    NotFound,
    Overloaded,
    ResponseTimeout,
    StoreUnavailable,
    TooManyRequests,
    Unauthenticated,
)
from knowledge_pipeline.extras import require_modules
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.query.logs import RefusalLog
from knowledge_pipeline.serve.logs import LogObserver
from knowledge_pipeline.serve.observers import Observers, outcome_of
from knowledge_pipeline.serve.shared_answers import SharedAnswerCache
from knowledge_pipeline.serve.targets import parse_targets
from knowledge_pipeline.serve.tokens import OWN_PREFIX, Scope, TokenStore, read_bearer_token
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.local_state import WINDOW_S, SharedState

if TYPE_CHECKING:
    from knowledge_pipeline.serve.metrics import Metrics
    from knowledge_pipeline.serve.sign_in import OidcAuthenticator
    from knowledge_pipeline.serve.status import SourceStates
    from knowledge_pipeline.serve.tracing import TracingObserver


Interface = Literal["http", "mcp", "page"]
ResultT = TypeVar("ResultT")

_LABEL_HEADERS = {label: name.lower() for label, name in HEADER_NAMES.items()}
_REFUSALS = (Unauthenticated, Forbidden, NotFound, TooManyRequests, IdentityUnavailable)

_SIGN_IN = "a token is required: send it as `Authorization: Bearer TOKEN`; `knowledge token create` makes one"
_SIGN_IN_AGAIN = "the token is not known, expired or revoked: `knowledge token create` makes a new one"
_WEIGHT = 0.05  # of the newest query in the mean of `Admission`: the last fifty or so count
_MIN_SAMPLES = 20  # of `Admission`; before that nothing is refused: the first queries load models

_log = logging.getLogger(__name__)


class RequestLimiter:
    """Requests of the last minute by caller, of one process or of all that share a state."""

    def __init__(self, state: SharedState | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._clock = state, clock
        self._asked_s: dict[str, deque[float]] = {}  # by key, the latest caller last

    def acquire(self, key: str, *, per_minute: int) -> None:
        """Count one request. Raises `TooManyRequests`: there were `per_minute` within the last minute."""
        wait_s = self._count(key, per_minute)
        if wait_s is not None:
            raise TooManyRequests(
                f"more than {per_minute} requests within a minute: try again in {wait_s:.0f} s", wait_s
            )

    def _count(self, key: str, per_minute: int) -> float | None:
        """Count a request; where it is one too many, the seconds until it is not."""
        if self._state:
            try:
                return self._state.count_request(key, per_minute=per_minute)
            except StoreUnavailable as error:  # a limit for each process, instead of none
                _log.warning("rates are limited by each worker alone: %s", error)
        now_s = self._clock()
        asked_s = self._asked_s[key] = self._asked_s.pop(key, None) or deque[float]()
        while asked_s and asked_s[0] <= now_s - WINDOW_S:
            asked_s.popleft()
        if len(asked_s) >= per_minute:
            return asked_s[-per_minute] + WINDOW_S - now_s
        asked_s.append(now_s)
        while (last := next(iter(self._asked_s.values()))) and last[-1] <= now_s - WINDOW_S:
            del self._asked_s[next(iter(self._asked_s))]  # who has not asked within the window
        return None


class CallerShares:
    """How many requests of one caller run at once: more of the same caller wait, without delaying others.

    What a caller asks holds processors, not only time, so a rate alone lets one caller take all of them.
    So many may wait, and no more.
    """

    def __init__(self, most: int | None, *, max_waiting: int = 100) -> None:
        self._most, self._max_waiting = most or max(2, (cpu_count() or 1) // 2), max_waiting
        self._slots = WeakValueDictionary[str, asyncio.Semaphore]()  # of the callers that ask now
        self._waiting = Counter[str]()

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncGenerator[None]:
        """Wait for one of a caller's slots, and hold it. Raises `Overloaded`: too many wait already."""
        slots = self._slots.get(key)
        if slots is None:
            slots = self._slots[key] = asyncio.Semaphore(self._most)
        if slots.locked() and self._waiting[key] >= self._max_waiting:
            raise Overloaded(
                f"{self._waiting[key]} of your requests wait already: send fewer at once", retry_after_s=1.0
            )
        self._waiting[key] += 1
        try:
            await slots.acquire()
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
        try:
            yield
        finally:
            slots.release()


class RecentCallers:
    """The callers of the last seconds: whether one's queries may keep another one waiting."""

    def __init__(self, window_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._window_s, self._clock = window_s, clock
        self._asked_s: dict[str, float] = {}

    def note(self, key: str) -> None:
        """Note that a caller sends a query."""
        now_s = self._clock()
        self._asked_s.pop(key, None)
        self._asked_s[key] = now_s  # last, so that the first is the one that asked longest ago
        while now_s - next(iter(self._asked_s.values())) > self._window_s:
            del self._asked_s[next(iter(self._asked_s))]

    @property
    def are_several(self) -> bool:
        """Whether more than one has asked within the window."""
        now_s = self._clock()
        return sum(now_s - asked_s <= self._window_s for asked_s in self._asked_s.values()) > 1


class Admission:
    """The queries that wait for one of the slots of all callers, and how fast they go. For one event loop.

    A query is refused at once if those before it will take longer than it may wait: a caller that waits in
    vain holds a slot meanwhile and tries again at once; one that is told when to come back costs nothing.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiting = 0
        self._samples = 0
        self._mean_s = 0.0  # from the end of one query to that of the next, while others wait
        self._ended_s: float | None = None  # when the last one ended, if others waited then

    @contextmanager
    def wait(self) -> Generator[None]:
        """Count a query as waiting, inside. Raises `Overloaded` if its turn would come too late."""
        wait_s = self.estimate_wait_s()
        if wait_s > self._timeout_s:
            raise Overloaded(
                f"{self._waiting} queries wait already, for about {wait_s:.0f} s: try again later",
                retry_after_s=wait_s - self._timeout_s / 2,
            )
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def estimate_wait_s(self) -> float:
        """How long a query that comes now would wait, in seconds; 0 while little is known."""
        return self._waiting * self._mean_s if self._samples >= _MIN_SAMPLES else 0.0

    def note_ended(self, now_s: float) -> None:
        """A query was answered, at a time that only grows."""
        if self._ended_s is not None:
            self._samples += 1
            weight = max(_WEIGHT, 1 / self._samples)
            self._mean_s += weight * (now_s - self._ended_s - self._mean_s)
        self._ended_s = now_s if self._waiting else None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request comes from, as far as the connection shows."""

    interface: Interface
    address: str | None  # of the peer; None: a pipe
    forwarded: bool = False  # by a proxy, so that the address is the proxy's
    host: str = ""  # the host that the client addressed, without the port

    @property
    def is_local(self) -> bool:
        """Whether a program of this machine sent it, through no proxy and under no foreign name."""
        is_local_name = self.host == "localhost" or is_loopback(self.host)
        return not self.forwarded and is_local_name and self.address is not None and is_loopback(self.address)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends a request: what they may see and do, and how often."""

    access: Access
    scopes: frozenset[Scope]
    rate_limit_key: str  # whose rate it is: a token's id, or an address
    requests_per_minute: int
    address: str | None = None  # of a peer without a token

    def with_labels(self, labels: UsageLabels) -> Identity:
        """The same sender, with labels for the logs: see `Access.with_labels`."""
        access = self.access.with_labels(labels)
        return self if access is self.access else replace(self, access=access)

    def require_scope(self, scope: Scope) -> None:
        """Raise `Forbidden` without the scope."""
        if scope not in self.scopes:
            raise Forbidden(f"this requires the scope {scope!r}: make a token with `--scope {scope}`")


class Service:
    """One store behind all interfaces, for as long as a server runs. `close` ends it."""

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None = None,
        state: SharedState | None = None,
        choose_lake: Callable[[], Lake] | None = None,
    ) -> None:
        """Open the store; with a `state`, limits, answers and sessions are those of all workers.

        `choose_lake` is for a server of one working tree: see `AsyncKnowledgeBase`.
        """
        self.settings = settings
        self.state = state
        self.config = config  # the knowledge.yaml that the settings are from
        self.metrics = _create_metrics(settings)
        self.traces = _create_traces(settings)
        observers = (self.metrics, self.traces, LogObserver(settings.serve))
        self._observers = Observers(observer for observer in observers if observer)
        self._callers = RecentCallers()
        self.base = AsyncKnowledgeBase(
            settings,
            config=config,
            access=Access.public(),
            audited=True,
            heard=self._observers.notify_answered,
            is_shared=lambda: settings.serve.background and self._callers.are_several,
            cache=SharedAnswerCache(settings.query.cache, state) if state else None,
            choose_lake=choose_lake,
        )
        self._refusals = RefusalLog(Lake(settings.store)) if settings.logs.queries else None
        if self.metrics:
            self.metrics.register_query_log(
                lambda: self.base.is_logging and not (self._refusals and self._refusals.is_failing)
            )
        self.event_targets = parse_targets(settings.events)
        self.tokens = TokenStore(Lake(settings.store))
        self.oidc = _create_oidc(settings, state)
        self._request_limiter = RequestLimiter(state)
        self._concurrency = asyncio.Semaphore(settings.serve.max_concurrent)
        serve = settings.serve
        self._shares = CallerShares(serve.max_concurrent_per_caller, max_waiting=serve.max_concurrent)
        self._admission = Admission(timeout_s=settings.serve.timeout_s)

    @cached_property
    def source_states(self) -> SourceStates:
        """The states of the sources, for those who ask for their list."""
        from knowledge_pipeline.serve.status import SourceStates  # and SQL models

        return SourceStates(self.settings, self.config)

    def identify(self, token: str | None, origin: Origin) -> Identity:
        """Who sends a request, by token or, without one, by origin; it may wait for the identity server.

        Raises `Unauthenticated`, `Forbidden` for whom the identity server knows, or `IdentityUnavailable`.
        """
        return self._identify(lambda: token, origin)

    def identify_headers(
        self, headers: Mapping[str, str], origin: Origin, *, cookie: str | None = None
    ) -> Identity:
        """Who sends a request, by the token in its headers or else in its cookie; see `identify`.

        Other headers may label it. Raises `InvalidQuery`: one has no label.
        """
        identity = self._identify(lambda: read_bearer_token(headers) or cookie or None, origin)
        return identity.with_labels(read_labels(headers, _LABEL_HEADERS))

    @property
    def identifies_at_once(self) -> bool:
        """Whether `identify` waits for nothing now, so that no thread is needed for it."""
        return self.oidc is None and self.tokens.are_read

    def _identify(self, read_token: Callable[[], str | None], origin: Origin) -> Identity:
        with self.observe_identification(origin):
            identity = self._resolve_identity(read_token(), origin)
        self._observers.notify(lambda observer: observer.on_identified(identity.access.caller))
        return identity

    @contextmanager
    def observe_identification(self, origin: Origin) -> Generator[None]:
        """Log and count a refusal inside."""
        caller = Caller(origin.interface)
        try:
            with self._log_refusals(Access(None, frozenset(), caller=caller), origin.address):
                yield
        except _REFUSALS as error:
            outcome = outcome_of(error)
            self._observers.notify(lambda observer: observer.on_ended(caller, outcome, 0.0))
            raise

    @contextmanager
    def _log_refusals(self, access: Access, address: str | None) -> Generator[None]:
        try:
            yield
        except _REFUSALS as error:
            if self._refusals:
                if subject := getattr(error, "subject", None):
                    access, address = replace(access, caller=replace(access.caller, token=subject)), None
                self._refusals.record(outcome_of(error), str(error), access, address)
            raise

    async def execute(
        self, identity: Identity, operation: Callable[[], Awaitable[ResultT]], *, scope: Scope = "query"
    ) -> ResultT:
        """The result of an operation on `base`, which has to use the access of the identity.

        Raises `Forbidden` without the scope, `TooManyRequests`, `Overloaded`, `ResponseTimeout`, or what the
        operation raises.
        """
        observed = self._observers.observe_query(identity.access.caller)
        with observed, self._log_refusals(identity.access, identity.address):
            identity.require_scope(scope)
            self._request_limiter.acquire(identity.rate_limit_key, per_minute=identity.requests_per_minute)
            self._callers.note(identity.rate_limit_key)
            timeout_s, is_running = self.settings.serve.timeout_s, False
            try:
                async with asyncio.timeout(timeout_s), self._slot(identity.rate_limit_key):
                    is_running = True
                    return await operation()
            except TimeoutError:
                if not is_running:
                    waited = f"its turn did not come within {timeout_s:g} s: try again later"
                    raise Overloaded(waited, retry_after_s=timeout_s / 2) from None
                raise ResponseTimeout(
                    f"there was no response within {timeout_s:g} s: request less, or try later"
                ) from None

    def require_scope(self, identity: Identity, scope: Scope) -> None:
        """Log it and raise `Forbidden` without the scope, for what is no operation on `base`."""
        with self._log_refusals(identity.access, identity.address):
            identity.require_scope(scope)

    def log_unknown_address(self, headers: Mapping[str, str], origin: Origin) -> None:
        """Log a request for an address that is none of the API's: it may have been meant as an id."""
        access, address = Access(None, frozenset(), caller=Caller(origin.interface)), origin.address
        with suppress(Unauthenticated, Forbidden, IdentityUnavailable):  # the address counts as the sender
            identity = self._resolve_identity(read_bearer_token(headers), origin)
            access, address = identity.access, identity.address
        with suppress(NotFound), self._log_refusals(access, address):
            raise NotFound("there is no such address")

    async def warm(self) -> None:
        """Read the indexes, and load a local model, before the first query has to wait for them."""
        if self.oidc:
            self.oidc.warm()
        try:
            await self.base.prewarm()
            if self.settings.embedding.provider == "local":
                await self.base.health()
        except (KnowledgeError, OSError, RuntimeError) as error:  # the first query reports it
            _log.debug("not warmed up: %s", type(error).__name__)

    def close(self) -> None:
        """Free the threads and write the rest of the logs."""
        self.base.close()
        if self._refusals:
            self._refusals.close()
        if self.traces:
            self.traces.close()
        if self.oidc:
            self.oidc.close()

    @asynccontextmanager
    async def _slot(self, key: str) -> AsyncGenerator[None]:
        """Wait for one of the slots of the caller, then for one of all that run at once, and hold both."""
        async with AsyncExitStack() as slots:
            with self._observers.count(lambda observer, delta: observer.on_queued(delta)):
                await slots.enter_async_context(self._shares.hold(key))
                with self._admission.wait():
                    await slots.enter_async_context(self._concurrency)
            with self._observers.count(lambda observer, delta: observer.on_running(delta)):
                try:
                    yield
                finally:
                    self._admission.note_ended(time.monotonic())

    def _resolve_identity(self, secret: str | None, origin: Origin) -> Identity:
        """Callers without a token see only what is public: a proxy can look like a local program."""
        serve, per_minute = self.settings.serve, self.settings.serve.requests_per_minute
        if secret is None:
            if serve.anonymous != "public" and not (answers_this_machine(serve) and origin.is_local):
                raise Unauthenticated(_SIGN_IN)
            access = Access(None, frozenset(), caller=Caller(origin.interface))
            key = f"address {origin.address}"
            return Identity(access, frozenset({"query"}), key, per_minute, origin.address)
        if self.oidc and not secret.startswith(OWN_PREFIX):
            subject = self.oidc.identify(secret)
            access = subject.access_by(origin.interface)
            return Identity(access, subject.scopes, f"subject {subject.id}", per_minute)
        token = self.tokens.verify_secret(secret)
        if token is None:
            raise Unauthenticated(_SIGN_IN_AGAIN)
        access = token.access(Caller(origin.interface, token.id))
        return Identity(access, token.scopes, f"token {token.id}", token.requests_per_minute or per_minute)


def _create_metrics(settings: Settings) -> Metrics | None:
    if not settings.serve.metrics:
        return None
    from knowledge_pipeline.serve.metrics import Metrics

    return Metrics(settings)


def _create_traces(settings: Settings) -> TracingObserver | None:
    """Raises `ConfigError`: the packages are not installed."""
    if settings.serve.traces.endpoint is None:
        return None
    require_modules("serve.traces", "opentelemetry.sdk", "openinference")
    from knowledge_pipeline.serve.tracing import TracingObserver

    return TracingObserver(settings.serve.traces)


def _create_oidc(settings: Settings, state: SharedState | None) -> OidcAuthenticator | None:
    if settings.serve.oidc is None:
        return None
    require_modules("serve.oidc", "jwt")
    from knowledge_pipeline.serve.sign_in import OidcAuthenticator

    return OidcAuthenticator(settings.serve.oidc, state)


def answers_this_machine(serve: ServeSettings) -> bool:
    """Whether programs of this machine, and no others, are answered without a token."""
    return serve.anonymous == "loopback" and is_loopback(serve.host)
