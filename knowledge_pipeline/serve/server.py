"""Runs the server until it is told to end."""

from __future__ import annotations

import socket

import uvicorn

from knowledge_pipeline.serve.http.app import create_app
from knowledge_pipeline.serve.http.connection_limits import create_protocol_class
from knowledge_pipeline.serve.logs import configure_logging
from knowledge_pipeline.serve.refresh_queue import RefreshQueue
from knowledge_pipeline.serve.service import Service

MIN_HEADER_TIMEOUT_S = 1.0  # a client may need that to send them, however quickly it is to be answered
GRACE_S = 10  # for what is being answered when the server is told to end


def run(service: Service, listener: socket.socket) -> None:
    """Answer on a socket until SIGTERM or SIGINT; what is being answered then is answered.

    Each request is told on stderr in one line, without its content; see `logs`.
    """
    with configure_logging(service.settings.serve):
        build_server(service).run(sockets=[listener])


def build_server(service: Service, refreshes: RefreshQueue | None = None) -> uvicorn.Server:
    """A server that answers for a service; its `should_exit` ends it as a signal does."""
    serve = service.settings.serve
    app = create_app(service, refreshes)
    config = uvicorn.Config(
        app,
        http=create_protocol_class(
            max_connections=serve.max_connections, header_timeout_s=max(serve.timeout_s, MIN_HEADER_TIMEOUT_S)
        ),
        ws="none",  # no route takes one, and its connections would pass the limits
        lifespan="on",  # a start that fails is told
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=30,
    )
    server = uvicorn.Server(config)
    app.state.held.streams.is_ending = lambda: server.should_exit
    return server
