"""Where documents are read from: one model for each kind of connection of `knowledge.yaml`.

Secrets are written `${NAME}` in the file and are held as `SecretStr`, which prints as stars.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from knowledge_pipeline.config.operation import SettingsModel

HttpUrl = Annotated[str, Field(pattern=r"^https?://[^\s/@]+(/\S*)?$")]
"""An address without a user or password in it."""

SCP_ADDRESS = re.compile(r"^(?:[^/@:\s]+@)?(?P<host>[^/:\s]+|\[[^\]]+\]):(?!//)(?P<path>.+)$", re.DOTALL)
"""A git address as scp writes it: `user@host:path`."""

_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_GITHUB_API = "https://api.github.com"


class BaseConnection(SettingsModel, ABC):
    """Where a source is read from."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The folder or address, for people and in lists; without any secret."""

    @property
    def host(self) -> str | None:
        """The host that is asked; None for this machine."""
        return None


class LocalConnection(BaseConnection):
    """A folder of this machine, read as it lies there, `.gitignore` files honoured."""

    type: Literal["local"]
    path: Path

    @property
    def location(self) -> str:
        """The folder, as written."""
        return str(self.path)


class GitConnection(BaseConnection):
    """A git repository by any URL or path that git understands, read at one branch's tip."""

    type: Literal["git"]
    url: str = Field(min_length=1)
    branch: str | None = None  # None: the remote's HEAD
    token: SecretStr | None = None  # for HTTPS; sent as a header, never stored

    @property
    def location(self) -> str:
        """Its address, without a user or password."""
        return strip_credentials(self.url)

    @property
    def host(self) -> str | None:
        """Of its address; None for a path of this machine."""
        return self.host_and_path[0] or None

    @property
    def host_and_path(self) -> tuple[str, str]:
        """Host ("" for a path of this machine) and path of its address, without leading or final slash."""
        scp = SCP_ADDRESS.match(self.url)
        if "://" in self.url:
            parts = urlsplit(self.url)
            host, path = parts.hostname or "", parts.path
        elif scp:
            host, path = scp["host"].lower(), scp["path"]
        else:
            host, path = "", self.url
        return host, path.strip("/").removesuffix(".git").rstrip("/")


class ServiceConnection(BaseConnection):
    """A site that is asked over HTTP."""

    url: HttpUrl

    @property
    def location(self) -> str:
        """Its address."""
        return self.url

    @property
    def host(self) -> str | None:
        """Of its address."""
        return urlsplit(self.url).hostname


class GithubApp(SettingsModel):
    """A GitHub App that is installed where the repository is."""

    id: int
    private_key: SecretStr  # PEM
    installation_id: int | None = None  # None: the one of the repository


class GithubConnection(ServiceConnection):
    """A repository of GitHub, or of GitHub Enterprise by its API's address."""

    type: Literal["github"]
    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")  # "owner/name"
    branch: str | None = None  # code, markdown, openapi, git_history: None is the default branch
    url: HttpUrl = _GITHUB_API  # Enterprise: https://HOST/api/v3
    token: SecretStr | None = None
    app: GithubApp | None = None

    @model_validator(mode="after")
    def _check_single_identity(self) -> GithubConnection:
        if self.token and self.app:
            raise ValueError("give a token or an app, not both")
        return self

    @property
    def web_url(self) -> str:
        """The address that people open."""
        return (
            "https://github.com" if self.url == _GITHUB_API else self.url.rstrip("/").removesuffix("/api/v3")
        )

    @property
    def location(self) -> str:
        """The repository's page."""
        return f"{self.web_url}/{self.repository}"

    def to_git(self) -> GitConnection:
        """The repository itself. Raises ValueError for an App, which cannot clone by its key."""
        if self.app:
            raise ValueError("git cannot read with a GitHub App: give connection.token")
        return GitConnection(type="git", url=f"{self.location}.git", branch=self.branch, token=self.token)


class GitlabConnection(ServiceConnection):
    """A project of GitLab, hosted anywhere."""

    type: Literal["gitlab"]
    project: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)+$")  # "group/subgroup/name"
    branch: str | None = None  # code, markdown, openapi, git_history: None is the default branch
    url: HttpUrl = "https://gitlab.com"
    token: SecretStr | None = None

    @property
    def location(self) -> str:
        """The project's page."""
        return f"{self.url.rstrip('/')}/{self.project}"

    def to_git(self) -> GitConnection:
        """The repository itself."""
        return GitConnection(type="git", url=f"{self.location}.git", branch=self.branch, token=self.token)


class JiraConnection(ServiceConnection):
    """A Jira site. With an e-mail: Cloud, an API token. Without: Server or Data Center, a personal token."""

    type: Literal["jira"]
    email: str | None = None
    token: SecretStr | None = None  # None: what anybody may read


class ConfluenceConnection(ServiceConnection):
    """A Confluence site; identity as of Jira. Cloud's address ends in /wiki."""

    type: Literal["confluence"]
    email: str | None = None
    token: SecretStr | None = None


class SlackConnection(ServiceConnection):
    """A Slack workspace by its API."""

    type: Literal["slack"]
    token: SecretStr  # of a bot: xoxb-…
    url: HttpUrl = "https://slack.com/api/"


class SlackExportConnection(BaseConnection):
    """A Slack export: the zip file, or the folder that it was unpacked to."""

    type: Literal["slack_export"]
    path: Path

    @property
    def location(self) -> str:
        """The file or folder."""
        return str(self.path)


class S3Connection(BaseConnection):
    """A bucket of S3, or of anything that speaks its protocol. Without keys: the environment's identity."""

    type: Literal["s3"]
    bucket: str = Field(min_length=3)
    prefix: str = ""
    endpoint_url: HttpUrl | None = None
    region: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    anonymous: bool = False

    @model_validator(mode="after")
    def _check_key_pair(self) -> S3Connection:
        if bool(self.access_key_id) != bool(self.secret_access_key):
            given, missing = ("access_key_id", "secret_access_key")[:: 1 if self.access_key_id else -1]
            raise ValueError(f"{given} without {missing}: give both, or none")
        return self

    @property
    def location(self) -> str:
        """Bucket and prefix, as its tools write them."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def host(self) -> str | None:
        """Of the endpoint."""
        return urlsplit(self.endpoint_url).hostname if self.endpoint_url else "amazonaws.com"


class GcsConnection(BaseConnection):
    """A bucket of Google Cloud Storage. Without credentials: the environment's identity."""

    type: Literal["gcs"]
    bucket: str = Field(min_length=3)
    prefix: str = ""
    endpoint_url: HttpUrl | None = None
    credentials: Path | None = None  # a service account's key file
    anonymous: bool = False

    @property
    def location(self) -> str:
        """Bucket and prefix, as its tools write them."""
        return f"gs://{self.bucket}/{self.prefix}"

    @property
    def host(self) -> str | None:
        """Of the endpoint."""
        return urlsplit(self.endpoint_url).hostname if self.endpoint_url else "storage.googleapis.com"


def strip_credentials(text: str) -> str:
    """A text without the user names and passwords of the addresses in it."""
    return _USERINFO.sub("", text)
