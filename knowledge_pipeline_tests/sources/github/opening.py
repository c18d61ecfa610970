"""Sources of a fake GitHub, opened for a test and closed after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from knowledge_pipeline.config_connections import GithubConnection
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document
from knowledge_pipeline.sources.forge import ConversationFilters
from knowledge_pipeline_tests.fakes.github.server import GithubServer

Read = dict[str, Document | DocumentSkipped]
Open = Callable[..., Any]


def opened(kind: Any, server: GithubServer, waits: list[float]) -> Iterator[Open]:
    """Opens a source with filters; waits are told, not waited."""
    to_close: list[Any] = []

    def open_source(connection: GithubConnection | None = None, **filters: Any) -> Any:
        told = ConversationFilters(**filters)
        source = kind(connection or server.connection(), told, sleep=waits.append)
        to_close.append(source.__enter__())
        return source

    yield open_source
    for source in to_close:
        source.__exit__(None, None, None)


def read(source: Any) -> Read:
    return {item.uri: document for item, document in source.fetch_many(list(source.discover()))}


def text_of(source: Any, uri: str) -> str:
    document = read(source)[uri]
    assert isinstance(document, Document), document
    return document.text
