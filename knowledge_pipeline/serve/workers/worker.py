"""One of several processes that answer on one socket, which ends when it is told to or its parent is gone."""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import Connection
from socket import socket
from typing import TYPE_CHECKING

from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.serve.workers.launch import METRICS_FOLDER, Launch

if TYPE_CHECKING:
    import uvicorn

READY = b"ready"
START_FAILED = 3  # exit code of a worker that could not start, and would not the next time either


def run_worker(launch: Launch, listener: socket, parent: Connection) -> None:
    """Answer until SIGTERM or SIGINT, or until the other end of `parent` is closed.

    Sends `READY` when it answers, or the sentence of what keeps it from starting.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(launch.state_folder / METRICS_FOLDER)  # before the import
    # Here, because the supervisor imports this module, and answers nothing.
    from knowledge_pipeline.serve.logs import configure_logging
    from knowledge_pipeline.serve.server import build_server
    from knowledge_pipeline.serve.service import Service
    from knowledge_pipeline.store.shared_state import SharedState

    try:
        settings = launch.load_settings()
        state = SharedState(launch.state_folder)
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
