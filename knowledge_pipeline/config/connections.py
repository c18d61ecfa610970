"""Where documents are read from: one model for each kind of connection in `knowledge.yaml`.

Secrets are written `${NAME}` in the file and held as `SecretStr`, which prints as stars.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from knowledge_pipeline.config.addresses import GitAddress, parse_git_address
from knowledge_pipeline.config.model import ConnectionModel, PluginName, SettingsModel, UnsetSecret
from knowledge_pipeline.encodings import require_known_encoding

HttpUrl = Annotated[str, Field(pattern=r"^https?://[^\s/@]+(/\S*)?$")]
"""A URL without a user or password."""


class BaseConnection(ConnectionModel, ABC):
    """Where a source is read from."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Where it is, for people; without any secret."""

    @property
    def host(self) -> str | None:
        """The host to connect to; None for this machine."""
        return None


class ServiceConnection(BaseConnection):
    """A service over HTTP."""

    url: HttpUrl

    @property
    def location(self) -> str:
        """Its URL."""
        return self.url

    @property
    def host(self) -> str | None:
        """Of its URL."""
        return urlsplit(self.url).hostname


class PathConnection(BaseConnection):
    """A file or folder of this machine."""

    path: Path

    @property
    def location(self) -> str:
        """The path, as written."""
        return str(self.path)


_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
GITHUB_API = "https://api.github.com"
_GITHUB_REPOSITORY = re.compile(r"^[\w.-]+/[\w.-]+$")
_GITLAB_PROJECT = re.compile(r"^[\w.-]+(/[\w.-]+)+$")


class GithubApp(ConnectionModel):
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
        is_over_http = self.url.lower().startswith(("https://", "http://"))
        if self.app and not (is_over_http and _GITHUB_REPOSITORY.fullmatch(self.host_and_path[1])):
            raise ValueError(
                "an app reads only from GitHub: give a url such as https://github.com/OWNER/NAME"
            )
        return self

    @property
    def location(self) -> str:
        """Its URL, without a user or password."""
        return strip_credentials(self.url)

    @property
    def host(self) -> str | None:
        """Of its URL; None for a path on this machine."""
        return self.host_and_path[0] or None

    @property
    def address(self) -> GitAddress:
        """Its URL, as git reads it. Raises ValueError, without the URL."""
        return parse_git_address(self.url)

    @property
    def host_and_path(self) -> tuple[str, str]:
        """Host ("" on this machine, or in no address) and path of its URL, without slashes at its ends."""
        try:
            host, path = self.address.host, self.address.path
        except ValueError:  # reported when it is opened
            host, path = "", self.url
        return host, path.strip("/").removesuffix(".git").rstrip("/")

    def to_github(self) -> GithubConnection:
        """The API of the repository on GitHub: that of its host, which an App is known to."""
        host, path = self.host_and_path
        parts = urlsplit(self.address.url)
        server = f"{parts.scheme}://{parts.netloc}/api/v3"
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


class S3Access(SettingsModel):
    """How to reach S3, or a service that speaks its protocol."""

    endpoint_url: HttpUrl | None = None  # of another provider than AWS
    region: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None

    @model_validator(mode="after")
    def _check_key_pair(self) -> S3Access:
        if bool(self.access_key_id) != bool(self.secret_access_key):
            present, missing = ("access_key_id", "secret_access_key")[:: 1 if self.access_key_id else -1]
            raise ValueError(f"{present} without {missing}: give both, or none")
        return self


class BucketConnection(BaseConnection):
    """A prefix of a bucket. Without credentials: the environment's identity."""

    scheme: ClassVar[str]  # of the URLs that the bucket's tools write
    default_host: ClassVar[str]
    bucket: str = Field(min_length=3)
    prefix: str = ""
    endpoint_url: HttpUrl | None = None
    anonymous: bool = False

    @property
    def location(self) -> str:
        """Bucket and prefix as a URL."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}"

    @property
    def host(self) -> str | None:
        """Of the endpoint."""
        return urlsplit(self.endpoint_url).hostname if self.endpoint_url else self.default_host


class S3Connection(S3Access, BucketConnection):
    """A bucket of S3, or of a service that speaks its protocol."""

    scheme, default_host = "s3", "amazonaws.com"
    type: Literal["s3"]


class GcsConnection(BucketConnection):
    """A bucket of Google Cloud Storage."""

    scheme, default_host = "gs", "storage.googleapis.com"
    type: Literal["gcs"]
    credentials: Path | None = None  # a service account's key file


class AzureConnection(BaseConnection):
    """A prefix of a container of Azure Blob Storage. Without key and SAS: the environment's identity."""

    type: Literal["azure"]
    account: str = Field(pattern=r"^[a-z0-9]{3,24}$")
    container: str = Field(pattern=r"^(\$(root|web|logs)|[a-z0-9][a-z0-9-]{1,61}[a-z0-9])$")
    prefix: str = ""
    endpoint_url: HttpUrl | None = None  # of the account, in another cloud or an emulator
    account_key: SecretStr | None = None
    sas_token: SecretStr | None = None  # a shared access signature: "sv=…&sig=…"
    anonymous: bool = False

    @model_validator(mode="after")
    def _check_one_identity(self) -> AzureConnection:
        identities = [name for name in ("account_key", "sas_token", "anonymous") if getattr(self, name)]
        if len(identities) > 1:
            raise ValueError(f"{' and '.join(identities)} exclude each other: give one, or none")
        return self

    @property
    def account_url(self) -> str:
        """Where the account's containers are."""
        return (self.endpoint_url or f"https://{self.account}.blob.core.windows.net").rstrip("/")

    @property
    def location(self) -> str:
        """Container and prefix as a URL."""
        return f"{self.account_url}/{self.container}/{self.prefix}"

    @property
    def host(self) -> str | None:
        """Of the account."""
        return urlsplit(self.account_url).hostname


