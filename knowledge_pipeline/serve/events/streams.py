"""Streams of server-sent events: how many are open, what they send, and when they end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager, suppress

from knowledge_pipeline.errors import InvalidQuery, KnowledgeError, TooManyRequests
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.events.follower import EventFollower
from knowledge_pipeline.serve.service import Identity
from knowledge_pipeline.store.events.log import Event

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
    """The streams of one application, which end with it."""

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
        """The text after a position, until the server ends, the client goes, or `identify` raises.

        `identify` returns who the caller is now; without `follow` it ends after what there is.
        """
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
