"""Runs the server: in one process, or in several that answer on one socket.

The supervisor of several answers nothing and opens no table. It replaces workers that die, and all of them
for a new configuration. SIGTERM and SIGINT end the workers, which first answer what they have begun; SIGHUP
replaces them one after the other, each when its successor answers.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from os import cpu_count
from pathlib import Path
from types import FrameType

import uvicorn

from knowledge_pipeline.config.operation import ServeSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.serve.http.app import create_app
from knowledge_pipeline.serve.http.limits import create_protocol_class
from knowledge_pipeline.serve.logs import configure_logging
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline.serve.service import Service
from knowledge_pipeline.store.listings import load_shared_settings
from knowledge_pipeline.store.local_state import SharedState

READY = b"ready"
START_FAILED = 3  # exit code of a worker that could not start, and would not the next time either
START_S = 120.0  # for a worker to answer; a busy machine imports slowly
RESTART_PAUSE_S = 1.0  # before a worker that never answered is replaced
WORKER_GRACE_S = 15.0  # for workers to end; see `REQUEST_GRACE_S`

MIN_HEADER_TIMEOUT_S = 1.0  # a client may need that to send them, however quickly it is to be answered
REQUEST_GRACE_S = 10  # for what is being answered when the server is told to end

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a worker: it reads the configuration itself, so that a new one has the newest."""

    config: Path
    overrides: Mapping[str, str | int]  # of the section `serve`, given on the command line
    workers: int
    folder: Path  # the store's local one
    port: int
    start_token: str | None  # the secret of the link that was printed when the server started

    @property
    def metrics_folder(self) -> Path:
        """The files of the metrics' library."""
        return self.folder / "serve" / str(self.port) / "metrics"

    def open_state(self) -> SharedState:
        """What the workers share."""
        return SharedState(self.folder, server=str(self.port))

    def forget_former_server(self) -> None:
        """Remove what a server that held the port has left. Raises `StoreUnavailable`."""
        shutil.rmtree(self.metrics_folder.parent, ignore_errors=True)
        self.metrics_folder.mkdir(parents=True, mode=0o700)
        with self.open_state() as state:
            state.begin_server()

    def load_settings(self) -> Settings:
        """The settings of one worker, of as many. Raises `ConfigError`."""
        settings = load_shared_settings(self.config)
        serve = settings.serve.model_copy(update=dict(self.overrides))
        return settings.model_copy(update={"serve": divide_limits(serve, self.workers)})


def divide_limits(serve: ServeSettings, workers: int) -> ServeSettings:
    """The share that one of several workers has of what the whole server may hold at once, rounded up."""
    most = serve.max_concurrent_per_caller or max(2, (cpu_count() or 1) // 2)
    names = ("max_connections", "max_concurrent", "max_total_body_bytes")
    totals = {name: getattr(serve, name) for name in names} | {"max_concurrent_per_caller": most}
    return serve.model_copy(update={name: ceil(total / workers) for name, total in totals.items()})


def run_worker(launch: Launch, listener: socket.socket, parent: Connection) -> None:
    """Answer until SIGTERM or SIGINT, or until the other end of `parent` is closed.

    Sends `READY` when it answers, or the sentence of what keeps it from starting.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(launch.metrics_folder)  # before the import
    try:
        settings = launch.load_settings()
        state = launch.open_state()
        service = Service(settings, config=launch.config, state=state)
    except KnowledgeError as error:
        parent.send_bytes(str(error).encode())
        raise SystemExit(START_FAILED) from None
    if launch.start_token:
        service.tokens.accept_for_process(launch.start_token, "start of the server")
    with configure_logging(service.settings.serve):
        server = build_server(service)
        threading.Thread(target=_follow_parent, args=(server, parent), daemon=True).start()
        server.run(sockets=[listener])
    state.close()


def _follow_parent(server: uvicorn.Server, parent: Connection) -> None:
    """Say when the server answers, and end it when the parent is gone: it would hold the port."""
    ended = threading.Event()
    while not server.started and not server.should_exit:
        ended.wait(0.02)
    try:
        parent.send_bytes(READY)
        parent.recv_bytes()  # nothing is ever sent: it returns when the other end is closed
    except (EOFError, OSError):
        server.should_exit = True


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection


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

        Raises `KnowledgeError`: the first workers could not start.
        """
        handled = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {signum: signal.signal(signum, self._on_signal) for signum in handled}
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
            for signum, handler in before.items():
                signal.signal(signum, handler)

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
                try:
                    sent = worker.pipe.recv_bytes()
                except (EOFError, OSError):
                    worker.process.join(5)
                    return f"a worker ended before it answered (exit code {worker.process.exitcode})"
                return None if sent == READY else sent.decode()
            self._drain_wakes()
        return None if self._is_ending else f"a worker did not start within {START_S:g} s"

    def _watch(self) -> None:
        ended = wait([*(worker.process.sentinel for worker in self._workers), self._wake_read])
        self._drain_wakes()
        if self._is_ending:
            return
        if signal.SIGHUP in self._signals:
            self._signals = [signum for signum in self._signals if signum != signal.SIGHUP]
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
        """Drop the gauges of a worker that has ended; its counts stay."""
        for path in self._launch.metrics_folder.glob(f"gauge_live*_{worker.process.pid}.db"):
            path.unlink(missing_ok=True)

    def _replace_all(self) -> None:
        for at, worker in enumerate(self._workers):
            successor = self._start()
            problem = self._await_ready(successor)
            if problem:
                _log.error("the configuration is not read again, workers stay as they are: %s", problem)
            if problem or self._is_ending:
                return self._end([successor])
            self._workers[at] = successor
            self._end([worker])
        _log.warning("all workers have read the configuration again")

    def _end(self, workers: Sequence[_Worker]) -> None:
        """Let workers answer what they have begun, and end them."""
        for worker in workers:
            worker.process.terminate()
        until_s = time.monotonic() + WORKER_GRACE_S
        for worker in workers:
            worker.process.join(max(0.0, until_s - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
            self._forget_metrics(worker)

    def _drain_wakes(self) -> None:
        with suppress(BlockingIOError):
            while self._wake_read.recv(4096):
                pass


def run(service: Service, listener: socket.socket) -> None:
    """Answer on a socket until SIGTERM or SIGINT; what is being answered then is answered.

    Each request has a line on stderr, without its content; see `logs`.
    """
    with configure_logging(service.settings.serve):
        build_server(service).run(sockets=[listener])


def build_server(service: Service, refreshes: RefreshQueue | None = None) -> uvicorn.Server:
    """A server that answers for a service; its `should_exit` ends it as a signal does."""
    serve, app = service.settings.serve, create_app(service, refreshes)
    header_timeout_s = max(serve.timeout_s, MIN_HEADER_TIMEOUT_S)
    config = uvicorn.Config(
        app,
        http=create_protocol_class(max_connections=serve.max_connections, header_timeout_s=header_timeout_s),
        ws="none",  # no route takes one, and its connections would pass the limits
        lifespan="on",  # a start that fails is reported
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=REQUEST_GRACE_S,
        timeout_keep_alive=30,
    )
    server = uvicorn.Server(config)
    app.state.shared.streams.is_ending = lambda: server.should_exit
    return server
