"""Tells subscribers what happened in a store: over a stream of the server, and by webhooks."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import filelock
import httpx2

from knowledge_pipeline.contract.filters import EventType
from knowledge_pipeline.endpoints import get_ssl_context
from knowledge_pipeline.errors import InvalidQuery, KnowledgeError, StoreUnavailable, TooManyRequests
from knowledge_pipeline.query.access import Access, DeclaredSources
from knowledge_pipeline.serve.service import Identity
from knowledge_pipeline.serve.targets import Target, TargetPosition, build_headers, remove_other_positions
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import (
    Event,
    find_newest_position,
    read_event_stamp,
    read_events,
    record_missing_releases,
)
from knowledge_pipeline.times import parse_retry_after

LOCAL_INTERVAL_S = 0.5  # between two looks at a folder of this machine: a few file names
REMOTE_INTERVAL_S = 5.0  # at an object store: two listings

_MAX_KEPT = 1_000  # events in memory, for those who are nearly up to date

_log = logging.getLogger(__name__)


class EventFollower:
    """Notices new events of a store, whichever process recorded them, once for all who follow it.

    For one event loop. Nothing is read while nobody asks.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.interval_s = LOCAL_INTERVAL_S if lake.is_local else REMOTE_INTERVAL_S
        self._lock = asyncio.Lock()
        self._checked_s = float("-inf")
        self._stamp: object = None
        self._newest: int | None = None  # position
        self._kept: deque[Event] = deque(maxlen=_MAX_KEPT)
        self._kept_after = 0  # position after which all are kept

    async def find_newest(self) -> int:
        """The position of the newest event; 0 where there is none. Raises as `read_after` does."""
        await self._look()
        return self._newest or 0

    async def read_after(self, position: int) -> list[Event]:
        """The events after a position, in order. Raises StoreUnavailable: the object store is away."""
        await self._look()
        if position >= (self._newest or 0):
            return []
        if position >= self._kept_after:
            return [event for event in self._kept if event.position > position]
        return await asyncio.to_thread(read_events, self._lake, after=position)

    async def _look(self) -> None:
        async with self._lock:
            if time.monotonic() < self._checked_s + self.interval_s:
                return
            stamp = await asyncio.to_thread(read_event_stamp, self._lake)
            if stamp != self._stamp:
                await asyncio.to_thread(self._load_new_events)
                self._stamp = stamp  # of before: what comes meanwhile is read the next time
            self._checked_s = time.monotonic()

    def _load_new_events(self) -> None:
        record_missing_releases(self._lake)
        if self._newest is None:
            self._newest = self._kept_after = find_newest_position(self._lake)
            return
        for event in read_events(self._lake, after=self._newest):
            if len(self._kept) == _MAX_KEPT:
                self._kept_after = self._kept[0].position
            self._kept.append(event)
            self._newest = event.position


TIMEOUT_S = 15.0  # of one attempt
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 600.0  # between two attempts, each twice the one before
MAX_RETRY_AFTER_S = 3_600.0
MAX_AGE = timedelta(days=3)  # of an event that is tried again
TURN_S = 2.0  # how often other processes look whether this one has ended

_GONE = "it answered 410"


