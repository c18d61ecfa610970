"""Where the members of an organisation are listed, which are taken, and what the last listing found.

A member is what becomes a source of its own: a repository, a project, a space, a channel, a folder, an
archive. Secrets are held as for the connections of sources.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import starmap
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, PrivateAttr, SecretStr, StringConstraints, ValidationError, model_validator

from knowledge_pipeline.config.connections import (
    GITHUB_API,
    ArchiveFileConnection,
    AzureConnection,
    BaseConnection,
    BucketConnection,
    ConfluenceConnection,
    Connection,
    GcsConnection,
    GithubApp,
    GithubConnection,
    GitlabConnection,
    HttpUrl,
    JiraConnection,
    LocalConnection,
    PathConnection,
    S3Access,
    S3Connection,
    ServiceConnection,
    SlackConnection,
    to_github_web_url,
)
from knowledge_pipeline.config.model import SettingsModel, VariableModel
from knowledge_pipeline.config.sources import CONNECTIONS_BY_TYPE, SourceConfig, SourceId, SourceTemplate
from knowledge_pipeline.text import is_list, is_object

_Login = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
_Topic = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,49}$")]


class OrganisationConnection(BaseConnection, ABC):
    """Where members are listed. `location` tells one listing from another."""

    reads: ClassVar[str]
    """The type of the connection that a member's sources are read over."""

    connects: ClassVar[type[BaseConnection]]
    """The class of that connection, or of what it reads from."""

    member_key: ClassVar[str | None] = None
    """The key of that connection that names the member, if one does."""

    member_filter: ClassVar[str | None] = None
    """The filter of a source that names the member, where it is not its connection that does."""

    example: ClassVar[str]
    """The name of a member, to check templates of sources with."""

    known_by_title: ClassVar[bool] = False
    """Whether patterns fit the title of a member too."""

    keeps_case: ClassVar[bool] = False
    """Whether two members may differ in upper and lower case alone."""

    name_suffix: ClassVar[str] = "/"
    """What the name of a member may end with; ids of sources leave it out."""

    @property
    def name_prefix(self) -> str:
        """What the names of all members begin with; ids of sources leave it out."""
        return ""

    def connect(self, member: str) -> Connection:
        """The connection of a member's sources, by the member's name."""
        return self.build_connection(member)

    def build_connection(self, member: str) -> Any:
        """One with the keys that both have, and the member's name. `Any`: an instance of `connects`."""
        names = self.connects.model_fields.keys() & type(self).model_fields.keys() - {"type"}
        values = {name: getattr(self, name) for name in names}
        (kind,) = get_args(self.connects.model_fields["type"].annotation)
        member_name = {self.member_key: member} if self.member_key else {}
        return self.connects.model_validate({**values, "type": kind, **member_name})


class GithubOrganisationConnection(ServiceConnection, OrganisationConnection):
    """The repositories of an organisation or a user on GitHub, or those with a topic."""

    reads, connects, member_key, example = "github", GithubConnection, "repository", "owner/name"
    type: Literal["github_organisation"]
    organisation: _Login | None = None
    user: _Login | None = None
    topic: _Topic | None = None
    url: HttpUrl = GITHUB_API  # Enterprise: https://HOST/api/v3
    token: SecretStr | None = None
    app: GithubApp | None = None  # installation_id None: that of the organisation or user

    @model_validator(mode="after")
    def _check_choices(self) -> GithubOrganisationConnection:
        if sum(choice is not None for choice in (self.organisation, self.user, self.topic)) != 1:
            raise ValueError("give one of organisation, user and topic")
        if (self.token is None) == (self.app is None):
            raise ValueError("give a token or an app: GitHub lists repositories only for who signs in")
        if self.topic and self.app and not self.app.installation_id:
            raise ValueError("a topic has no installation of an app: give app.installation_id, or a token")
        return self

    @property
    def owner(self) -> str | None:
        """The login that the repositories belong to; None for a topic."""
        return self.organisation or self.user

    @property
    def location(self) -> str:
        """The page that lists the repositories."""
        return f"{to_github_web_url(self.url)}/{self.owner or f'topics/{self.topic}'}"

    @property
    def name_prefix(self) -> str:
        """The owner."""
        return f"{self.owner}/" if self.owner else ""


