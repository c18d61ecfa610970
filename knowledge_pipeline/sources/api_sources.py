"""From a source's configuration to the service that it is read from; clients are imported when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.config.connections import (
    ConfluenceConnection,
    GithubConnection,
    GitlabConnection,
    JiraConnection,
    SlackConnection,
)
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.sources.base import ApiSource

if TYPE_CHECKING:
    from knowledge_pipeline.sources.code_host import ConversationFilters
    from knowledge_pipeline.sources.slack.threads import ChannelFilters


def open_api_source(source: SourceConfig) -> ApiSource:
    """The service of a source whose connection is a `ServiceConnection`; nobody is contacted.

    Raises:
        ConfigError: a filter cannot be read.
    """
    match source.connection:
        case JiraConnection() as connection:
            return _open_jira(source, connection)
        case ConfluenceConnection() as connection:
            return _open_confluence(source, connection)
        case GithubConnection() as connection:
            return _open_github(source, connection)
        case GitlabConnection() as connection:
            return _open_gitlab(source, connection)
        case SlackConnection() as connection:
            return _open_slack(source, connection)
    raise AssertionError(source.connection.type)  # `SourceConfig` allows no other


def _open_jira(source: SourceConfig, connection: JiraConnection) -> ApiSource:
    from knowledge_pipeline.sources.jira.tickets import JiraTickets, TicketFilters

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


def _open_confluence(source: SourceConfig, connection: ConfluenceConnection) -> ApiSource:
    from knowledge_pipeline.sources.confluence.pages import ConfluencePages, PageFilters

    filters = PageFilters(
        spaces=source.spaces,
        labels=source.labels,
        since=source.since,
        max_results=source.max_results,
        comments=source.comments,
    )
    return ConfluencePages(connection, filters)


def _open_github(source: SourceConfig, connection: GithubConnection) -> ApiSource:
    from knowledge_pipeline.sources.github.issues import GithubIssues
    from knowledge_pipeline.sources.github.pull_requests import GithubPullRequests

    return (GithubPullRequests if source.type == "github_pr" else GithubIssues)(
        connection, _build_conversation_filters(source)
    )


def _open_gitlab(source: SourceConfig, connection: GitlabConnection) -> ApiSource:
    from knowledge_pipeline.sources.gitlab.issues import GitlabIssues
    from knowledge_pipeline.sources.gitlab.merge_requests import GitlabMergeRequests

    return (GitlabMergeRequests if source.type == "github_pr" else GitlabIssues)(
        connection, _build_conversation_filters(source)
    )


def _build_conversation_filters(source: SourceConfig) -> ConversationFilters:
    from knowledge_pipeline.sources.code_host import ConversationFilters

    return ConversationFilters(source.state, source.since, source.labels, source.max_results)


def _open_slack(source: SourceConfig, connection: SlackConnection) -> ApiSource:
    from knowledge_pipeline.sources.slack.channels import SlackChannels

    return SlackChannels(connection, build_channel_filters(source))


def build_channel_filters(source: SourceConfig) -> ChannelFilters:
    """Which channels of a workspace, or of its export, are wanted."""
    from knowledge_pipeline.sources.slack.threads import ChannelFilters

    return ChannelFilters(source.channels, source.since, source.max_results)
