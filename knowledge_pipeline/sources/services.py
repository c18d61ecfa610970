"""From a source's configuration to the service that it is read from; clients are imported when needed."""

from __future__ import annotations

from urllib.parse import urlsplit

from knowledge_pipeline.config import SourceConfig
from knowledge_pipeline.config_connections import (
    ConfluenceConnection,
    GithubConnection,
    JiraConnection,
    ServiceConnection,
)
from knowledge_pipeline.sources.base import Service


def open_service(source: SourceConfig) -> Service:
    """The service of a source whose connection is a `ServiceConnection`; nobody is contacted.

    Raises:
        ConfigError: a filter cannot be read.
    """
    match source.connection:
        case JiraConnection() as connection:
            return _jira(source, connection)
        case ConfluenceConnection() as connection:
            return _confluence(source, connection)
        case GithubConnection() as connection:
            return _github(source, connection)
    raise AssertionError(source.connection.type)  # `SourceConfig` allows no other


def host_of_service(connection: ServiceConnection) -> str:
    """The host that is asked."""
    return urlsplit(connection.url).hostname or connection.url


def _jira(source: SourceConfig, connection: JiraConnection) -> Service:
    from knowledge_pipeline.sources.jira import JiraTickets, TicketFilters

    filters = TicketFilters(
        projects=source.projects,
        jql=source.jql,
        issue_types=source.issue_types,
        statuses=source.statuses,
        labels=source.labels,
        since=source.since,
        custom_fields=source.custom_fields,
        max_results=source.max_results,
    )
    return JiraTickets(connection, filters)


def _confluence(source: SourceConfig, connection: ConfluenceConnection) -> Service:
    from knowledge_pipeline.sources.confluence import ConfluencePages, PageFilters

    filters = PageFilters(
        spaces=source.spaces,
        labels=source.labels,
        since=source.since,
        max_results=source.max_results,
        comments=source.comments,
    )
    return ConfluencePages(connection, filters)


def _github(source: SourceConfig, connection: GithubConnection) -> Service:
    from knowledge_pipeline.sources.github_issues import Issues
    from knowledge_pipeline.sources.github_listing import ConversationFilters
    from knowledge_pipeline.sources.github_pulls import PullRequests

    filters = ConversationFilters(source.state, source.since, source.labels, source.max_results)
    return (PullRequests if source.type == "github_pr" else Issues)(connection, filters)