class GitlabGroupConnection(ServiceConnection, OrganisationConnection):
    """The projects of a group on GitLab, those of its subgroups included."""

    reads, connects, member_key, example = "gitlab", GitlabConnection, "project", "group/name"
    type: Literal["gitlab_group"]
    group: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)*$")  # "group/subgroup"
    subgroups: bool = True
    url: HttpUrl = "https://gitlab.com"
    token: SecretStr | None = None  # None: public projects

    @property
    def location(self) -> str:
        """The group's page."""
        return f"{self.url.rstrip('/')}/{self.group}"

    @property
    def name_prefix(self) -> str:
        """The group."""
        return f"{self.group}/"


class ConfluenceSpacesConnection(ServiceConnection, OrganisationConnection):
    """The spaces of a Confluence site that the token may view; identity as for one space."""

    reads, connects, member_filter, example = "confluence", ConfluenceConnection, "spaces", "KEY"
    type: Literal["confluence_spaces"]
    email: str | None = None
    token: SecretStr | None = None
    personal: bool = False  # people's own spaces too


class JiraProjectsConnection(ServiceConnection, OrganisationConnection):
    """The projects of a Jira site that the token may browse; identity as for one project."""

    reads, connects, member_filter, example = "jira", JiraConnection, "projects", "KEY"
    type: Literal["jira_projects"]
    email: str | None = None
    token: SecretStr | None = None


class SlackChannelsConnection(ServiceConnection, OrganisationConnection):
    """The channels of a Slack workspace that the bot may read.

    A member is named by the channel's id, and its title is the channel's name, which patterns fit too.
    """

    reads, connects, member_filter, known_by_title = "slack", SlackConnection, "channels", True
    example = "C0123ABC"
    type: Literal["slack_channels"]
    token: SecretStr  # of a bot: xoxb-…
    private: bool = False  # private channels that the bot is in, too
    url: HttpUrl = "https://slack.com/api/"


class CheckoutsConnection(PathConnection, OrganisationConnection):
    """The git checkouts in a folder of this machine. A member is named by its path in the folder."""

    reads, connects, example, keeps_case = "local", LocalConnection, "name", True
    type: Literal["checkouts"]
    depth: int = Field(default=2, ge=1, le=6)  # how many folders deep a checkout may lie

    def connect(self, member: str) -> LocalConnection:
        """The checkout."""
        return LocalConnection(type="local", path=self.path / member)


class BucketFoldersConnection(OrganisationConnection, ABC):
    """The "folders" directly below a prefix of a bucket. A member is named by its whole prefix."""

    member_key, example, keeps_case = "prefix", "prefix/", True
    prefix: str = ""

    @property
    def name_prefix(self) -> str:
        """The prefix, as a folder."""
        return self.prefix and f"{self.prefix.removesuffix('/')}/"

    def at(self, prefix: str) -> S3Connection | GcsConnection | AzureConnection:
        """The bucket at another prefix."""
        return self.build_connection(prefix)


class S3FoldersConnection(S3Access, BucketConnection, BucketFoldersConnection):
    """The folders below a prefix of a bucket of S3."""

    scheme, default_host, reads, connects = "s3", "amazonaws.com", "s3", S3Connection
    type: Literal["s3_folders"]


class GcsFoldersConnection(BucketConnection, BucketFoldersConnection):
    """The folders below a prefix of a bucket of Google Cloud Storage."""

    scheme, default_host, reads, connects = "gs", "storage.googleapis.com", "gcs", GcsConnection
    type: Literal["gcs_folders"]
    credentials: Path | None = None  # a service account's key file


class AzureFoldersConnection(AzureConnection, BucketFoldersConnection):
    """The folders below a prefix of a container of Azure."""

    reads, connects = "azure", AzureConnection
    type: Literal["azure_folders"]  # pyright: ignore[reportIncompatibleVariableOverride]


class BucketArchivesConnection(BucketFoldersConnection, ABC):
    """The archives below a prefix of a bucket, at any depth. A member is named by its whole key."""

    reads, example, name_suffix = "archive_file", "prefix/name.zip", ".zip"

    @property
    def location(self) -> str:
        """As that of the folders there, which are other members."""
        return f"archives in {super().location}"

    def connect(self, member: str) -> Connection:
        """The archive."""
        return ArchiveFileConnection(type="archive_file", object=self.at(member))


