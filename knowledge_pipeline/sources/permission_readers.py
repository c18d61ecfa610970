"""From a source's configuration to the permissions of its documents."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_pipeline.config.connections.repositories import GithubConnection, GitlabConnection
from knowledge_pipeline.config.connections.services import (
    ConfluenceConnection,
    JiraConnection,
    SlackConnection,
)
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.sources.api_sources import build_ticket_criteria
from knowledge_pipeline.sources.permissions import Permissions


def read_permissions(source: SourceConfig, uris: Sequence[str], *, by_name: bool = False) -> Permissions:
    """Who may read some documents of a source, as it says now.

    With `by_name` they are few, and were found by their names a moment ago.

    What cannot be read makes documents closed, and is one of the result's problems.

    Raises:
        SourceRefused: the source refuses us altogether.
        SourceUnavailable: it did not answer.
    """
    match source.permission_connection:
        case ConfluenceConnection() as connection:
            from knowledge_pipeline.sources.confluence.permissions import read_page_permissions

            return read_page_permissions(connection, uris)
        case JiraConnection() as connection:
            from knowledge_pipeline.sources.jira.permissions import read_ticket_permissions

            criteria = build_ticket_criteria(source)
            return read_ticket_permissions(connection, criteria, uris, by_name=by_name)
        case SlackConnection() as connection:
            from knowledge_pipeline.sources.slack.permissions import read_channel_permissions

            return read_channel_permissions(connection, uris)
        case GithubConnection() as connection:
            from knowledge_pipeline.sources.github.permissions import read_repository_permissions

            return read_repository_permissions(connection, uris)
        case GitlabConnection() as connection:
            from knowledge_pipeline.sources.gitlab.permissions import ProjectPart, read_project_permissions

            if source.type == "snippets":
                from knowledge_pipeline.sources.gitlab.snippets import read_snippet_permissions

                return read_snippet_permissions(connection, uris)
            parts: dict[str, ProjectPart] = {
                "github_issues": "issue",
                "github_pr": "merge_request",
                "releases": "release",
            }
            part = "wiki" if connection.wiki else parts.get(source.type, "repository")
            return read_project_permissions(connection, part, uris)
        case None:
            raise AssertionError(source.connection.type)  # `SourceConfig` allows no other
