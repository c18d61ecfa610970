"""Delivers events to webhooks: at least once, in order for each target, by one process of a store's server.

A target that does not answer holds up its own events alone; whoever refreshes never waits for it. The next
event of a target is sent when the one before was taken, or given up after three days.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import filelock
import httpx2

from knowledge_pipeline.endpoints.endpoint import get_ssl_context
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.serve.events.follower import EventFollower
from knowledge_pipeline.serve.events.signatures import build_headers
from knowledge_pipeline.serve.events.targets import Target, TargetPosition, remove_other_positions
from knowledge_pipeline.store.events.log import Event
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.times import parse_retry_after

TIMEOUT_S = 15.0  # of one attempt
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 600.0  # between two attempts, each twice the one before
MAX_RETRY_AFTER_S = 3_600.0
MAX_AGE = timedelta(days=3)  # of an event that is tried again
TURN_S = 2.0  # how often other processes look whether this one has ended

_GONE = "it answered 410"

_log = logging.getLogger(__name__)


class WebhookDeliveries:
    """The deliveries of one process, for one event loop. `close` ends them, `start` goes on."""

    def __init__(self, lake: Lake, targets: Sequence[Target], follower: EventFollower) -> None:
        self._folder = lake.folder / "events"
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
            self._folder.mkdir(parents=True, exist_ok=True)
            turn = filelock.FileLock(self._folder / "deliver.lock", timeout=0)
            while True:
                with suppress(filelock.Timeout):
                    turn.acquire()
                    break
                await asyncio.sleep(TURN_S)
        except OSError as error:
            _log.error("no webhook is told of events, as the store's folder fails: %s", error.strerror)
            return
        try:
            remove_other_positions(self._folder, self._targets)
            async with httpx2.AsyncClient(timeout=TIMEOUT_S, verify=get_ssl_context()) as client:
                await asyncio.gather(*(self._follow(client, target) for target in self._targets))
        finally:
            turn.release()

    async def _follow(self, client: httpx2.AsyncClient, target: Target) -> None:
        """Deliver what comes; the first time, from now on."""
        saved = TargetPosition(self._folder, target)
        position = saved.load()
        while True:
            try:
                if position is None:
                    position = await self._follower.find_newest()
                    saved.save(position)
                for event in await self._follower.read_after(position):
                    if target.wants(event) and not await _deliver(client, target, event):
                        return
                    position = event.position
                    saved.save(position)
            except KnowledgeError as error:
                _log.warning("events cannot be read for the webhook at %s: %s", target.host, error)
            except OSError as error:
                problem = error.strerror or type(error).__name__
                _log.warning("a delivery to %s may be repeated, as the disk fails: %s", target.host, problem)
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