class S3ArchivesConnection(BucketArchivesConnection, S3FoldersConnection):
    """The archives below a prefix of a bucket of S3."""

    type: Literal["s3_archives"]  # pyright: ignore[reportIncompatibleVariableOverride]


class GcsArchivesConnection(BucketArchivesConnection, GcsFoldersConnection):
    """The archives below a prefix of a bucket of Google Cloud Storage."""

    type: Literal["gcs_archives"]  # pyright: ignore[reportIncompatibleVariableOverride]


class AzureArchivesConnection(BucketArchivesConnection, AzureFoldersConnection):
    """The archives below a prefix of a container of Azure."""

    type: Literal["azure_archives"]  # pyright: ignore[reportIncompatibleVariableOverride]


AnyOrganisationConnection = Annotated[
    GithubOrganisationConnection
    | GitlabGroupConnection
    | ConfluenceSpacesConnection
    | JiraProjectsConnection
    | SlackChannelsConnection
    | CheckoutsConnection
    | S3FoldersConnection
    | GcsFoldersConnection
    | AzureFoldersConnection
    | S3ArchivesConnection
    | GcsArchivesConnection
    | AzureArchivesConnection,
    Field(discriminator="type"),
]
"""A connection of any type, as an organisation has it."""


MemberPatterns = tuple[Annotated[str, StringConstraints(min_length=1, pattern=r"^\S")], ...]
"""Names of members, with `*`, `?` and `[...]` as of files; upper and lower case are alike."""

_MAX_ID_CHARS = 64
_HASH_CHARS = 8


@dataclass(frozen=True, slots=True)
class OrganisationMember:
    """One repository, project, space, channel or folder of an organisation."""

    name: str  # as the service names it: "acme/billing", "ENG", "PAY", "C0123ABC", "exports/2024/"
    title: str = ""  # for people
    url: str = ""  # the web page
    archived: bool = False
    fork: bool = False
    topics: tuple[str, ...] = ()


class MemberFilter(SettingsModel):
    """Which members of an organisation are taken; empty means all."""

    include: MemberPatterns = ()
    exclude: MemberPatterns = ()
    topics: tuple[str, ...] = ()  # members with any of them
    archived: bool = False  # whether those that are archived are taken too
    forks: bool = False
    max_members: int = Field(default=10_000, ge=1)  # of a listing; a longer one is an error


def matches_any(
    connection: OrganisationConnection, member: OrganisationMember, patterns: Sequence[str]
) -> bool:
    """Whether the name of a member fits one of the patterns."""
    names = [member.name, member.title] if connection.known_by_title else [member.name]
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in patterns)


def build_source_id(
    organisation: str, connection: OrganisationConnection, member: str, source_type: str
) -> str:
    """The id of a member's source: "acme-billing-code"; with a hash where the name does not fit into it."""
    name, prefix = member, connection.name_prefix
    if not connection.keeps_case:
        name, prefix = name.lower(), prefix.lower()
    short = name.removeprefix(prefix).removesuffix(connection.name_suffix)
    slug = re.sub(r"[^a-z0-9_]+", "-", short.lower()).strip("-_")
    room = _MAX_ID_CHARS - len(organisation) - len(source_type) - 2
    if slug != short or len(slug) > room:
        mark = sha256(name.encode()).hexdigest()[:_HASH_CHARS]
        slug = f"{slug[: room - _HASH_CHARS - 1]}-{mark}".lstrip("-")
    return f"{organisation}-{slug}-{source_type}"


class MemberSource(SourceTemplate):
    """A source that members of an organisation have; the last one of a type that fits a member counts."""

    members: MemberPatterns = ()  # empty: all


