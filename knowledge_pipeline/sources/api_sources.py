"""From a source's configuration to the service that it is read from; clients are imported when needed."""

from __future__ import annotations

from knowledge_pipeline.config.connections.repositories import GithubConnection, GitlabConnection
from knowledge_pipeline.config.connections.services import (
    ConfluenceConnection,
    JiraConnection,
    SlackConnection,
)
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.sources.base import BatchSource
from knowledge_pipeline.sources.code_host import ConversationFilters
from knowledge_pipeline.sources.jira.query import TicketCriteria
from knowledge_pipeline.sources.patterns import build_changed_paths


def open_api_source(source: SourceConfig) -> BatchSource:
    """The source behind a `ServiceConnection`; nothing is sent yet.

    Raises:
        ConfigError: a filter cannot be read.
    """
    conversations = ConversationFilters(
        source.state,
        source.since,
        source.labels,
        source.max_results,
        build_changed_paths(source),
        source.parts,
    )
    match source.connection:
        case JiraConnection() as connection:
            from knowledge_pipeline.sources.jira.tickets import JiraTickets

            return JiraTickets(connection, build_ticket_criteria(source))
        case ConfluenceConnection() as connection:
            from knowledge_pipeline.sources.confluence.pages import ConfluencePages, PageFilters

            pages = PageFilters(
                spaces=source.spaces,
                labels=source.labels,
                since=source.since,
                max_results=source.max_results,
                comments=source.comments,
                exclude_labels=source.exclude_labels,
                content_types=source.content_types,
                max_bytes=source.max_bytes,
            )
            return ConfluencePages(connection, pages)
        case GithubConnection() as connection:
            from knowledge_pipeline.sources.github.discussions import GithubDiscussions
            from knowledge_pipeline.sources.github.issues import GithubIssues
            from knowledge_pipeline.sources.github.pull_requests import GithubPullRequests
            from knowledge_pipeline.sources.github.releases import GithubReleases

            github_types = {
                "github_pr": GithubPullRequests,
                "github_issues": GithubIssues,
                "discussions": GithubDiscussions,
                "releases": GithubReleases,
            }
            return github_types[source.type](connection, conversations)
        case GitlabConnection() as connection:
            from knowledge_pipeline.sources.gitlab.issues import GitlabIssues
            from knowledge_pipeline.sources.gitlab.merge_requests import GitlabMergeRequests
            from knowledge_pipeline.sources.gitlab.releases import GitlabReleases
            from knowledge_pipeline.sources.gitlab.snippets import GitlabSnippets

            if source.type == "snippets":
                return GitlabSnippets(connection, source.max_bytes)
            gitlab_types = {
                "github_pr": GitlabMergeRequests,
                "github_issues": GitlabIssues,
                "releases": GitlabReleases,
            }
            return gitlab_types[source.type](connection, conversations)
        case SlackConnection() as connection:
            from knowledge_pipeline.sources.slack.channels import SlackChannels
            from knowledge_pipeline.sources.slack.threads import ChannelFilters

            channels = ChannelFilters(source.channels, source.since, source.max_results)
            return SlackChannels(connection, channels)
        case _:
            raise AssertionError(source.connection.type)  # `SourceConfig` allows no other


def build_ticket_criteria(source: SourceConfig) -> TicketCriteria:
    """Which tickets of Jira a source takes."""
    return TicketCriteria(
        projects=source.projects,
        jql=source.jql,
        issue_types=source.issue_types,
        statuses=source.statuses,
        labels=source.labels,
        since=source.since,
        custom_fields=source.custom_fields,
        max_results=source.max_results,
        parts=source.parts,
    )
