"""What all doors share: the knowledge base, who may ask it, how often, and for how long.

A door finds out who calls with `identify`, and asks with `ask`; nothing else of it touches content.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import ConfigError, Forbidden, KnowledgeError, ResponseTimeout, Unauthenticated
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.serve.logs import LogObserver
from knowledge_pipeline.serve.observers import Observer, ObserverGroup
from knowledge_pipeline.serve.rate_limits import RequestLimiter
from knowledge_pipeline.serve.tokens import Scope, Token, TokenStore
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.serve.metrics import Metrics
    from knowledge_pipeline.serve.tracing import TracingObserver

_log = logging.getLogger(__name__)

Interface = Literal["http", "mcp", "page"]
ResultT = TypeVar("ResultT")

_SIGN_IN = "a token is needed: send it as `Authorization: Bearer TOKEN`; `knowledge token create` makes one"
_SIGN_IN_AGAIN = "the token is not known, expired or revoked: `knowledge token create` makes a new one"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request comes from, as far as the connection itself tells."""

    interface: Interface
    address: str | None  # of the peer; None: a pipe
    forwarded: bool = False  # by a proxy, so that the address is the proxy's
    host: str = ""  # that the client believes it talks to, without the port

    @property
    def is_local(self) -> bool:
        """Whether a program of this machine asks this machine, with no proxy or foreign name between."""
        named = self.host == "localhost" or is_loopback(self.host)
        return not self.forwarded and named and self.address is not None and is_loopback(self.address)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks: what they may see and do, and how often."""

    access: Access
    scopes: frozenset[Scope]
    rate_limit_key: str  # whose rate it is: a token's id, or an address
    requests_per_minute: int

    def require_scope(self, scope: Scope) -> None:
        """Raise `Forbidden` unless the asker has the scope."""
        if scope not in self.scopes:
            raise Forbidden(f"this needs the scope {scope!r}: make a token with `--scope {scope}`")


class Service:
    """One store behind doors, for as long as a server runs. `close` ends it."""

    def __init__(self, settings: Settings, *, config: Path | None = None) -> None:
        self.settings = settings
        self.config = config  # the knowledge.yaml that the settings are from
        self.metrics = _create_metrics(settings)
        self.traces = _create_traces(settings)
        observers = (each for each in (self.metrics, self.traces, LogObserver(settings.serve)) if each)
        self._observers = ObserverGroup(tuple[Observer, ...](observers))
        heard = self._observers.notify_answered
        self.base = KnowledgeBase(settings, access=Access.public(), audited=True, heard=heard)
        self.tokens = TokenStore(Lake(settings.store))
        self._request_limiter = RequestLimiter()
        self._concurrency = asyncio.Semaphore(settings.serve.max_concurrent)

    def identify(self, token: str | None, origin: Origin) -> Identity:
        """Who asks, by token or, without one, by where from.

        Raises:
            Unauthenticated: a token is needed, or this one is not valid.
        """
        try:
            asker = self._resolve_identity(token, origin)
        except Unauthenticated:
            self._observers.notify_unauthenticated(Caller(origin.interface))
            raise
        self._observers.notify_identified(asker.access.caller)
        return asker

    async def execute(
        self, identity: Identity, operation: Callable[[], Awaitable[ResultT]], *, scope: Scope = "query"
    ) -> ResultT:
        """The answer to what is asked of `base` with the asker's access, once it may be asked.

        Raises:
            Forbidden: the asker lacks the scope.
            TooManyRequests: the asker has asked too often.
            AnswerTimedOut: it took too long.
            KnowledgeError: what the question itself raises.
        """
        with self._observers.observe_query(identity.access.caller):
            identity.require_scope(scope)
            self._request_limiter.acquire(identity.rate_limit_key, per_minute=identity.requests_per_minute)
            timeout_s = self.settings.serve.timeout_s
            try:
                async with asyncio.timeout(timeout_s), self._slot():
                    return await operation()
            except TimeoutError:
                raise ResponseTimeout(
                    f"there was no answer within {timeout_s:g} s: ask for less, or later"
                ) from None

    async def warm(self) -> None:
        """Read the indexes, and load a local model, before the first question has to wait for them."""
        try:
            await self.base.aprewarm()
            if self.settings.embedding.provider == "local":
                await self.base.ahealth()
        except (KnowledgeError, OSError, RuntimeError) as error:  # a question that meets it will tell
            _log.debug("not warmed up: %s", type(error).__name__)

    def close(self) -> None:
        """Free the threads and write the rest of the logs."""
        self.base.close()
        if self.traces:
            self.traces.close()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """What is inside is answered, together with others, as many as may be at once."""
        with self._observers.track_waiting():
            await self._concurrency.acquire()
        try:
            with self._observers.track_running():
                yield
        finally:
            self._concurrency.release()

    def _resolve_identity(self, token: str | None, origin: Origin) -> Identity:
        if token is None:
            return self._identity_of_anonymous(origin)
        held = self.tokens.verify_secret(token)
        if held is None:
            raise Unauthenticated(_SIGN_IN_AGAIN)
        return self._identity_of_token(held, origin)

    def _identity_of_token(self, token: Token, origin: Origin) -> Identity:
        access = token.access(Caller(origin.interface, token.id))
        per_minute = token.requests_per_minute or self.settings.serve.requests_per_minute
        return Identity(access, token.scopes, f"token {token.id}", per_minute)

    def _identity_of_anonymous(self, origin: Origin) -> Identity:
        """Whoever asks from this machine could read the files; others see at most what is public."""
        serve, caller = self.settings.serve, Caller(origin.interface)
        if serve.anonymous == "loopback" and is_loopback(serve.host) and origin.is_local:
            access = Access(None, frozenset(), everything=True, caller=caller)
        elif serve.anonymous == "public":
            access = Access(None, frozenset(), caller=caller)
        else:
            raise Unauthenticated(_SIGN_IN)
        return Identity(access, frozenset({"query"}), f"address {origin.address}", serve.requests_per_minute)


def _create_metrics(settings: Settings) -> Metrics | None:
    if not settings.serve.metrics:
        return None
    from knowledge_pipeline.serve.metrics import Metrics

    return Metrics(settings)


def _create_traces(settings: Settings) -> TracingObserver | None:
    """Raises `ConfigError`: the packages are not installed."""
    if settings.serve.traces.endpoint is None:
        return None
    if find_spec("opentelemetry.sdk") is None or find_spec("openinference") is None:
        raise ConfigError(
            "serve.traces needs packages that are not installed: pip install 'knowledge-pipeline[tracing]'"
        )
    from knowledge_pipeline.serve.tracing import TracingObserver

    return TracingObserver(settings.serve.traces)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and can be reached from nowhere else."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
