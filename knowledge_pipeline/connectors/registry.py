"""From a source's or organisation's configuration to what reads it: the one list of their types.

What only some types need, such as the client of a service, is imported for these: most projects have files
and repositories alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from knowledge_pipeline.config import connections, organisations
from knowledge_pipeline.config.organisations import OrganisationMember
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.base import BatchSource, Source
from knowledge_pipeline.connectors.buckets import (
    BucketConnection,
    BucketTree,
    build_bucket_web_prefix,
    list_bucket_members,
)
from knowledge_pipeline.connectors.files import (
    FORMAT_VERSION,
    FileSource,
    FileTree,
    ListingMemory,
    build_filter,
    read_text,
    text_version,
)
from knowledge_pipeline.connectors.git.checkout import CheckoutTree, WorktreeTree
from knowledge_pipeline.connectors.git.command import build_remote
from knowledge_pipeline.connectors.git.history import FolderHistory, GitHistorySource, MirrorHistory
from knowledge_pipeline.connectors.git.mirror import Mirror, find_pull_lister
from knowledge_pipeline.connectors.git.tree import GitTree, WikiPages
from knowledge_pipeline.connectors.jira.query import TicketCriteria
from knowledge_pipeline.connectors.patterns import (
    SELECTION_DEFAULTS,
    FileSelection,
    build_changed_paths,
    build_selection,
)
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.extraction.extraction import extraction_version, fingerprint_file_extractor
from knowledge_pipeline.extraction.notebook import NOTEBOOK_VERSION, is_notebook
from knowledge_pipeline.extraction.text_decoding import fingerprint_encoding
from knowledge_pipeline.extraction.worker import ExtractionWorker

if TYPE_CHECKING:
    from knowledge_pipeline.connectors.permissions import Permissions

FiltersT = TypeVar("FiltersT")


def open_source(source: SourceConfig, *, cache: Path, memory: ListingMemory | None = None) -> Source:
    """The source that a configuration names; nothing is read or fetched before `discover`.

    Args:
        source: as configured.
        cache: a folder for what can be made again: mirrors of repositories, listings of archives. What was
            pushed waits beside it.
        memory: what the last listing of the same configuration left; this one's is left there.

    Raises:
        ConfigError: a variable of the connection is not set, the type cannot be read over it, or a pattern
            is wrong.
    """
    source.require_variables()
    if isinstance(source.connection, connections.ServiceConnection):
        return open_api_source(source)
    if isinstance(source.connection, connections.SlackExportConnection):
        from knowledge_pipeline.connectors.slack.export import SlackExport
        from knowledge_pipeline.connectors.slack.threads import ChannelFilters

        return SlackExport(source.connection, _select_filters(ChannelFilters, source))
    if isinstance(source.connection, connections.CustomConnection):
        from knowledge_pipeline.connectors.guarded import open_custom_source

        return open_custom_source(source.connection, source.max_bytes)
    if source.type == "push":
        from knowledge_pipeline.connectors.push import PushedDocuments
        from knowledge_pipeline.pushed import PushInbox

        return PushedDocuments(PushInbox(cache.parent), source.id, source.max_bytes)
    if source.type == "table":
        from knowledge_pipeline.connectors.table import open_table

        return open_table(source)
    if source.type == "git_history":
        return _open_git_history(source, cache)
    return _open_file_source(source, cache, memory or ListingMemory())


def list_branches(source: Source) -> tuple[str, ...]:
    """The further branches that the last listing of a repository covered, by name."""
    return source.branches if isinstance(source, FileSource) else ()


def list_notes(source: Source) -> Counter[str]:
    """What the last listing left out without a document of its own."""
    return source.notes if isinstance(source, FileSource) else Counter()


def _open_git_history(source: SourceConfig, cache: Path) -> GitHistorySource:
    connection = source.connection
    if isinstance(connection, connections.LocalConnection):
        history = FolderHistory(connection.path)
    else:
        assert isinstance(connection, connections.GitConnection)  # `SourceConfig` allows no other
        history = MirrorHistory(Mirror(build_remote(connection), cache), connection.branch)
    return GitHistorySource(
        history,
        depth=source.depth,
        since=source.since,
        commit_prefix=build_web_location(source).commit_prefix,
        changed_paths=build_changed_paths(source),
        encoding=source.encoding,
    )


def _open_file_source(source: SourceConfig, cache: Path, memory: ListingMemory) -> Source:
    selection = memory.selection = memory.selection or build_selection(source)
    tree = _open_tree(source, cache, selection, memory)
    accepts = build_filter(source.type, tree, selection)
    max_bytes = source.max_bytes or SELECTION_DEFAULTS[source.type].max_bytes
    list_tree_notes = (lambda: Counter(tree.notes)) if isinstance(tree, CheckoutTree) else Counter[str]
    encoding, encoding_version = source.encoding, fingerprint_encoding(source.encoding)
    files = FileSource(
        tree,
        accepts,
        partial(read_text, encoding=encoding),
        lambda path: text_version(path) + encoding_version,
        max_bytes,
        list_notes=list_tree_notes,
        selection=selection,
    )
    if source.type == "archive":
        from knowledge_pipeline.connectors.records import ARCHIVE_VERSION, read_record

        def version_of_record(_: str) -> str:
            return ARCHIVE_VERSION + encoding_version

        read = partial(read_record, encoding=encoding)
        return replace(files, extract=read, version_of=version_of_record)
    if source.type == "files":
        extractor = source.files.extractor
        worker = ExtractionWorker(extractor=extractor, encoding=encoding)
        own = fingerprint_file_extractor(extractor) + encoding_version

        def version_of(path: str) -> str:
            version = f"{FORMAT_VERSION}.{extraction_version(path)}" + (f"+{own}" if own else "")
            return f"{version}+{NOTEBOOK_VERSION}" if is_notebook(path) else version

        return replace(files, extract=worker, version_of=version_of, close_reader=worker.close)
    if source.type == "openapi":
        from knowledge_pipeline.connectors.specifications import SpecificationTree

        files = replace(files, tree=SpecificationTree(tree, max_bytes, memory))
    if isinstance(tree, GitTree):
        files = replace(files, list_branches=lambda: tree.branches, memory=memory)
    if isinstance(tree, GitTree | CheckoutTree):
        files = replace(files, find_tip=lambda: tree.tip)
    if isinstance(source.connection, connections.WikiConnection):
        return WikiPages(files, source.connection)
    return files


def _open_tree(
    source: SourceConfig, cache: Path, selection: FileSelection, memory: ListingMemory
) -> FileTree:
    connection = source.connection
    if isinstance(connection, connections.WorktreeConnection):
        origin = CheckoutTree(connection.origin, build_selection(source), cache, ListingMemory())
        return WorktreeTree(connection.path, selection, cache, memory, origin)
    if isinstance(connection, connections.LocalConnection):
        return CheckoutTree(connection.path, selection, cache, memory)
    if isinstance(connection, BucketConnection):
        return BucketTree(connection, selection)
    if isinstance(connection, connections.ArchiveFileConnection):
        from knowledge_pipeline.connectors.archive_file import ArchiveTree

        return ArchiveTree(connection, selection, cache=cache)
    assert isinstance(connection, connections.GitConnection)  # `SourceConfig` allows no other
    mirror = Mirror(build_remote(connection), cache)
    pulls = find_pull_lister(source)
    return GitTree(mirror, connection.branch, selection, source.branches, pulls, memory)


def open_api_source(source: SourceConfig) -> BatchSource:
    """The source behind a `ServiceConnection`; nothing is sent yet. ConfigError: a filter cannot be read."""
    from knowledge_pipeline.connectors.conversations import ConversationFilters

    conversations = ConversationFilters(
        source.state,
        source.since,
        source.labels,
        source.max_results,
        build_changed_paths(source),
        source.parts,
    )
    match source.connection:
        case connections.JiraConnection() as connection:
            from knowledge_pipeline.connectors.jira.tickets import JiraTickets

            return JiraTickets(connection, _select_filters(TicketCriteria, source))
        case connections.ConfluenceConnection() as connection:
            from knowledge_pipeline.connectors.confluence.pages import ConfluencePages, PageFilters

            return ConfluencePages(connection, _select_filters(PageFilters, source))
        case connections.GithubConnection() as connection:
            from knowledge_pipeline.connectors.github import documents as github

            github_types = {
                "github_pr": github.GithubPullRequests,
                "github_issues": github.GithubIssues,
                "discussions": github.GithubDiscussions,
                "releases": github.GithubReleases,
            }
            return github_types[source.type](connection, conversations)
        case connections.GitlabConnection() as connection:
            from knowledge_pipeline.connectors.gitlab import documents as gitlab

            if source.type == "snippets":
                return gitlab.GitlabSnippets(connection, source.max_bytes)
            gitlab_types = {
                "github_pr": gitlab.GitlabMergeRequests,
                "github_issues": gitlab.GitlabIssues,
                "releases": gitlab.GitlabReleases,
            }
            return gitlab_types[source.type](connection, conversations)
        case connections.SlackConnection() as connection:
            from knowledge_pipeline.connectors.slack.channels import SlackChannels
            from knowledge_pipeline.connectors.slack.threads import ChannelFilters

            return SlackChannels(connection, _select_filters(ChannelFilters, source))
        case _:
            raise AssertionError(source.connection.type)  # `SourceConfig` allows no other


def _select_filters(kind: type[FiltersT], source: SourceConfig) -> FiltersT:
    """Filters of a service, whose fields have the names that they have in `SourceConfig`."""
    return kind(**{field.name: getattr(source, field.name) for field in fields(kind)})  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, slots=True)
class WebLocation:
    """Where people see a source's files: names of its repository; a bucket has only pages.

    `web_prefix` followed by a file's quoted path is its page; `commit_prefix` followed
    by a commit's id is the commit's.
    """

    repo: str | None = None  # "owner/name" where it is hosted, else the folder's name
    branch: str | None = None  # only a configured one
    web_prefix: str | None = None
    commit_prefix: str | None = None


def build_web_location(source: SourceConfig) -> WebLocation:
    """The web location of a source; opens nothing."""
    connection = source.connection
    if isinstance(connection, connections.GithubConnection):
        return WebLocation(repo=connection.repository)
    if isinstance(connection, connections.WikiConnection):  # its pages know their addresses
        return WebLocation(connection.repository, connection.branch)
    if isinstance(connection, connections.GitlabConnection):
        return WebLocation(repo=connection.project)
    if isinstance(connection, BucketConnection):
        return WebLocation(web_prefix=build_bucket_web_prefix(connection))
    if isinstance(connection, connections.LocalConnection):
        is_worktree = isinstance(connection, connections.WorktreeConnection)
        folder = connection.origin if is_worktree else connection.path
        return WebLocation(repo=folder.expanduser().absolute().name or None)
    if isinstance(connection, connections.ArchiveFileConnection):
        return WebLocation(
            repo=connections.ARCHIVE_NAME.sub("", connection.location.rpartition("/")[2]) or None
        )
    if not isinstance(connection, connections.GitConnection):
        return WebLocation()
    host, path = connection.host_and_path
    if not host:
        return WebLocation(repo=path.rpartition("/")[2] or None, branch=connection.branch)
    site, branch = f"https://{host}/{quote(path)}", quote(connection.branch or "HEAD")
    web = commits = None
    if host == "github.com" or host.startswith("github."):
        web, commits = f"{site}/blob/{branch}/", f"{site}/commit/"
    elif host == "gitlab.com" or host.startswith("gitlab."):
        web, commits = f"{site}/-/blob/{branch}/", f"{site}/-/commit/"
    return WebLocation(path or None, connection.branch, web, commits)


def read_permissions(source: SourceConfig, uris: Sequence[str], *, by_name: bool = False) -> Permissions:
    """Who may read some documents of a source, as it says now; errors as `Source`.

    With `by_name` they are few, and were found by their names a moment ago. What cannot be read makes
    documents closed, and is one of the result's problems.
    """
    match source.permission_connection:
        case connections.ConfluenceConnection() as connection:
            from knowledge_pipeline.connectors.confluence.permissions import read_page_permissions

            return read_page_permissions(connection, uris)
        case connections.JiraConnection() as connection:
            from knowledge_pipeline.connectors.jira.permissions import read_ticket_permissions

            criteria = _select_filters(TicketCriteria, source)
            return read_ticket_permissions(connection, criteria, uris, by_name=by_name)
        case connections.SlackConnection() as connection:
            from knowledge_pipeline.connectors.slack.permissions import read_channel_permissions

            return read_channel_permissions(connection, uris)
        case connections.GithubConnection() as connection:
            from knowledge_pipeline.connectors.github.permissions import read_repository_permissions

            return read_repository_permissions(connection, uris)
        case connections.GitlabConnection() as connection:
            from knowledge_pipeline.connectors.gitlab.permissions import ProjectPart, read_project_permissions

            if source.type == "snippets":
                from knowledge_pipeline.connectors.gitlab.documents import read_snippet_permissions

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


def list_members(connection: organisations.AnyOrganisationConnection) -> Iterator[OrganisationMember]:
    """The members of an organisation, complete, or an exception as of `Source`: who is missing is gone.

    Each service has a module with a `list_members` of its own, which reads page by page while it is consumed.
    """
    match connection:
        case organisations.GithubOrganisationConnection():
            from knowledge_pipeline.connectors.github import members as github

            return github.list_members(connection)
        case organisations.GitlabGroupConnection():
            from knowledge_pipeline.connectors.gitlab import members as gitlab

            return gitlab.list_members(connection)
        case organisations.ConfluenceSpacesConnection():
            from knowledge_pipeline.connectors.confluence import members as confluence

            return confluence.list_members(connection)
        case organisations.JiraProjectsConnection():
            from knowledge_pipeline.connectors.jira import members as jira

            return jira.list_members(connection)
        case organisations.SlackChannelsConnection():
            from knowledge_pipeline.connectors.slack import members as slack

            return slack.list_members(connection)
        case organisations.CheckoutsConnection():
            return _list_checkouts(connection.path.expanduser().absolute(), "", connection.depth)
        case organisations.BucketFoldersConnection():
            return list_bucket_members(connection)


def _list_checkouts(folder: Path, prefix: str, depth: int) -> Iterator[OrganisationMember]:
    """Git checkouts in a folder, by name; nothing below one is looked at, and no link is followed."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError as error:
        raise SourceRefused(
            f"the folder {folder} cannot be read ({error.strerror}): correct connection.path or its "
            "permissions (nothing is removed meanwhile)"
        ) from None
    for name in names:
        if (folder / name / ".git").exists():
            yield OrganisationMember(f"{prefix}{name}")
        elif depth > 1:
            yield from _list_checkouts(folder / name, f"{prefix}{name}/", depth - 1)
