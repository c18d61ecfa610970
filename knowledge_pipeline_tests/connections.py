"""A connection for each source type, of a place that nobody contacts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from knowledge_pipeline.extending import Document, DocumentSkipped, Item, Source

_CONNECTIONS: dict[str, dict[str, Any]] = {
    "github_pr": {"type": "github", "repository": "ann/app"},
    "github_issues": {"type": "github", "repository": "ann/app"},
    "discussions": {"type": "github", "repository": "ann/app"},
    "releases": {"type": "github", "repository": "ann/app"},
    "snippets": {"type": "gitlab", "project": "ann/app"},
    "jira": {"type": "jira", "url": "https://example.atlassian.net"},
    "confluence": {"type": "confluence", "url": "https://example.atlassian.net/wiki"},
    "custom": {"type": "custom", "use": "knowledge_pipeline_tests.connections:EmptySource"},
    "table": {"type": "table_files", "path": "rows.parquet"},
    "push": {"type": "push"},
    "slack": {"type": "slack_export", "path": "export.zip"},
}


def connection(source_type: str, folder: str = ".") -> dict[str, Any]:
    """A folder of this machine, unless the type is read from a service."""
    return _CONNECTIONS.get(source_type, {"type": "local", "path": folder})


class EmptySource(Source):
    """A source of a package that has no documents and no settings."""

    class settings_model(BaseModel):
        pass

    def __init__(self, settings: BaseModel) -> None:
        del settings

    def discover(self) -> Iterator[Item]:
        yield from ()

    def fetch(self, item: Item) -> Document:
        raise DocumentSkipped(item.uri)

    def close(self) -> None:
        pass
