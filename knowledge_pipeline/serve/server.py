"""Runs the server until it is told to end."""

from __future__ import annotations

import socket

import uvicorn

from knowledge_pipeline.serve.http.app import make_app
from knowledge_pipeline.serve.logs import written
from knowledge_pipeline.serve.refresh_queue import Refreshes
from knowledge_pipeline.serve.service import Service

GRACE_S = 10  # for what is being answered when the server is told to end


def run(service: Service, listening: socket.socket) -> None:
    """Answer on a socket until SIGTERM or SIGINT; what is being answered then is answered.

    Each request is told on stderr in one line, without its content; see `logs`.
    """
    with written(service.settings.serve):
        server_of(service).run(sockets=[listening])


def server_of(service: Service, refreshes: Refreshes | None = None) -> uvicorn.Server:
    """A server that answers for a service; its `should_exit` ends it as a signal does."""
    config = uvicorn.Config(
        make_app(service, refreshes),
        lifespan="on",  # a start that fails is told
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=30,
    )
    return uvicorn.Server(config)
