"""Sources of a fake GitLab, opened for a test and closed after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from knowledge_pipeline.config_connections import GitlabConnection
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document
from knowledge_pipeline.sources.forge import ConversationFilters
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer

Read = dict[str, Document | DocumentSkipped]
Open = Callable[..., Any]


def opened(kind: Any, server: GitlabServer, waits: list[float]) -> Iterator[Open]:
    """Opens a source with filters; waits are told, not waited."""
    to_close: list[Any] = []

    def open_source(connection: GitlabConnection | None = None, **filters: Any) -> Any:
        told = ConversationFilters(**filters)
        source = kind(connection or server.connection(), told, sleep=waits.append)
        to_close.append(source.__enter__())
        return source

    yield open_source
    for source in to_close:
        source.__exit__(None, None, None)


def read(source: Any) -> Read:
    """All that is listed, as a refresh reads it."""
    items = list(source.discover())
    return {item.uri: found for item, found in source.fetch_many([item for item in items if not item.skip])}


def read_one(source: Any, uri: str) -> Document:
    document = read(source)[uri]
    assert isinstance(document, Document), document
    return document


def uris(items: Any) -> list[str]:
    return [item.uri for item in items]
