"""Runs the server until it is told to end."""

from __future__ import annotations

import logging
import socket

import uvicorn

from knowledge_pipeline.serve.http.app import make_app
from knowledge_pipeline.serve.service import Service

GRACE_S = 10  # for what is being answered when the server is told to end

_log = logging.getLogger(__name__)


def run(service: Service, listening: socket.socket) -> None:
    """Answer on a socket until SIGTERM or SIGINT; what is being answered then is answered."""
    config = uvicorn.Config(
        make_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=30,
    )
    uvicorn.Server(config).run(sockets=[listening])
