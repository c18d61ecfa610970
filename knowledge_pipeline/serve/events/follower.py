"""Notices new events of a store, whichever process recorded them, once for all who follow it."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from knowledge_pipeline.store.events.log import (
    Event,
    find_newest_position,
    read_event_stamp,
    read_events,
    record_missing_releases,
)
from knowledge_pipeline.store.lake import Lake

LOCAL_INTERVAL_S = 0.5  # between two looks at a folder of this machine: a few file names
REMOTE_INTERVAL_S = 5.0  # at an object store: two listings

_MAX_KEPT = 1_000  # events in memory, for those who are nearly up to date


class EventFollower:
    """The events of one store, for one event loop. Nothing is read while nobody asks."""

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
        """The events after a position, in order.

        Raises:
            StoreUnavailable: the object store does not answer.
        """
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
