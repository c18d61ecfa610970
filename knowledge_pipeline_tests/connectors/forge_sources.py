"""Sources of a fake GitHub or GitLab, opened for a test and closed after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.conversations import ConversationFilters
from knowledge_pipeline.connectors.patterns import ChangedPaths, build_changed_paths
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document

Read = dict[str, Document | DocumentSkipped]
Open = Callable[..., Any]


def opened(kind: Any, server: Any, waits: list[float]) -> Iterator[Open]:
    """Opens a source with filters; waits are told, not waited."""
    with ExitStack() as to_close, pausing_by(waits.append):

        def open_source(connection: Any = None, **filters: Any) -> Any:
            told = ConversationFilters(**filters)
            return to_close.enter_context(kind(connection or server.connection(), told))

        yield open_source


def read(source: Any) -> Read:
    """All that is listed, as a refresh reads it."""
    items = list(source.discover())
    return {item.uri: found for item, found in source.fetch_many([item for item in items if not item.skip])}


def read_one(source: Any, uri: str) -> Document:
    document = read(source)[uri]
    assert isinstance(document, Document), document
    return document


def text_of(source: Any, uri: str) -> str:
    return read_one(source, uri).text


def uris(items: Any) -> list[str]:
    return [item.uri for item in items]


def changed_paths(**patterns: list[str]) -> ChangedPaths | None:
    """`include` and `exclude` of a source, as its settings make them."""
    place = {"type": "github", "repository": "ann/app"}
    return build_changed_paths(
        SourceConfig.model_validate({"id": "pulls", "type": "github_pr", "connection": place, **patterns})
    )
