"""Repositories: over git, and at the services that host them, GitHub and GitLab."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from knowledge_pipeline.config.connections.base import BaseConnection, HttpUrl, ServiceConnection
from knowledge_pipeline.config.model import SettingsModel

SCP_ADDRESS = re.compile(r"^(?:[^/@:\s]+@)?(?P<host>[^/:\s]+|\[[^\]]+\]):(?!//)(?P<path>.+)$", re.DOTALL)
"""A git address as scp writes it: `user@host:path`."""

_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
GITHUB_API = "https://api.github.com"
_GITHUB_REPOSITORY = re.compile(r"^[\w.-]+/[\w.-]+$")
_GITLAB_PROJECT = re.compile(r"^[\w.-]+(/[\w.-]+)+$")


class GithubApp(SettingsModel):
    """A GitHub App that is installed for the repository."""

    id: int
    private_key: SecretStr  # PEM
    installation_id: int | None = None  # None: that of the repository


class GitConnection(BaseConnection):
    """A git repository at any URL or path that git accepts, read at a branch's tip."""

    type: Literal["git"]
    url: str = Field(min_length=1)
    branch: str | None = None  # None: the remote's HEAD
    token: SecretStr | None = None  # for HTTPS; sent as a header, never stored
    app: GithubApp | None = None  # of GitHub, in place of a token

    @model_validator(mode="after")
    def _check_single_identity(self) -> GitConnection:
        if self.token and self.app:
            raise ValueError("give a token or an app, not both")
        if self.app and not (self.url.startswith(("https://", "http://")) and self._is_of_github):
            raise ValueError(
                "an app reads only from GitHub: give a url such as https://github.com/OWNER/NAME"
            )
        return self

    @property
    def _is_of_github(self) -> bool:
        return _GITHUB_REPOSITORY.fullmatch(self.host_and_path[1]) is not None

    @property
    def location(self) -> str:
        """Its URL, without a user or password."""
        return strip_credentials(self.url)

    @property
    def host(self) -> str | None:
        """Of its URL; None for a path on this machine."""
        return self.host_and_path[0] or None

    @property
    def host_and_path(self) -> tuple[str, str]:
        """Host ("" on this machine) and path of its URL, without slashes at its ends."""
        scp = SCP_ADDRESS.match(self.url)
        if "://" in self.url:
            parts = urlsplit(self.url)
            host, path = parts.hostname or "", parts.path
        elif scp:
            host, path = scp["host"].lower(), scp["path"]
        else:
            host, path = "", self.url
        return host, path.strip("/").removesuffix(".git").rstrip("/")

    def to_github(self) -> GithubConnection:
        """The API of the repository on GitHub: that of its host, which an App is known to."""
        host, path = self.host_and_path
        parts = urlsplit(self.url)
        server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/api/v3"
        url = GITHUB_API if host == "github.com" else server
        repository = path.removesuffix(".wiki")  # of which a wiki is part; GitHub allows no such name
        return GithubConnection(type="github", repository=repository, url=url, token=self.token, app=self.app)

    def to_code_host(self) -> GithubConnection | GitlabConnection | None:
        """The API of the service that hosts it: of GitHub for an App, else if its host is known."""
        host, path = self.host_and_path
        if self.app:
            return self.to_github()
        if self.token is None:
            return None
        if host == "github.com" and _GITHUB_REPOSITORY.fullmatch(path):
            return self.to_github()
        if host == "gitlab.com" and _GITLAB_PROJECT.fullmatch(path):
            return GitlabConnection(type="gitlab", project=path, token=self.token)
        return None


class WikiConnection(GitConnection):
    """The git repository of a wiki; never written in the file: a connection with `wiki: true` becomes it."""

    repository: str  # that it belongs to: "owner/name"
    pages: str  # URL that the name of a page follows
    is_flat: bool  # a page's address has no folders


class CodeHostConnection(ServiceConnection):
    """A repository at a service, read by the service's API or by git."""

    branch: str | None = None  # code, markdown, openapi, git_history: None is the default branch
    token: SecretStr | None = None
    wiki: bool = False  # markdown: the pages of its wiki, not its files

    def require_readable_wiki(self, source_type: str) -> None:
        """Raises ValueError if a wiki is asked for as another type than Markdown."""
        if self.wiki and source_type != "markdown":
            raise ValueError(
                f"connection.wiki does not apply to type {source_type!r}: a wiki is read as type 'markdown'"
            )

    def _to_git(self, pages: str, *, is_flat: bool, app: GithubApp | None = None) -> GitConnection:
        if not self.wiki:
            return GitConnection(
                type="git", url=f"{self.location}.git", branch=self.branch, token=self.token, app=app
            )
        return WikiConnection(
            type="git",
            url=f"{self.location}.wiki.git",
            branch=self.branch,
            token=self.token,
            app=app,
            repository=urlsplit(self.location).path.strip("/"),
            pages=f"{self.location}/{pages}/",
            is_flat=is_flat,
        )


class GithubConnection(CodeHostConnection):
    """A repository on GitHub, or on GitHub Enterprise by the URL of its API."""

    type: Literal["github"]
    repository: str = Field(pattern=_GITHUB_REPOSITORY)  # "owner/name"
    url: HttpUrl = GITHUB_API  # Enterprise: https://HOST/api/v3
    app: GithubApp | None = None

    @model_validator(mode="after")
    def _check_single_identity(self) -> GithubConnection:
        if self.token and self.app:
            raise ValueError("give a token or an app, not both")
        return self

    @property
    def web_url(self) -> str:
        """The URL that people open."""
        return to_github_web_url(self.url)

    @property
    def location(self) -> str:
        """The repository's page."""
        return f"{self.web_url}/{self.repository}"

    def to_git(self) -> GitConnection:
        """The repository over git."""
        return self._to_git("wiki", is_flat=True, app=self.app)


class GitlabConnection(CodeHostConnection):
    """A project on GitLab, hosted anywhere."""

    type: Literal["gitlab"]
    project: str = Field(pattern=_GITLAB_PROJECT)  # "group/subgroup/name"
    url: HttpUrl = "https://gitlab.com"

    @property
    def location(self) -> str:
        """The project's page."""
        return f"{self.url.rstrip('/')}/{self.project}"

    def to_git(self) -> GitConnection:
        """The repository over git."""
        return self._to_git("-/wikis", is_flat=False)


def to_github_web_url(api_url: str) -> str:
    """The URL that people open, by that of GitHub's API."""
    return "https://github.com" if api_url == GITHUB_API else api_url.rstrip("/").removesuffix("/api/v3")


def strip_credentials(text: str) -> str:
    """The text without the user names and passwords in its URLs."""
    return _USERINFO.sub("", text)
