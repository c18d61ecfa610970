"""Refreshes that a server was asked for: one at a time, each in a process of its own.

A server reads releases and knows no stage and no source, so a refresh neither slows its answers nor brings
it down. A request that a queued refresh covers starts no other one; a request that arrives while a refresh
runs starts one more, since the running one may have read the source already. Documents that events name wait
a moment for others, and are read together. What is not done when a server ends, the next one does.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter, deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import filelock

from knowledge_pipeline.contract.responses import Refresh
from knowledge_pipeline.contract.types import RefreshState
from knowledge_pipeline.errors import ConfigError, TooManyRequests
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.serve.refresh_history import RefreshHistory
from knowledge_pipeline.serve.unfinished_refreshes import UnfinishedRefreshes, add_documents
from knowledge_pipeline.store.shared_state import SharedState

MAX_FINISHED = 100  # finished refreshes that are listed
MAX_QUEUED = 100
MAX_DOCUMENTS = 1_000  # of one refresh; where more are named, their sources are listed in full
GATHER_S = 1.0  # how long a refresh of documents waits for more of them
GRACE_S = 5.0  # for a refresh to stop when the server does
CLI_COMMAND = (sys.executable, "-m", "knowledge_pipeline.cli")

_MAX_OUTPUT_BYTES = 4_000_000  # read of a refresh's output
_MAX_ERROR_CHARS = 2_000
_RESULT_FIELDS = ("status", "started_at", "ended_at", "error", "release")


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
        """Prepare; `folder` has what is not done yet. With a `state`, workers take turns."""
        self._state = state
        self._turn = filelock.FileLock(folder / "running.lock")
        self._config = config
        self._cli_command = cli_command
        self._unfinished = UnfinishedRefreshes(folder)
        self._history = RefreshHistory(folder)
        self._queued: deque[Refresh] = deque()
        self._covered: dict[str, list[Refresh]] = {}  # by the id of the queued one that does them too
        self._running: Refresh | None = None
        self._finished: deque[Refresh] = deque(maxlen=MAX_FINISHED)
        self.finished_counts: Counter[RefreshState] = Counter()  # how many, since the start
        self._worker: asyncio.Task[None] | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="refresh")
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def submit(self, sources: Iterable[str], reason: str, *, relist: bool = False) -> Refresh:
        """Queue a refresh of sources; return a queued one instead if it covers them.

        With `relist`, services are listed in full, to see what was deleted.

        Raises:
            ConfigError: the server was started without a knowledge.yaml.
            TooManyRequests: a hundred are queued already.
        """
        wanted = tuple(dict.fromkeys(sources))
        covering = self._find_covering(wanted, relist=relist)
        return covering or self._enqueue(self._build_refresh(wanted, reason, relist=relist))

    def submit_documents(self, documents: Sequence[str], reason: str) -> Refresh:
        """Queue a refresh of documents, "SOURCE/URI", together with those that wait; raises as `submit` does.

        Where too many wait, their sources are listed in full instead.
        """
        added = add_documents(self._build_refresh((), reason), documents)
        if self._find_covering(added.sources, relist=True):
            return self.submit(added.sources, reason, relist=True)
        waiting = next((each for each in self._queued if each.documents), None)
        known = waiting.documents if waiting else ()
        if len({*known, *added.documents}) > MAX_DOCUMENTS:
            return self.submit(added.sources, reason, relist=True)
        if waiting is None:
            return self._enqueue(added)
        if not set(added.documents) <= set(known):
            self._unfinished.keep(replace(added, id=waiting.id))
            self._publish(add_documents(waiting, added.documents))
        return waiting

    def submit_purge(self, source: str) -> Refresh:
        """Queue the purge of what is stored of a source; raises as `submit` does."""
        return self._enqueue(self._build_refresh((source,), "purge"))

    def list_all(self) -> list[Refresh]:
        """Newest first: queued, running, finished."""
        own = self.list_own()
        known = {each.id for each in own}
        every = [*own, *(each for each in self._history.list_all() if each.id not in known)]
        return sorted(every, key=lambda each: each.requested_at, reverse=True)[: MAX_FINISHED + MAX_QUEUED]

    def list_own(self) -> list[Refresh]:
        """Those of this process, newest first: queued, running, finished."""
        running = [self._running] if self._running else []
        covered = [each for refreshes in self._covered.values() for each in refreshes]
        return [*reversed(self._queued), *covered, *running, *reversed(self._finished)]

    def _publish(self, refresh: Refresh) -> None:
        """Let other workers, and the servers after this one, list a refresh as it is now."""
        self._history.record(refresh, self._unfinished.owner)

    def resume(self) -> None:
        """Queue what servers which are gone had not finished, once each."""
        for refresh in self._unfinished.take_over() if self._config else ():
            is_covered = refresh.reason != "purge" and not refresh.documents
            covering = self._find_covering(refresh.sources, relist=refresh.relist) if is_covered else None
            if covering:
                self._covered.setdefault(covering.id, []).append(refresh)
            else:
                self._queued.append(refresh)
            self._publish(refresh)
        self._start_worker()

    async def close(self) -> None:
        """Stop the running refresh, which keeps what it has finished, and leave all to the next server."""
        self._closed = True
        self._queued.clear()
        if self._worker is not None and not self._worker.done():
            self._signal_process(signal.SIGINT)
            await asyncio.wait({self._worker}, timeout=GRACE_S)
            self._signal_process(signal.SIGKILL)
            await self._worker
        self._executor.shutdown(wait=False)
        self._unfinished.close()
        self._history.close()

    @staticmethod
    def _build_refresh(sources: tuple[str, ...], reason: str, *, relist: bool = False) -> Refresh:
        return Refresh(uuid.uuid4().hex, sources, reason, "queued", datetime.now(UTC), relist=relist)

    def _enqueue(self, refresh: Refresh) -> Refresh:
        if self._config is None:
            raise ConfigError("this server was started without a knowledge.yaml: it cannot refresh anything")
        if len(self._queued) >= MAX_QUEUED:
            raise TooManyRequests(f"{MAX_QUEUED} refreshes are queued already: try again later", 60.0)
        self._unfinished.keep(refresh)
        self._queued.append(refresh)
        self._publish(refresh)
        self._start_worker()
        return refresh

    def _find_covering(self, sources: Sequence[str], *, relist: bool) -> Refresh | None:
        """A queued refresh of all these sources as a whole; with `relist`, one that lists them in full."""
        queued = (each for each in self._queued if each.reason != "purge" and not each.documents)
        whole = (each for each in queued if each.relist or not relist)
        return next((each for each in whole if set(sources) <= set(each.sources)), None)

    def _start_worker(self) -> None:
        if self._queued and (self._worker is None or self._worker.done()):
            self._worker = asyncio.get_running_loop().create_task(self._run_worker())

    async def _run_worker(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queued:
            if (wait_s := _compute_wait(self._queued[0])) > 0:
                await asyncio.sleep(wait_s)
                continue
            refresh = self._running = self._queued.popleft()
            refresh.status, refresh.started_at = "running", datetime.now(UTC)
            self._publish(refresh)
            try:
                done = loop.run_in_executor(self._executor, self._run_process, self._build_command(refresh))
                code, out, err = await done
                refresh.release, refresh.error = _parse_outcome(code, out, err)
            except OSError as error:
                refresh.error = f"the refresh could not be started ({error.strerror})"
            self._running = None
            self._end(refresh)

    def _end(self, refresh: Refresh) -> None:
        """Note how a refresh ended, and with it those that it has covered."""
        refresh.status, refresh.ended_at = "failed" if refresh.error else "succeeded", datetime.now(UTC)
        if refresh.error and self._closed:
            refresh.status, refresh.error = "interrupted", None  # the next server does it
        self.finished_counts[refresh.status] += 1
        result = {name: getattr(refresh, name) for name in _RESULT_FIELDS}
        for each in (refresh, *self._covered.pop(refresh.id, ())):
            for name, value in result.items():
                setattr(each, name, value)
            self._finished.append(each)
            self._publish(each)
            if each.status != "interrupted":
                self._unfinished.forget(each)

    def _build_command(self, refresh: Refresh) -> list[str]:
        named = [part for source in refresh.sources for part in ("--source", source)]
        shared = ["--config", str(self._config), "--json"]
        if refresh.reason == "purge":
            return [*self._cli_command, "purge", *named, "--yes", *shared]
        named += [part for document in refresh.documents for part in ("--document", document)]
        flags = ["--relist"] * refresh.relist + ["--dagster"] * bool(os.environ.get("DAGSTER_HOME"))
        return [*self._cli_command, "refresh", *named, *flags, *shared]

    def _run_process(self, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        """Exit code and output. The child has a session of its own, so Ctrl-C reaches the server alone.

        The event loop does not start it: uvloop forks as Python does, and the store's library must not fork.
        """
        with self._take_turn(), TemporaryFile() as out, TemporaryFile() as err:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
            if self._closed:
                self._signal_process(signal.SIGKILL)
            code = self._process.wait()
            return code, _read_tail(out), _read_tail(err)

    @contextmanager
    def _take_turn(self) -> Generator[None]:
        """Wait until no other worker of this server refreshes: each would use all the cores."""
        if self._state is None:
            yield
            return
        while not self._closed:
            with suppress(filelock.Timeout):
                self._turn.acquire(timeout=1.0)
                break
        try:
            yield
        finally:
            self._turn.release()

    def _signal_process(self, signum: signal.Signals) -> None:
        """Signal the child and all that it has started."""
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signum)


def _compute_wait(refresh: Refresh) -> float:
    """Seconds until a refresh starts."""
    waited_s = (datetime.now(UTC) - refresh.requested_at).total_seconds()
    return min(GATHER_S, GATHER_S - waited_s) if refresh.documents else 0.0


def _read_tail(file: IO[bytes]) -> bytes:
    """The whole file, or its last part if it is far too large."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_OUTPUT_BYTES))
    return file.read()


def _parse_outcome(code: int, out: bytes, err: bytes) -> tuple[int | None, str | None]:
    """The live release, and the error; `cli.render.refresh_outcome` prints the form."""
    outcome = _parse_json_object(out)
    live = outcome.get("release")
    release = live.get("release") if is_object(live) else None
    if code == 0:
        return release, None
    failures = [f"{each['source']}: {each['error']}" for each in outcome.get("failures") or ()]
    lines = err.decode("utf-8", "replace").strip().splitlines()
    error = "; ".join(failures) or _parse_json_object(lines[-1].encode() if lines else b"").get("error")
    return release, str(error or f"it ended with exit code {code}")[:_MAX_ERROR_CHARS]


def _parse_json_object(output: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(output)
    except ValueError:
        return {}
    return parsed if is_object(parsed) else {}
