"""Which service says who may read the documents of a source: `access.visibility: from_source`."""

from __future__ import annotations

from knowledge_pipeline.config.connections.connection import Connection
from knowledge_pipeline.config.connections.repositories import (
    GitConnection,
    GithubConnection,
    GitlabConnection,
)
from knowledge_pipeline.config.connections.services import (
    ConfluenceConnection,
    JiraConnection,
    SlackConnection,
)
from knowledge_pipeline.config.sources.access import AccessSettings
from knowledge_pipeline.contract.types import SourceType

PermissionConnection = (
    ConfluenceConnection | JiraConnection | SlackConnection | GithubConnection | GitlabConnection
)

GIT_READ_TYPES: frozenset[SourceType] = frozenset({"code", "markdown", "openapi", "git_history"})
"""Types that git reads, also over a connection to GitHub or GitLab."""


def find_permission_connection(
    source_type: SourceType, connection: Connection, access: AccessSettings
) -> PermissionConnection | None:
    """The service to ask, of a connection as it is declared; None: there is none.

    Raises:
        ValueError: there is none, and `access` needs one.
    """
    found = connection if isinstance(connection, PermissionConnection) else None
    if isinstance(connection, GitConnection):
        found = connection.to_code_host()
    if found is None and access.visibility == "from_source":
        raise ValueError(_format_refusal(source_type, connection.type))
    return found


def _format_refusal(source_type: SourceType, connection_type: str) -> str:
    remedy = ""
    if source_type in GIT_READ_TYPES:
        remedy = ": use connection.type github or gitlab, or a connection.token for a url on one of them"
    return (
        f"access.visibility 'from_source' is not read for type {source_type!r} over connection.type "
        f"{connection_type!r}; only Confluence, Jira, Slack, GitHub and GitLab say who may read a "
        f"document{remedy}"
    )
