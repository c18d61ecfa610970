"""Where people see a source's files, from its configuration alone."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from knowledge_pipeline.config.connections.archive_file import ARCHIVE_NAME, ArchiveFileConnection
from knowledge_pipeline.config.connections.local import LocalConnection
from knowledge_pipeline.config.connections.repositories import (
    GitConnection,
    GithubConnection,
    GitlabConnection,
    WikiConnection,
)
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.sources.bucket.tree import BucketConnection, build_bucket_web_prefix


@dataclass(frozen=True, slots=True)
class WebLocation:
    """Names of a source's repository; a bucket has only pages.

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
    if isinstance(connection, GithubConnection):
        return WebLocation(repo=connection.repository)
    if isinstance(connection, WikiConnection):  # its pages know their addresses
        return WebLocation(connection.repository, connection.branch)
    if isinstance(connection, GitlabConnection):
        return WebLocation(repo=connection.project)
    if isinstance(connection, BucketConnection):
        return WebLocation(web_prefix=build_bucket_web_prefix(connection))
    if isinstance(connection, LocalConnection):
        return WebLocation(repo=connection.path.expanduser().absolute().name or None)
    if isinstance(connection, ArchiveFileConnection):
        return WebLocation(repo=ARCHIVE_NAME.sub("", connection.location.rpartition("/")[2]) or None)
    if not isinstance(connection, GitConnection):
        return WebLocation()
    host, path = connection.host_and_path
    if not host:
        return WebLocation(repo=path.rpartition("/")[2] or None, branch=connection.branch)
    web, commits = _build_page_prefixes(host, path, connection.branch or "HEAD")
    return WebLocation(path or None, connection.branch, web, commits)


def _build_page_prefixes(host: str, path: str, branch: str) -> tuple[str | None, str | None]:
    site = f"https://{host}/{quote(path)}"
    if host == "github.com" or host.startswith("github."):
        return f"{site}/blob/{quote(branch)}/", f"{site}/commit/"
    if host == "gitlab.com" or host.startswith("gitlab."):
        return f"{site}/-/blob/{quote(branch)}/", f"{site}/-/commit/"
    return None, None
