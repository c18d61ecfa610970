"""Refreshes that a server has accepted: those that are due share a process, and one process runs at a time.

A server reads releases and knows no stage and no source, so a refresh neither slows its answers nor brings
it down. A request that a queued refresh covers adds no other one; a request that arrives while a refresh
runs starts one more, since the running one may have read the source already. What events ask for waits a
moment for others, while the process starts. Each refresh has an outcome of its own: sources that fail fail no
others, and are tried again where that may help. What is not done when a server ends, the next one does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import uuid
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from knowledge_pipeline.contract.filters import RefreshState
from knowledge_pipeline.contract.operation import Refresh
from knowledge_pipeline.errors import ConfigError, TooManyRequests
from knowledge_pipeline.serve.refresh_history import RefreshHistory, add_documents
from knowledge_pipeline.serve.refresh_process import ProcessOutcome, RefreshProcess
from knowledge_pipeline.store.local_state import SharedState
from knowledge_pipeline.times import format_duration

_log = logging.getLogger(__name__)


MAX_FINISHED = 100  # finished refreshes that are listed
MAX_QUEUED = 100
MAX_DOCUMENTS = 1_000  # of one refresh; where more are named, their sources are listed in full
GATHER_S = 1.0  # how long the refresh of an event waits for more events, while its process starts
RETRY_PAUSES_S = (30.0, 120.0, 600.0, 3_000.0)  # before each further try; then it is left to the next listing
GRACE_S = 5.0  # for a refresh to stop when the server does
CLI_COMMAND = (sys.executable, "-m", "knowledge_pipeline.cli.prepared")  # reads its arguments from stdin
_NOT_GATHERED = ("sync", "purge")  # somebody waits for it


class RefreshQueue:
    """The refreshes of one server, for one event loop. `close` ends them."""

    def __init__(
        self,
        config: Path | None,
        folder: Path,
        *,
        cli_command: Sequence[str] = CLI_COMMAND,
        state: SharedState | None = None,
    ) -> None:
        """Prepare; `folder` is the store's local one. With a `state`, workers take turns."""
        self._config = config
        self._history = RefreshHistory(folder)
        self._queued: deque[Refresh] = deque()
        self._running: list[Refresh] = []
        self._finished: deque[Refresh] = deque(maxlen=MAX_FINISHED)
        self.finished_counts: Counter[RefreshState] = Counter()  # how many, since the start
        self._worker: asyncio.Task[None] | None = None
        self._has_changed = asyncio.Event()  # the queue
        self._process = RefreshProcess(cli_command, folder / "locks" / "refreshes.lock" if state else None)
        self._closed = False

    def submit(self, sources: Iterable[str], reason: str, *, relist: bool = False) -> Refresh:
        """Queue a refresh of sources; return a queued one instead if it covers them.

        With `relist`, services are listed in full, to see what was deleted.

        Raises:
            ConfigError: the server was started without a knowledge.yaml.
            TooManyRequests: a hundred are queued already.
        """
        return self._add(self._build_refresh(tuple(dict.fromkeys(sources)), reason, relist=relist))

    def submit_documents(self, documents: Sequence[str], reason: str) -> Refresh:
        """Queue a refresh of documents, "SOURCE/URI", together with those that wait; raises as `submit` does.

        Where too many wait, their sources are listed in full instead.
        """
        return self._add(add_documents(self._build_refresh((), reason), documents))

    def submit_purge(self, source: str) -> Refresh:
        """Queue the purge of what is stored of a source; raises as `submit` does."""
        return self._enqueue(self._build_refresh((source,), "purge"))

    def note_event(self, refresh: Refresh, sources: Iterable[str], service: str, kind: str) -> None:
        """Keep that a service's event about sources came, and how the refresh that it caused ends."""
        self._history.record_event(refresh, sources, service, kind)

    def list_all(self) -> list[Refresh]:
        """Newest first: queued, running, finished."""
        own = self.list_own()
        own_ids = {refresh.id for refresh in own}
        every = [*own, *(refresh for refresh in self._history.list_all() if refresh.id not in own_ids)]
        return sorted(every, key=lambda item: item.requested_at, reverse=True)[: MAX_FINISHED + MAX_QUEUED]

    def list_own(self) -> list[Refresh]:
        """Those of this process, newest first: queued, running, finished."""
        return [*reversed(self._queued), *reversed(self._running), *reversed(self._finished)]

    def resume(self) -> None:
        """Queue what servers that have ended did not finish."""
        if self._config:
            self._queued += self._history.take_over()
        self._start_worker()

    async def close(self) -> None:
        """Stop the running refreshes, which keep what is finished, and leave all to the next server."""
        self._closed = True
        self._queued.clear()
        self._has_changed.set()
        if self._worker is not None and not self._worker.done():
            self._process.stop(signal.SIGINT)
            await asyncio.wait({self._worker}, timeout=GRACE_S)
            self._process.stop(signal.SIGKILL)
            await self._worker
        self._process.close()
        self._history.close()

    @staticmethod
    def _build_refresh(sources: tuple[str, ...], reason: str, *, relist: bool = False) -> Refresh:
        return Refresh(uuid.uuid4().hex, sources, reason, "queued", datetime.now(UTC), relist=relist)

    def _add(self, refresh: Refresh) -> Refresh:
        """Queue a refresh, unless one that waits does it too, which then counts as new where this one is."""
        is_relist = refresh.relist or bool(refresh.documents)
        whole = (queued for queued in self._queued if queued.reason != "purge" and not queued.documents)
        covering = (queued for queued in whole if queued.relist or not is_relist)
        queued = next((queued for queued in covering if _can_wait_with(refresh, queued)), None)
        if queued is None and refresh.documents:
            of_documents = (other for other in self._queued if other.documents)
            queued = next((other for other in of_documents if _can_wait_with(refresh, other)), None)
            if len({*refresh.documents, *(queued.documents if queued else ())}) > MAX_DOCUMENTS:
                return self._add(replace(refresh, documents=(), relist=True))
            if queued and not set(refresh.documents) <= set(queued.documents):
                self._history.record(add_documents(queued, refresh.documents))
        if queued is None:
            return self._enqueue(refresh)
        queued.tries = min(queued.tries, refresh.tries)
        self._has_changed.set()
        return queued

    def _enqueue(self, refresh: Refresh) -> Refresh:
        if self._config is None:
            raise ConfigError("this server was started without a knowledge.yaml: it cannot refresh anything")
        if sum(not queued.tries for queued in self._queued) >= MAX_QUEUED and not refresh.tries:
            raise TooManyRequests(f"{MAX_QUEUED} refreshes are queued already: try again later", 60.0)
        self._history.record(refresh)
        self._queued.append(refresh)
        self._start_worker()
        return refresh

    def _start_worker(self) -> None:
        self._has_changed.set()
        if self._queued and (self._worker is None or self._worker.done()):
            self._worker = asyncio.get_running_loop().create_task(self._run_worker())

    async def _run_worker(self) -> None:
        while self._queued:
            self._has_changed.clear()
            if batch := self._take_batch():
                self._running = batch
                await self._run_batch(tuple(batch))
                continue
            if (wait_s := min(map(_compute_wait, self._queued))) <= GATHER_S:
                await self._process.prepare()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._has_changed.wait()

    def _take_batch(self) -> list[Refresh]:
        """What is due, and what only gathers and can share its process; nothing overtakes a purge."""
        due = [refresh for refresh in self._queued if _compute_wait(refresh) <= 0]
        gathering = [refresh for refresh in self._queued if refresh not in due and not refresh.tries]
        batch: list[Refresh] = []
        for refresh in [*due, *gathering] if due else ():
            if batch and "purge" in (batch[0].reason, refresh.reason):
                break
            if all(_can_share(refresh, other) for other in batch):
                batch.append(refresh)
                self._queued.remove(refresh)
        return batch

    async def _run_batch(self, batch: Sequence[Refresh]) -> None:
        """Do refreshes in one process; one after the other where that says nothing of their sources."""
        for refresh in batch:
            refresh.status, refresh.started_at = "running", datetime.now(UTC)
            self._history.record(refresh)
        outcome = await self._process.run(self._build_arguments(batch))
        if outcome.problem and len(batch) > 1 and not self._closed:
            for refresh in batch:
                await self._run_batch([refresh])
            return
        for refresh in batch:
            self._end(refresh, outcome)

    def _end(self, refresh: Refresh, outcome: ProcessOutcome) -> None:
        """Note how a refresh ended, and queue what is to be tried again."""
        self._running.remove(refresh)
        refresh.release, failure = outcome.release, outcome.describe_failures(refresh.sources)
        if failure:
            refresh.error, refresh.others_read = failure.error, failure.others_read
            refresh.about = failure.about
        refresh.status, refresh.ended_at = "failed" if refresh.error else "succeeded", datetime.now(UTC)
        if refresh.error and self._closed:  # the next server does it
            refresh.status, refresh.error, refresh.others_read = "interrupted", None, None
        else:
            again = self._retry(refresh, outcome)
            self._history.end_events(refresh, outcome, again)
        self.finished_counts[refresh.status] += 1
        self._finished.append(refresh)
        self._history.record(refresh)

    def _retry(self, refresh: Refresh, outcome: ProcessOutcome) -> Refresh | None:
        """Queue again what failed and may work later, unless it was tried often enough; the error says so."""
        failures = {source: outcome.find_failure(source) for source in refresh.sources}
        sources = tuple(source for source, failure in failures.items() if failure and failure.is_temporary)
        if not sources or refresh.reason == "purge":
            return None
        if refresh.tries == len(RETRY_PAUSES_S):
            _add_remark(refresh, f"tried {refresh.tries + 1} times: left to the next listing")
            return None
        _add_remark(refresh, f"tried again in {format_duration(RETRY_PAUSES_S[refresh.tries])}")
        again = self._build_refresh(sources, refresh.reason, relist=refresh.relist)
        again.documents = tuple(name for name in refresh.documents if name.partition("/")[0] in sources)
        again.tries = refresh.tries + 1
        return self._add(again)

    def _build_arguments(self, batch: Sequence[Refresh]) -> list[str]:
        sources = dict.fromkeys(source for refresh in batch for source in refresh.sources)
        arguments = [part for source in sources for part in ("--source", source)]
        shared = ["--config", str(self._config), "--json"]
        if batch[0].reason == "purge":
            return ["purge", *arguments, "--yes", *shared]
        documents = dict.fromkeys(document for refresh in batch for document in refresh.documents)
        arguments += [part for document in documents for part in ("--document", document)]
        flags = ["--relist"] * any(refresh.relist for refresh in batch)
        flags += ["--dagster"] * bool(os.environ.get("DAGSTER_HOME"))
        return ["refresh", *arguments, *flags, *shared]


def _add_remark(refresh: Refresh, remark: str) -> None:
    refresh.error, refresh.others_read = f"{refresh.error} ({remark})", f"{refresh.others_read} ({remark})"


def _compute_wait(refresh: Refresh) -> float:
    """Seconds until a refresh is due; at most its pause, however the clock is set."""
    pause_s = 0.0 if refresh.reason in _NOT_GATHERED else GATHER_S
    pause_s = RETRY_PAUSES_S[refresh.tries - 1] if refresh.tries else pause_s
    return min(pause_s, pause_s - (datetime.now(UTC) - refresh.requested_at).total_seconds())


def _can_wait_with(refresh: Refresh, queued: Refresh) -> bool:
    """Whether a queued refresh has its sources; one to be tried again, no others: they are not hurried."""
    wanted, has = set(refresh.sources), set(queued.sources)
    if queued.tries or (queued.documents and refresh.tries):
        return wanted == has
    return bool(queued.documents) or wanted <= has


def _can_share(one: Refresh, other: Refresh) -> bool:
    """Whether one process can do both: it reads a source as a whole, in full or not, or some documents."""
    if one.documents and other.documents:
        return True
    if one.documents or other.documents:
        return set(one.sources).isdisjoint(other.sources)
    return one.relist == other.relist