class TableFilesConnection(PathConnection):
    """Files of rows on this machine: Parquet, Arrow, JSON Lines or CSV."""

    type: Literal["table_files"]
    path: Path  # a file, a folder, or a pattern such as exports/*.parquet
    encoding: Annotated[str, AfterValidator(require_known_encoding)] | None = None  # of JSON Lines and CSV
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None  # of CSV


class DuckdbConnection(PathConnection):
    """A database file of DuckDB, opened read-only, and the query whose rows are documents."""

    type: Literal["duckdb"]
    query: str = Field(min_length=1)


class PostgresConnection(BaseConnection):
    """A PostgreSQL database, read in a read-only transaction, and the query whose rows are documents."""

    type: Literal["postgres"]
    dsn: SecretStr  # postgresql://USER:PASSWORD@HOST:PORT/NAME
    query: str = Field(min_length=1)

    @property
    def location(self) -> str:
        """Host and name of the database, without user and password."""
        parts = self._address
        return f"postgresql://{parts.hostname or ''}{parts.path}" if parts else "postgresql://"

    @property
    def host(self) -> str | None:
        """Of the address."""
        return self._address.hostname if self._address else None

    @property
    def _address(self) -> SplitResult | None:
        """The address as a URL; None for one that is written in another way."""
        if isinstance(self.dsn, UnsetSecret):
            return None
        written = self.dsn.get_secret_value()
        with suppress(ValueError):
            return urlsplit(written) if "://" in written else None
        return None


class JiraConnection(ServiceConnection):
    """A Jira site: Cloud with an e-mail and API token, or Server and Data Center with a personal token."""

    type: Literal["jira"]
    email: str | None = None
    token: SecretStr | None = None  # None: public content


class ConfluenceConnection(ServiceConnection):
    """A Confluence site; identity as for Jira. The URL of Cloud ends in /wiki."""

    type: Literal["confluence"]
    email: str | None = None
    token: SecretStr | None = None


class SlackConnection(ServiceConnection):
    """A Slack workspace, over its API."""

    type: Literal["slack"]
    token: SecretStr  # of a bot: xoxb-…
    url: HttpUrl = "https://slack.com/api/"


class SlackExportConnection(PathConnection):
    """A Slack export: the zip file, or the folder it was unpacked to."""

    type: Literal["slack_export"]


_AnyBucketConnection = S3Connection | GcsConnection | AzureConnection
ARCHIVE_NAME = re.compile(r"\.(?:zip|tar|tar\.gz|tgz)$", re.IGNORECASE)
"""How the names of archives end."""


class ArchiveFileConnection(BaseConnection):
    """An archive of files, ZIP or TAR: a file of this machine, or an object of a bucket."""

    type: Literal["archive_file"]
    path: Path | None = None
    object: Annotated[_AnyBucketConnection, Field(discriminator="type")] | None = None
    """Its bucket; the prefix is the whole key."""

    @model_validator(mode="after")
    def _check_one_place(self) -> ArchiveFileConnection:
        if (self.path is None) == (self.object is None):
            raise ValueError("give path, for a file of this machine, or object, for one of a bucket")
        if self.object and (not self.object.prefix or self.object.prefix.endswith("/")):
            raise ValueError("object.prefix must be the whole key of the archive")
        return self

    @property
    def location(self) -> str:
        """The file as written, or the object as a URL."""
        return self.object.location if self.object else str(self.path)

    @property
    def host(self) -> str | None:
        """Of the bucket's endpoint; None for this machine."""
        return self.object.host if self.object else None


class CustomConnection(BaseConnection):
    """A source that another package brings, and the settings that it takes; see docs/extending.md."""

    type: Literal["custom"]
    use: PluginName
    settings: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)  # may hold secrets

    @property
    def location(self) -> str:
        """The name of the source."""
        return self.use


class PushConnection(BaseConnection):
    """Nowhere: documents are sent, over HTTP or by a command."""

    type: Literal["push"]

    @property
    def location(self) -> str:
        """That there is none."""
        return "what is pushed"


class LocalConnection(PathConnection):
    """A folder on this machine, read as it is; `.gitignore` files are honoured."""

    type: Literal["local"]


class WorktreeConnection(LocalConnection):
    """The folder of a source as another working tree of its repository has it; in no configuration."""

    origin: Path  # the source's own folder, which names the repository


Connection = Annotated[
    LocalConnection
    | GitConnection
    | GithubConnection
    | GitlabConnection
    | JiraConnection
    | ConfluenceConnection
    | SlackConnection
    | SlackExportConnection
    | S3Connection
    | GcsConnection
    | AzureConnection
    | ArchiveFileConnection
    | TableFilesConnection
    | DuckdbConnection
    | PostgresConnection
    | CustomConnection
    | PushConnection,
    Field(discriminator="type"),
]
"""A connection of any type, as `knowledge.yaml` gives it to a source."""
