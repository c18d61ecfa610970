"""Every origin there is, by type and connection: a new one is added here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline_tests.stages.lives.archives import S3TarPlace, ZipPlace
from knowledge_pipeline_tests.stages.lives.buckets import AzurePlace, GcsPlace, S3Place
from knowledge_pipeline_tests.stages.lives.exports import SlackExportOrigin
from knowledge_pipeline_tests.stages.lives.files import FileOrigin, FilePlace, Folder
from knowledge_pipeline_tests.stages.lives.origin import Origin
from knowledge_pipeline_tests.stages.lives.repositories import (
    CommitOrigin,
    GithubPlace,
    GitlabPlace,
    GitPlace,
    RepositoryFolder,
    RepositoryPlace,
    RepositoryUrl,
    WikiPlace,
)
from knowledge_pipeline_tests.stages.lives.services import (
    ConfluenceOrigin,
    JiraOrigin,
    SlackOrigin,
    open_github,
    open_github_releases,
    open_gitlab,
    open_gitlab_releases,
    open_snippets,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of origin, which lives a whole life or, to save time, a brief one.

    Reading a place does not depend on the type of its files, nor a mirror on the service that it is of: each
    way of reading has a whole life, and not each pair.
    """

    source_type: SourceType
    connection: str
    open: Callable[[Path], Origin]  # in a folder of its own
    is_whole: bool = True
    is_cheapest: bool = False  # of its family: the default suite tries it, briefly


ELSEWHERE: Mapping[tuple[str, str], str] = {
    **{("table", each): "connectors/test_table.py" for each in ("table_files", "duckdb", "postgres")},
    ("custom", "custom"): "test_extending.py",
    ("push", "push"): "stages/test_pushed.py",
}
"""Pairs of type and connection whose documents live in another test: its module below the tests."""

_FILE_PLACES: Mapping[str, tuple[str, type[FilePlace]]] = {
    "folder": ("local", Folder),
    "git url": ("git", RepositoryUrl),
    "git server": ("git", GitPlace),
    "github": ("github", GithubPlace),
    "gitlab": ("gitlab", GitlabPlace),
    "s3": ("s3", S3Place),
    "gcs": ("gcs", GcsPlace),
    "azure": ("azure", AzurePlace),
    "zip": ("archive_file", ZipPlace),
    "s3 tar": ("archive_file", S3TarPlace),
}
_READ_FROM: Mapping[SourceType, tuple[str, ...]] = {
    **dict.fromkeys(("code", "markdown", "openapi"), tuple(_FILE_PLACES)),
    **dict.fromkeys(("files", "archive"), ("folder", "s3", "gcs", "azure", "zip", "s3 tar")),
}
_WAYS_OF_READING = ("folder", "git server", "s3", "zip", "s3 tar")
_CHEAPEST_FILES = {
    *(("markdown", "gcs"), ("code", "git url"), ("openapi", "folder"), ("archive", "folder")),
    ("openapi", "zip"),
}
_HISTORIES: Mapping[str, tuple[str, type[RepositoryPlace]]] = {
    "folder": ("local", RepositoryFolder),
    "git url": ("git", RepositoryUrl),
    "git server": ("git", GitPlace),
    "github": ("github", GithubPlace),
    "gitlab": ("gitlab", GitlabPlace),
}


def _build_files(source_type: SourceType, place: str) -> Kind:
    connection, open_place = _FILE_PLACES[place]
    return Kind(
        source_type,
        connection,
        lambda root: FileOrigin(source_type, open_place(root)),
        is_whole=place == "folder" or (source_type == "markdown" and place in _WAYS_OF_READING),
        is_cheapest=(source_type, place) in _CHEAPEST_FILES,
    )


def _build_history(place: str) -> Kind:
    connection, open_place = _HISTORIES[place]
    is_local = connection == "local"
    return Kind(
        "git_history",
        connection,
        lambda root: CommitOrigin(open_place(root)),
        is_whole=is_local or place == "git server",
        is_cheapest=is_local,
    )


KINDS: Mapping[str, Kind] = {
    **{
        f"{kind} {place}": _build_files(kind, place)
        for kind, places in _READ_FROM.items()
        for place in places
    },
    **{f"git_history {place}": _build_history(place) for place in _HISTORIES},
    "pull requests": Kind("github_pr", "github", lambda root: open_github("github_pr")),
    "merge requests": Kind("github_pr", "gitlab", lambda root: open_gitlab("github_pr")),
    "github issues": Kind(
        "github_issues", "github", lambda root: open_github("github_issues"), is_cheapest=True
    ),
    "gitlab issues": Kind("github_issues", "gitlab", lambda root: open_gitlab("github_issues")),
    "discussions": Kind("discussions", "github", lambda root: open_github("discussions")),
    "github releases": Kind("releases", "github", lambda root: open_github_releases()),
    "gitlab releases": Kind("releases", "gitlab", lambda root: open_gitlab_releases()),
    "snippets": Kind("snippets", "gitlab", lambda root: open_snippets()),
    "wiki": Kind("markdown", "github", lambda root: FileOrigin("markdown", WikiPlace(root)), is_whole=False),
    "jira cloud": Kind("jira", "jira", lambda root: JiraOrigin(cloud=True), is_cheapest=True),
    "jira server": Kind("jira", "jira", lambda root: JiraOrigin(cloud=False)),
    "confluence cloud": Kind(
        "confluence", "confluence", lambda root: ConfluenceOrigin("cloud"), is_cheapest=True
    ),
    "confluence server": Kind("confluence", "confluence", lambda root: ConfluenceOrigin("server")),
    "slack": Kind("slack", "slack", lambda root: SlackOrigin(), is_cheapest=True),
    "slack zip": Kind("slack", "slack_export", lambda root: SlackExportOrigin(root, is_zip=True)),
    "slack folder": Kind("slack", "slack_export", lambda root: SlackExportOrigin(root, is_zip=False)),
}