class OrganisationSettings(VariableModel, MemberFilter):
    """An organisation: its members are listed by its service, and each has the sources declared here."""

    id: Annotated[SourceId, Field(max_length=32)]  # begins the ids of its sources
    connection: AnyOrganisationConnection
    sources: tuple[MemberSource, ...] = Field(min_length=1)
    _examples: tuple[SourceConfig, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _check_sources(self) -> OrganisationSettings:
        self._examples = tuple(starmap(self._build_example, enumerate(self.sources)))
        return self

    def _build_example(self, index: int, source: MemberSource) -> SourceConfig:
        """One that is validated, as a source that is declared by itself."""
        connection, name = self.connection, self.connection.member_filter
        allowed = [type_ for type_, read_over in CONNECTIONS_BY_TYPE.items() if connection.reads in read_over]
        if source.type not in allowed:
            raise ValueError(
                f"sources[{index}]: type {source.type!r} is not read from members of {connection.type!r}; "
                f"allowed: {', '.join(allowed)}"
            )
        if name in source.model_fields_set:
            raise ValueError(f"sources[{index}]: {name} is the member's own: name members in `include`")
        values = {key: getattr(source, key) for key in source.model_fields_set - {"members"}}
        values |= {name: (connection.example,)} if name else {}
        try:
            return SourceConfig(**values, id=self.id, connection=connection.connect(connection.example))
        except ValidationError as error:
            reasons = "; ".join(str(detail["msg"]).removeprefix("Value error, ") for detail in error.errors())
            raise ValueError(f"sources[{index}]: {reasons}") from None

    def note_unset(self, problems: Sequence[str]) -> None:
        """See `VariableModel.note_unset`; its sources have the same ones."""
        super().note_unset(problems)
        for example in self._examples:
            example.note_unset(problems)

    def takes(self, member: OrganisationMember) -> bool:
        """Whether the filters take a member."""
        return (
            (self.archived or not member.archived)
            and (self.forks or not member.fork)
            and (not self.topics or not set(self.topics).isdisjoint(member.topics))
            and (not self.include or matches_any(self.connection, member, self.include))
            and not matches_any(self.connection, member, self.exclude)
        )

    def build_sources(self, member: OrganisationMember) -> Iterator[SourceConfig]:
        """The sources of a member."""
        by_type = {
            source.type: example
            for source, example in zip(self.sources, self._examples, strict=True)
            if not source.members or matches_any(self.connection, member, source.members)
        }
        if not by_type:
            return
        connection, name = self.connection.connect(member.name), self.connection.member_filter
        for type_, example in by_type.items():
            id_ = build_source_id(self.id, self.connection, member.name, type_)
            yield example.copy_for(id_, connection, {name: (member.name,)} if name else {})


LISTINGS = "organisations"
"""The folder, below the store's."""


@dataclass(frozen=True, slots=True)
class OrganisationListing:
    """What an organisation consisted of, at its last complete listing.

    It is kept in the store's folder of this machine, made again from the service, and holds no secret.
    """

    location: str  # of the connection: another one has other members
    listed_at: str  # ISO 8601
    members: tuple[OrganisationMember, ...]
    problem: str = ""  # why the listing since then was not taken


def read_listing(folder: Path, organisation: str, location: str) -> OrganisationListing | None:
    """The listing of an organisation by its id; None where there is none of this connection."""
    try:
        kept: Any = json.loads((folder / f"{organisation}.json").read_bytes())
        if not is_object(kept) or kept.get("location") != location or not is_list(kept["members"]):
            return None
        members = tuple(
            OrganisationMember(topics=tuple(member.pop("topics", ())), **member) for member in kept["members"]
        )
        return OrganisationListing(location, str(kept["listed_at"]), members, str(kept.get("problem", "")))
    except (OSError, ValueError, TypeError, KeyError):
        return None  # as one that was never made: it is made again


def write_listing(folder: Path, organisation: str, listing: OrganisationListing) -> None:
    """Replace the listing in one step. Raises OSError."""
    # A member has what is not as usual: a listing of thousands is read with every configuration.
    members = [
        {name: value for name, value in asdict(member).items() if value or name == "name"}
        for member in listing.members
    ]
    text = json.dumps({**asdict(listing), "members": members})
    replace_listing(folder, organisation, text.encode())


def replace_listing(folder: Path, organisation: str, content: bytes) -> None:
    """Replace the file of a listing in one step. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    # Beside the folder, whose time of change says that there is another listing.
    with NamedTemporaryFile(dir=folder.parent, prefix=".", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(folder / f"{organisation}.json")
