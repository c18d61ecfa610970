"""Keeps several workers on one socket: replaces those that die, and all of them for a new configuration.

The supervisor answers nothing and opens no table. SIGTERM and SIGINT end the workers, which first answer what
they have begun; SIGHUP replaces them one after the other, each when its successor answers.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.serve.workers.launch import METRICS_FOLDER, Launch
from knowledge_pipeline.serve.workers.worker import READY, run_worker

GRACE_S = 15.0  # for workers to end; see `server.GRACE_S`
START_S = 120.0  # for a worker to answer; a busy machine imports slowly
RESTART_PAUSE_S = 1.0  # before a worker that never answered is replaced

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Worker:
    """A process, and our end of the pipe to it."""

    process: SpawnProcess
    pipe: Connection
    is_ready: bool = False


class Supervisor:
    """The workers of one server."""

    def __init__(self, launch: Launch, listener: socket.socket) -> None:
        self._launch, self._listener = launch, listener
        self._workers: list[_Worker] = []
        self._signals: list[int] = []
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)

    def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Answer until SIGTERM or SIGINT; `on_ready` is called when all workers answer.

        Raises:
            KnowledgeError: the first workers could not start.
        """
        handled = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {each: signal.signal(each, self._on_signal) for each in handled}
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        try:
            self._workers = [self._start() for _ in range(self._launch.workers)]
            for worker in self._workers:
                if problem := self._await_ready(worker):
                    raise KnowledgeError(problem)
            if not self._is_ending:
                on_ready()
            while not self._is_ending:
                self._watch()
        finally:
            self._end(self._workers)
            signal.set_wakeup_fd(-1)
            for each, handler in before.items():
                signal.signal(each, handler)

    @property
    def _is_ending(self) -> bool:
        return signal.SIGTERM in self._signals or signal.SIGINT in self._signals

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self._signals.append(signum)

    def _start(self) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=run_worker, args=(self._launch, self._listener, theirs), name="knowledge-worker"
        )
        process.start()
        theirs.close()  # so that the pipe ends with the worker
        return _Worker(process, ours)

    def _await_ready(self, worker: _Worker) -> str | None:
        """Wait until a worker answers; else why it does not, None where the server is to end."""
        until_s = time.monotonic() + START_S
        while not self._is_ending and time.monotonic() < until_s:
            if worker.pipe in wait([worker.pipe, self._wake_read], timeout=1.0):
                return self._read_state(worker)
            self._drain_wakes()
        return None if self._is_ending else f"a worker did not start within {START_S:g} s"

    def _read_state(self, worker: _Worker) -> str | None:
        try:
            sent = worker.pipe.recv_bytes()
        except (EOFError, OSError):
            worker.process.join(5)
            return f"a worker ended before it answered (exit code {worker.process.exitcode})"
        worker.is_ready = sent == READY
        return None if worker.is_ready else sent.decode()

    def _watch(self) -> None:
        """Wait for a signal or the end of a worker, and see to it."""
        ended = wait([*(each.process.sentinel for each in self._workers), self._wake_read])
        self._drain_wakes()
        if self._is_ending:
            return
        if signal.SIGHUP in self._signals:
            self._signals = [each for each in self._signals if each != signal.SIGHUP]
            self._replace_all()
            return
        for at, worker in enumerate(self._workers):
            if worker.process.sentinel in ended:
                self._replace_dead(at)

    def _replace_dead(self, at: int) -> None:
        worker = self._workers[at]
        worker.process.join()
        _log.warning(
            "worker %s ended with exit code %s: it is replaced", worker.process.pid, worker.process.exitcode
        )
        worker.pipe.close()
        self._forget_metrics(worker)
        self._workers[at] = self._start()
        if problem := self._await_ready(self._workers[at]):
            _log.warning("the new worker does not answer: %s", problem)
            time.sleep(RESTART_PAUSE_S)

    def _forget_metrics(self, worker: _Worker) -> None:
        """What a worker that is gone was doing is no longer under way; its counts stay."""
        for path in (self._launch.state_folder / METRICS_FOLDER).glob(f"gauge_live*_{worker.process.pid}.db"):
            path.unlink(missing_ok=True)

    def _replace_all(self) -> None:
        """Each worker by one with the newest configuration; none where that does not start."""
        for at, worker in enumerate(self._workers):
            successor = self._start()
            if (problem := self._await_ready(successor)) or self._is_ending:
                self._end([successor])
                if problem:
                    _log.error("the configuration is not read again, workers stay as they are: %s", problem)
                return
            self._workers[at] = successor
            self._end([worker])
        _log.warning("all workers have read the configuration again")

    def _end(self, workers: Sequence[_Worker]) -> None:
        """Let workers answer what they have begun, and end them."""
        for worker in workers:
            worker.process.terminate()
        until_s = time.monotonic() + GRACE_S
        for worker in workers:
            worker.process.join(max(0.0, until_s - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
            self._forget_metrics(worker)

    def _drain_wakes(self) -> None:
        try:
            while self._wake_read.recv(4096):
                continue
        except BlockingIOError:
            return
