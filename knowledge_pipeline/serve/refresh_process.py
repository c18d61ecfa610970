"""Runs the command line for a server's refreshes, a process at a time, and reads how each source ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import filelock

from knowledge_pipeline.json_values import is_object

_MAX_OUTPUT_BYTES = 4_000_000  # read of a refresh's output
_MAX_ERROR_CHARS = 2_000
_RELEASE = "release"  # under which a failure of the release is printed, which every source shares
_TEMPORARY_FAILURE = 4  # the exit code


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something failed, in a sentence, and whether it may work later."""

    error: str
    is_temporary: bool


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """How a process ended."""

    release: int | None = None  # the live one
    failures: Mapping[str, Failure] = field(default_factory=dict[str, Failure])  # by source
    problem: Failure | None = None  # of the process as a whole: nothing is known of its sources

    def find_failure(self, source: str) -> Failure | None:
        """Why a source failed, or what it had read is not released; None: it succeeded."""
        return self.problem or self.failures.get(source) or self.failures.get(_RELEASE)

    def describe_failures(self, sources: Sequence[str]) -> str | None:
        """What failed of some sources; None: nothing."""
        if self.problem:
            return self.problem.error
        failed = [name for name in (*sources, _RELEASE) if name in self.failures]
        return "; ".join(f"{name}: {self.failures[name].error}" for name in failed)[:_MAX_ERROR_CHARS] or None


class RefreshProcess:
    """The process that refreshes, for one event loop. `stop` ends it, and `close` what it needs."""

    def __init__(self, turn: Path | None) -> None:
        """With the lock file `turn`, the workers of a server take turns: each would use all the cores."""
        self._turn = filelock.FileLock(turn) if turn else None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="refresh")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    async def run(self, command: Sequence[str]) -> ProcessOutcome:
        """Run a command to its end.

        The event loop does not start it: uvloop forks as Python does, and the store's library must not fork.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, command)
        except OSError as error:
            problem = Failure(f"the refresh could not be started ({error.strerror})", is_temporary=True)
            return ProcessOutcome(problem=problem)

    def stop(self, signum: signal.Signals) -> None:
        """Signal the process and all that it has started; others are killed as they start."""
        self._is_stopped = True
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signum)

    def close(self) -> None:
        """Use it no more."""
        self._executor.shutdown(wait=False)

    def _run(self, command: Sequence[str]) -> ProcessOutcome:
        """In a session of its own, so that Ctrl-C reaches the server alone."""
        with self._take_turn(), TemporaryFile() as out, TemporaryFile() as err:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
            if self._is_stopped:
                self.stop(signal.SIGKILL)
            code = self._process.wait()
            return _parse_outcome(code, _read_tail(out), _read_tail(err))

    @contextmanager
    def _take_turn(self) -> Generator[None]:
        """Wait until no other worker of this server refreshes."""
        if self._turn is None:
            yield
            return
        while not self._is_stopped:
            with suppress(filelock.Timeout):
                self._turn.acquire(timeout=1.0)
                break
        try:
            yield
        finally:
            self._turn.release()


def _read_tail(file: IO[bytes]) -> bytes:
    """The whole file, or its last part if it is far too large."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_OUTPUT_BYTES))
    return file.read()


def _parse_outcome(code: int, out: bytes, err: bytes) -> ProcessOutcome:
    """What was printed; `cli.render.refresh_outcome` and `defs.runs.refresh_command` print the form."""
    outcome = _parse_json_object(out)
    live = outcome.get("release")
    release = live.get("release") if is_object(live) else None
    if code == 0:
        return ProcessOutcome(release)
    failures = {
        each["source"]: _build_failure(each["error"], is_temporary=each["temporary"])
        for each in outcome.get("failures") or ()
    }
    if failures:
        return ProcessOutcome(release, failures)
    lines = err.decode("utf-8", "replace").strip().splitlines()
    error = _parse_json_object(lines[-1].encode() if lines else b"").get("error")
    error = str(error or outcome.get("failure") or f"it ended with exit code {code}")
    # A signal ended it: the system, short of memory, or a person; neither says anything of the sources.
    is_temporary = code == _TEMPORARY_FAILURE or code < 0
    return ProcessOutcome(problem=_build_failure(error, is_temporary=is_temporary))


def _build_failure(error: str, *, is_temporary: bool) -> Failure:
    from knowledge_pipeline.sanitizing.sanitize import redact_sentence

    return Failure(redact_sentence(error, max_chars=_MAX_ERROR_CHARS), is_temporary)


def _parse_json_object(output: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(output)
    except ValueError:
        return {}
    return parsed if is_object(parsed) else {}
