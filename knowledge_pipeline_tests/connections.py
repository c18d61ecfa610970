"""A connection for each source type, of a place that nobody contacts."""

from __future__ import annotations

from typing import Any

_CONNECTIONS: dict[str, dict[str, Any]] = {
    "github_pr": {"type": "github", "repository": "ann/app"},
    "github_issues": {"type": "github", "repository": "ann/app"},
    "jira": {"type": "jira", "url": "https://example.atlassian.net"},
    "confluence": {"type": "confluence", "url": "https://example.atlassian.net/wiki"},
    "table": {"type": "table_files", "path": "rows.parquet"},
    "slack": {"type": "slack_export", "path": "export.zip"},
}


def connection(source_type: str, folder: str = ".") -> dict[str, Any]:
    """A folder of this machine, unless the type is read from a service."""
    return _CONNECTIONS.get(source_type, {"type": "local", "path": folder})
