"""The HTTP server as it runs for users, in a thread, on a free port."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from knowledge_pipeline.config.operation import OidcSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.endpoints import get_ssl_context
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline.serve.service import Service
from knowledge_pipeline.serve.workers import build_server

PATIENCE_S = 200.0  # for an answer: on a busy machine, a process of lower priority starts slowly


class Running:
    """`with Running(settings, config=path) as server: server.client(token).get("/health")`."""

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None = None,
        refreshes: RefreshQueue | None = None,
        oidc: Callable[[str], OidcSettings] | None = None,
        **serve: Any,
    ) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        if oidc:
            serve["oidc"] = oidc(self.url)
        changed = settings.serve.model_copy(update={"timeout_s": PATIENCE_S, **serve})
        settings = settings.model_copy(update={"serve": changed})
        self.service = Service(settings, config=config)
        self._server = build_server(self.service, refreshes)
        self._thread = threading.Thread(target=self._run, name="http-server", daemon=True)
        self._clients: list[httpx2.Client] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def client(self, token: str | None = None, **headers: str) -> httpx2.Client:
        """A client that sends this token with every request; closed with the server."""
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **headers}
        made = httpx2.Client(
            base_url=self.url, headers=sent, timeout=240, trust_env=False, verify=get_ssl_context()
        )
        self._clients.append(made)
        return made

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + 120
        while not self._server.started:
            assert self._thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self._thread.join(120)
        self._listening.close()
        assert not self._thread.is_alive(), "the server did not end"

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listening]))
