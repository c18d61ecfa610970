"""Which pull requests of a repository are open, by the API of its service: git does not say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from knowledge_pipeline.branch_names import PULL_PREFIXES
from knowledge_pipeline.config.connections.repositories import GithubConnection, GitlabConnection
from knowledge_pipeline.config.sources.source import SourceConfig

_SINCE_EVER = "1970-01-01"


def find_pull_lister(source: SourceConfig) -> Callable[[], Sequence[str]] | None:
    """What lists the heads of open pull requests by name; None: nobody may ask the service, or none is known.

    It raises SourceRefused, SourceUnavailable as the listing of pull requests does.
    """
    api = source.permission_connection
    if isinstance(api, GithubConnection) and (api.token or api.app):
        return partial(_list_open_pulls, api)
    return partial(_list_open_pulls, api) if isinstance(api, GitlabConnection) and api.token else None


def _list_open_pulls(connection: GithubConnection | GitlabConnection) -> Sequence[str]:
    # Imported here: they bring `requests`, which git does without.
    from knowledge_pipeline.sources.code_host import ConversationFilters
    from knowledge_pipeline.sources.github.pull_requests import GithubPullRequests
    from knowledge_pipeline.sources.gitlab.merge_requests import GitlabMergeRequests

    filters = ConversationFilters(state="open", since=_SINCE_EVER)
    is_github = isinstance(connection, GithubConnection)
    pulls = GithubPullRequests(connection, filters) if is_github else GitlabMergeRequests(connection, filters)
    with pulls:
        numbers = [item.uri.rpartition("/")[2] for item in pulls.discover()]
    return [PULL_PREFIXES[connection.type] + number for number in numbers]