class WebhookDeliveries:
    """Delivers events to webhooks: at least once, in order for each target, by one process of a server.

    A target that does not answer holds up its own events alone; a refresh never waits for it. The next event
    of a target is sent when the one before was taken, or given up after three days. For one event loop;
    `close` ends the deliveries, `start` goes on.
    """

    def __init__(self, lake: Lake, targets: Sequence[Target], follower: EventFollower) -> None:
        self._folder = lake.folder
        self._targets = targets
        self._follower = follower
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to deliver, when no other process does; nothing happens without a target."""
        if self._targets:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End; what was not taken yet is delivered by the next server."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        try:
            locks = self._folder / "locks"
            locks.mkdir(parents=True, exist_ok=True)
            turn = filelock.FileLock(locks / "deliver.lock", timeout=0)
            while True:
                with suppress(filelock.Timeout):
                    turn.acquire()
                    break
                await asyncio.sleep(TURN_S)
        except OSError as error:
            _log.error("no webhook is told of events, as the store's folder fails: %s", error.strerror)
            return
        try:
            with suppress(StoreUnavailable):
                remove_other_positions(self._folder, self._targets)
            async with httpx2.AsyncClient(timeout=TIMEOUT_S, verify=get_ssl_context()) as client:
                await asyncio.gather(*(self._follow(client, target) for target in self._targets))
        finally:
            turn.release()

    async def _follow(self, client: httpx2.AsyncClient, target: Target) -> None:
        """Deliver what comes; the first time, from now on."""
        saved, position = TargetPosition(self._folder, target), None
        while True:
            try:
                if position is None:
                    position = saved.load()
                if position is None:
                    position = await self._follower.find_newest()
                    saved.save(position)
                for event in await self._follower.read_after(position):
                    if target.wants(event) and not await _deliver(client, target, event):
                        return
                    position = event.position
                    saved.save(position)
            except (KnowledgeError, OSError) as error:
                _log.warning("events cannot be read for the webhook at %s: %s", target.host, error)
            await asyncio.sleep(self._follower.interval_s)


async def _deliver(client: httpx2.AsyncClient, target: Target, event: Event) -> bool:
    """Try until the target takes an event, or it is too old; False where the target wants no more."""
    body = json.dumps(event.as_json(), separators=(",", ":")).encode()
    pause_s, last_problem = FIRST_PAUSE_S, ""
    while True:
        headers = build_headers(target.key, event.id, int(time.time()), body)
        problem, wait_s = await _post(client, target, headers, body)
        if problem is None:
            return True
        if problem == _GONE:
            _log.error("the webhook at %s is told nothing more until a restart: it answered 410", target.host)
            return False
        if problem != last_problem:
            _log.warning(
                "the webhook at %s did not take %s, and is tried again: %s", target.host, event.type, problem
            )
            last_problem = problem
        if datetime.now(UTC) - event.at > MAX_AGE:
            _log.error("the webhook at %s is not told of %s (%s): too old", target.host, event.type, event.id)
            return True
        await asyncio.sleep(max(wait_s, pause_s * random.uniform(0.8, 1.2)))  # noqa: S311 - no secret
        pause_s = min(MAX_PAUSE_S, pause_s * 2)


async def _post(
    client: httpx2.AsyncClient, target: Target, headers: dict[str, str], body: bytes
) -> tuple[str | None, float]:
    """Why a target did not take a delivery, None where it did, and how long it asks to wait."""
    sent = {**headers, "Content-Type": "application/json", "User-Agent": "knowledge-pipeline"}
    try:
        async with client.stream("POST", target.url, content=body, headers=sent) as response:
            if response.is_success:
                return None, 0.0
            wait_s = parse_retry_after(response.headers.get("Retry-After")) or 0.0
            return f"it answered {response.status_code}", min(wait_s, MAX_RETRY_AFTER_S)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return f"it cannot be reached ({type(error).__name__})", 0.0


HEARTBEAT_S = 15.0  # between two comments, and between two checks of the caller's token
MAX_POSITION = 2**63 - 2
RECONNECT_MS = 2_000  # how long clients are told to wait before they connect again
STREAM_HEADERS = {"X-Accel-Buffering": "no"}  # a proxy sends on what it has

MAX_STREAMS = 100  # of one process, all callers together
MAX_STREAMS_PER_CALLER = 10

_COMMENT = b": still here\n\n"

EventWriter = Callable[[Sequence[Event], Access], Sequence[bytes]]
"""The text of new events, perhaps none, as far as a caller may see them; called now and then, in a thread."""


class EventStreams:
    """The streams of server-sent events of one application, which end with it."""

    def __init__(self, follower: EventFollower) -> None:
        self.follower = follower
        self.is_ending: Callable[[], bool] = lambda: False
        self._open: dict[str, int] = {}  # how many, by caller

    def require_room(self, caller: str) -> None:
        """Raise `TooManyRequests` where a caller has as many as they may, or all together have."""
        if self._open.get(caller, 0) >= MAX_STREAMS_PER_CALLER or sum(self._open.values()) >= MAX_STREAMS:
            raise TooManyRequests("too many streams of events are open: close some, or try later", 30.0)

    @contextmanager
    def hold(self, caller: str) -> Generator[None]:
        """Count one more, for as long as it is open."""
        self._open[caller] = self._open.get(caller, 0) + 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    async def iter_stream(
        self,
        identity: Identity,
        position: int,
        write: EventWriter,
        identify: Callable[[], Identity],
        *,
        follow: bool,
    ) -> AsyncGenerator[bytes]:
        """The text after a position, until the server ends, the client goes, or `identify` raises."""
        yield f"id: {position}\nretry: {RECONNECT_MS}\n\n".encode()  # so that who reconnects misses nothing
        key, access = identity.rate_limit_key, identity.access
        spoke_s = checked_s = time.monotonic()
        with self.hold(key), suppress(KnowledgeError):  # the client connects again
            while not self.is_ending():
                events = await self.follower.read_after(position)
                for text in await asyncio.to_thread(write, events, access):
                    yield text
                    spoke_s = time.monotonic()
                position = events[-1].position if events else position
                if not follow:
                    return
                if time.monotonic() >= checked_s + HEARTBEAT_S:
                    checked_s = time.monotonic()
                    access = (await asyncio.to_thread(identify)).access
                if time.monotonic() >= spoke_s + HEARTBEAT_S:
                    spoke_s = time.monotonic()
                    yield _COMMENT
                await asyncio.sleep(self.follower.interval_s)


def parse_position(last_event_id: str) -> int:
    """The position that the header `Last-Event-ID` names; raises `InvalidQuery`."""
    if last_event_id.isascii() and last_event_id.isdecimal() and int(last_event_id) <= MAX_POSITION:
        return int(last_event_id)
    raise InvalidQuery("Last-Event-ID is not the id of an event of this stream: leave it out to start now")


def iter_visible_events(
    events: Iterable[Event], access: Access, declared: DeclaredSources, types: Collection[EventType]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Positions and JSON of the events of some types, or of all, that a caller may see.

    Events count documents and hold errors, so those of a source are for its tenant, and who sees everything.
    That there is a new release is for everyone; what it holds is for those who see everything.
    """
    managed: set[str] | None = None
    for event in events:
        if types and event.type not in types:
            continue
        if access.everything:
            yield event.position, event.as_json()
        elif event.source is None:
            yield event.position, event.as_json({"release": event.release})
        else:
            if managed is None:
                sources = declared.list_known() if access.tenant else ()
                managed = {source.id for source in sources if source.access.tenant == access.tenant}
            if event.source in managed:
                yield event.position, event.as_json()
