"""Refreshes that a server was asked for: one at a time, each in a process of its own.

A server reads what is released and knows no stage and no source, so that a refresh neither slows its
answers nor can bring it down. What is asked for again while it still waits is not done twice; what is
asked for while it runs is done once more, for the run may have read the source already.
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
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal

from knowledge_pipeline.errors import ConfigError, TooManyRequests

RefreshState = Literal["waiting", "running", "done", "failed"]

MAX_FINISHED = 100  # refreshes that have ended
MAX_WAITING = 100
GRACE_S = 5.0  # for a refresh to stop when the server does
CLI_COMMAND = (sys.executable, "-m", "knowledge_pipeline.cli")

_MAX_OUTPUT_BYTES = 4_000_000  # read of what a refresh prints
_MAX_ERROR_CHARS = 2_000  # kept of a sentence


@dataclass(slots=True)
class Refresh:
    """One refresh, or the erasing of a source."""

    id: str
    sources: tuple[str, ...]
    reason: str  # "sync", "github", "gitlab", "erase"
    status: RefreshState
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    problem: str | None = None  # why it failed, in a sentence
    release: int | None = None  # that is live since then

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        told = asdict(self) | {"sources": list(self.sources)}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in told.items()
        }


class RefreshQueue:
    """The refreshes of one server, for one event loop. `close` ends them."""

    def __init__(self, config: Path | None, *, cli_command: Sequence[str] = CLI_COMMAND) -> None:
        self._config = config
        self._cli_command = cli_command
        self._waiting: deque[Refresh] = deque()
        self._running: Refresh | None = None
        self._finished: deque[Refresh] = deque(maxlen=MAX_FINISHED)
        self.finished_counts: Counter[RefreshState] = Counter()  # how many, since the start
        self._worker: asyncio.Task[None] | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="refresh")
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def submit(self, sources: Iterable[str], reason: str) -> Refresh:
        """Refresh sources as soon as nothing else is; the one that waits already, where it covers them.

        Raises:
            ConfigError: the server was started without a knowledge.yaml.
            TooManyRequests: a hundred wait already.
        """
        wanted = tuple(dict.fromkeys(sources))
        for waiting in self._waiting:
            if waiting.reason != "erase" and set(wanted) <= set(waiting.sources):
                return waiting
        return self._enqueue(wanted, reason)

    def submit_erase(self, source: str) -> Refresh:
        """Erase what is stored of a source; raises as `start` does."""
        return self._enqueue((source,), "erase")

    def list_all(self) -> list[Refresh]:
        """The newest first: those that wait, the one that runs, those that have ended."""
        running = [self._running] if self._running else []
        return [*reversed(self._waiting), *running, *reversed(self._finished)]

    async def close(self) -> None:
        """Stop the one that runs, which keeps what it has finished, and forget those that wait."""
        self._closed = True
        self._waiting.clear()
        if self._worker is not None and not self._worker.done():
            self._signal_process(signal.SIGINT)
            await asyncio.wait({self._worker}, timeout=GRACE_S)
            self._signal_process(signal.SIGKILL)
            await self._worker
        self._executor.shutdown(wait=False)

    def _enqueue(self, sources: tuple[str, ...], reason: str) -> Refresh:
        if self._config is None:
            raise ConfigError("this server was started without a knowledge.yaml: it cannot refresh anything")
        if len(self._waiting) >= MAX_WAITING:
            raise TooManyRequests(f"{MAX_WAITING} refreshes are waiting already: try again later", 60.0)
        made = Refresh(uuid.uuid4().hex, sources, reason, "waiting", datetime.now(UTC))
        self._waiting.append(made)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._run_worker())
        return made

    async def _run_worker(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            refresh = self._running = self._waiting.popleft()
            refresh.status, refresh.started_at = "running", datetime.now(UTC)
            try:
                done = loop.run_in_executor(self._executor, self._run_process, self._build_command(refresh))
                code, out, err = await done
                refresh.release, refresh.problem = _parse_outcome(code, out, err)
            except OSError as error:
                refresh.problem = f"the refresh could not be started ({error.strerror})"
            refresh.status = "failed" if refresh.problem else "done"
            refresh.ended_at = datetime.now(UTC)
            self._running = None
            self._finished.append(refresh)
            self.finished_counts[refresh.status] += 1

    def _build_command(self, refresh: Refresh) -> list[str]:
        named = [part for source in refresh.sources for part in ("--source", source)]
        shared = ["--config", str(self._config), "--json"]
        if refresh.reason == "erase":
            return [*self._cli_command, "purge", *named, "--yes", *shared]
        dagster = ["--dagster"] if os.environ.get("DAGSTER_HOME") else []
        return [*self._cli_command, "refresh", *named, *dagster, *shared]

    def _run_process(self, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        """Exit code and what was printed. The child has a session of its own: Ctrl-C is for the server.

        Not by the event loop: uvloop forks as Python does, and the store's library must not be forked.
        """
        with TemporaryFile() as out, TemporaryFile() as err:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
            if self._closed:
                self._signal_process(signal.SIGKILL)
            code = self._process.wait()
            return code, _read_tail(out), _read_tail(err)

    def _signal_process(self, signum: signal.Signals) -> None:
        """Tell the child, and all that it has started, to end."""
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signum)


def _read_tail(file: IO[bytes]) -> bytes:
    """All of it, or the last part where it is far too much."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_OUTPUT_BYTES))
    return file.read()


def _parse_outcome(code: int, out: bytes, err: bytes) -> tuple[int | None, str | None]:
    """The release that is live, and what went wrong; see `cli.outcomes` for the form."""
    told = _parse_json_object(out)
    live = told.get("release")
    release = live.get("release") if isinstance(live, Mapping) else None
    if code == 0:
        return release, None
    failures = [f"{each['source']}: {each['error']}" for each in told.get("failures") or ()]
    lines = err.decode("utf-8", "replace").strip().splitlines()
    said = "; ".join(failures) or _parse_json_object(lines[-1].encode() if lines else b"").get("error")
    return release, str(said or f"it ended with exit code {code}")[:_MAX_ERROR_CHARS]


def _parse_json_object(output: bytes) -> dict[str, Any]:
    try:
        told = json.loads(output)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
