"""Runs the command line for a server's refreshes, a process at a time, and reads how each source ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import filelock

from knowledge_pipeline.text import is_object

_MAX_OUTPUT_BYTES = 4_000_000  # read of a refresh's output
_MAX_ERROR_CHARS = 2_000
_RELEASE = "release"  # under which a failure of the release is printed, which every source shares
_TEMPORARY_FAILURE = 4  # the exit code


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something failed, in a sentence, and whether it may work later."""

    error: str
    is_temporary: bool
    about: tuple[str, ...] = ()  # the sources that alone it is about; none: the whole store
    others_read: str = "the refresh failed"  # who may not see all of these


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """How a process ended."""

    release: int | None = None  # the live one
    failures: Mapping[str, Failure] = field(default_factory=dict[str, Failure])  # by source
    problem: Failure | None = None  # of the process as a whole: nothing is known of its sources

    def find_failure(self, source: str) -> Failure | None:
        """Why a source failed, or what it had read is not released; None: it succeeded."""
        return self.problem or self.failures.get(source) or self.failures.get(_RELEASE)

    def describe_failures(self, sources: Sequence[str]) -> Failure | None:
        """What failed of some sources; None: nothing. Others' part of it is that of the release."""
        if self.problem:
            return self.problem
        failed = {name: self.failures[name] for name in (*sources, _RELEASE) if name in self.failures}
        if not failed:
            return None
        texts = {name: f"{name}: {failure.error}" for name, failure in failed.items()}
        release = failed.get(_RELEASE)
        about = release.about if release else tuple(sources)
        others_read = texts | ({_RELEASE: release.others_read} if release else {})  # it comes last
        all_read, others = ("; ".join(read.values())[:_MAX_ERROR_CHARS] for read in (texts, others_read))
        return Failure(all_read, False, about, others)


@dataclass(frozen=True, slots=True)
class _Child:
    """A process that reads its arguments from stdin, and what it prints."""

    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: IO[bytes]

    @classmethod
    def start(cls, command: Sequence[str]) -> _Child:
        """In a session of its own, so that Ctrl-C reaches the server alone."""
        with ExitStack() as files:
            out, err = files.enter_context(TemporaryFile()), files.enter_context(TemporaryFile())
            process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True
            )
            files.pop_all()  # `wait` closes them
        return cls(process, out, err)

    def tell(self, arguments: Sequence[str]) -> None:
        """Let it go on; one that has ended says by its exit code how."""
        assert self.process.stdin
        with suppress(BrokenPipeError), self.process.stdin as stdin:
            stdin.write(json.dumps(arguments).encode() + b"\n")

    def send_signal(self, signum: signal.Signals) -> None:
        """Reach it and all that it has started."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signum)

    def discard(self) -> None:
        """End it before it has its arguments."""
        self.send_signal(signal.SIGKILL)
        self.tell(())
        self.wait()

    def wait(self) -> ProcessOutcome:
        with self.out, self.err:
            return _parse_outcome(self.process.wait(), _read_tail(self.out), _read_tail(self.err))


class RefreshProcess:
    """The process that refreshes, for one event loop. `stop` ends it, and `close` what it needs."""

    def __init__(self, command: Sequence[str], turn: Path | None) -> None:
        """The command gets its arguments as a line of JSON.

        With the lock file `turn`, the workers of a server take turns: each would use all the cores.
        """
        self._command = command
        self._turn = filelock.FileLock(turn) if turn else None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="refresh")
        self._prepared: _Child | None = None  # waits for its arguments
        self._running: _Child | None = None
        self._is_stopped = False

    async def prepare(self) -> None:
        """Start the next process, which imports what it needs while nothing is due yet."""
        with suppress(OSError):  # `run` tries it again
            await asyncio.get_running_loop().run_in_executor(self._executor, self._prepare)

    async def run(self, arguments: Sequence[str]) -> ProcessOutcome:
        """Run the command with arguments to its end.

        The event loop does not start it: uvloop forks as Python does, and the store's library must not fork.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, arguments)
        except OSError as error:
            problem = Failure(f"the refresh could not be started ({error.strerror})", is_temporary=True)
            return ProcessOutcome(problem=problem)

    def stop(self, signum: signal.Signals) -> None:
        """Signal the process and all that it has started; others are killed as they start."""
        self._is_stopped = True
        for child in (self._running, self._prepared):
            if child is not None:
                child.send_signal(signum)

    def close(self) -> None:
        """Use it no more. Idempotent."""
        self._executor.shutdown()
        if self._prepared:
            self._prepared.discard()
            self._prepared = None

    def _prepare(self) -> None:
        """Have a process that waits for its arguments; where that has ended, another one."""
        if self._prepared and self._prepared.process.poll() is not None:
            self._prepared.discard()
            self._prepared = None
        if self._prepared is None:
            self._prepared = _Child.start(self._command)
            if self._is_stopped:
                self.stop(signal.SIGKILL)

    def _run(self, arguments: Sequence[str]) -> ProcessOutcome:
        with self._take_turn():
            self._prepare()
            assert self._prepared
            self._running, self._prepared = self._prepared, None
            self._running.tell(arguments)
            return self._running.wait()

    @contextmanager
    def _take_turn(self) -> Generator[None]:
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
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_OUTPUT_BYTES))
    return file.read()


def _parse_outcome(code: int, out: bytes, err: bytes) -> ProcessOutcome:
    """What was printed; `cli.refresh` and `defs.recorded_refresh` print the form."""
    outcome = _parse_json_object(out)
    live = outcome.get("release")
    release = live.get("release") if is_object(live) else None
    if code == 0:
        return ProcessOutcome(release)
    failures = {failure["source"]: _parse_failure(failure) for failure in outcome.get("failures") or ()}
    if failures:
        return ProcessOutcome(release, failures)
    lines = err.decode("utf-8", "replace").strip().splitlines()
    error = _parse_json_object(lines[-1].encode() if lines else b"").get("error")
    error = str(error or outcome.get("failure") or f"it ended with exit code {code}")
    # A signal ended it: the system, short of memory, or a person; neither says anything of the sources.
    is_temporary = code == _TEMPORARY_FAILURE or code < 0
    return ProcessOutcome(problem=_build_failure(error, is_temporary=is_temporary))


def _parse_failure(failure: Mapping[str, Any]) -> Failure:
    built, source = _build_failure(failure["error"], is_temporary=failure["temporary"]), failure["source"]
    if source == _RELEASE:
        return replace(built, about=tuple(failure.get("about", ())), others_read="a release is refused")
    return replace(built, about=(source,))


def _build_failure(error: str, *, is_temporary: bool) -> Failure:
    from knowledge_pipeline.sanitizing.sanitize import redact_sentence

    return Failure(redact_sentence(error, max_chars=_MAX_ERROR_CHARS), is_temporary)


def _parse_json_object(output: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(output)
    except ValueError:
        return {}
    return parsed if is_object(parsed) else {}
