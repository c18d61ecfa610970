"""`knowledge.yaml` and the environment as frozen, validated settings.

Only shapes and rules live here; `config_file` reads, checks and edits the file.
Relative paths are relative to the folder of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from knowledge_pipeline.config.connections import (
    ConfluenceConnection,
    GcsConnection,
    GitConnection,
    GithubConnection,
    GitlabConnection,
    JiraConnection,
    LocalConnection,
    S3Connection,
    SlackConnection,
    SlackExportConnection,
)
from knowledge_pipeline.config.embedding import Embedding
from knowledge_pipeline.config.operation import (
    Alerts,
    Checks,
    ContextSettings,
    Evaluation,
    Frozen,
    Logs,
    Schedules,
    Serve,
)
from knowledge_pipeline.config.query import LanguageModelSettings, QuerySettings
from knowledge_pipeline.config.source_filters import DocumentFilters, require_fitting_filters
from knowledge_pipeline.config.store import FolderOrUrl, ObjectStore, StoreOptions

SourceType = Literal[
    "code",
    "markdown",
    "openapi",
    "git_history",
    "github_pr",
    "github_issues",
    "jira",
    "confluence",
    "slack",
    "files",
    "archive",
]
Strategy = Literal[
    "fixed_size",
    "sentence",
    "paragraph",
    "semantic",
    "ast_aware",
    "endpoint",
    "commit",
    "conversation",
]
Treatment = Literal["off", "redact", "drop"]
Trigger = Literal["realtime", "on_commit", "hourly", "daily", "weekly"]
Extractor = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]  # "package.module:function"
Owner = Annotated[str, Field(pattern=r"^(team:[\w-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]  # as Dagster takes them
SourceId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]

_TRIGGERS: dict[SourceType, Trigger] = {
    "code": "on_commit",
    "markdown": "on_commit",
    "openapi": "on_commit",
    "git_history": "weekly",
    "github_pr": "daily",
    "github_issues": "daily",
    "jira": "daily",
    "confluence": "daily",
    "slack": "daily",
    "files": "daily",
    "archive": "realtime",
}


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
    | GcsConnection,
    Field(discriminator="type"),
]

_IN_GIT: tuple[str, ...] = ("local", "git", "github", "gitlab")
_IN_BUCKETS: tuple[str, ...] = ("s3", "gcs")
_CONNECTIONS: dict[SourceType, tuple[str, ...]] = {
    "code": (*_IN_GIT, *_IN_BUCKETS),
    "markdown": (*_IN_GIT, *_IN_BUCKETS),
    "openapi": (*_IN_GIT, *_IN_BUCKETS),
    "git_history": _IN_GIT,
    "github_pr": ("github", "gitlab"),
    "github_issues": ("github", "gitlab"),
    "jira": ("jira",),
    "confluence": ("confluence",),
    "slack": ("slack", "slack_export"),
    "files": ("local", *_IN_BUCKETS),
    "archive": ("local",),
}
"""What each type can be read over."""

_OF_GIT: frozenset[SourceType] = frozenset({"code", "markdown", "openapi", "git_history"})

_CHATTY: frozenset[SourceType] = frozenset(
    {"github_pr", "github_issues", "jira", "confluence", "slack", "archive"}
)
"""Types where people write to people: personal data is redacted unless the file says otherwise."""


class Chunking(Frozen):
    """How documents are cut. None: the default of the source type and strategy.

    Token limits count with the embedding model's own tokenizer, header included.
    """

    strategy: Strategy | None = None
    max_tokens: int | None = Field(default=None, ge=16, le=8192)
    min_tokens: int | None = Field(default=None, ge=0, le=8192)
    overlap_tokens: int | None = Field(default=None, ge=0, le=4096)
    max_section_depth: int = Field(default=6, ge=1, le=6)
    granularity: Literal["file", "class", "function", "method"] = "method"
    include_imports: bool = True
    include_comments: bool = True
    preserve_signatures: bool = True

    @model_validator(mode="after")
    def _limits_agree(self) -> Chunking:
        limit = self.max_tokens
        for name in ("min_tokens", "overlap_tokens"):
            value = getattr(self, name)
            if limit is not None and value is not None and value >= limit:
                raise ValueError(f"{name} ({value}) must be smaller than max_tokens ({limit})")
        return self


class MetadataSettings(Frozen):
    """Which extractors run, and tags put on every chunk of the source."""

    standard: bool = True
    code: bool = True
    documents: bool = True
    custom: tuple[Extractor, ...] = ()
    tags: tuple[str, ...] = ()
    coverage: Path | None = None  # a coverage.xml or lcov file, for `test_coverage`


class Sanitize(Frozen):
    """What happens to secrets and personal data before anything is embedded or indexed."""

    secrets: Treatment = "redact"
    personal_data: Treatment | None = None  # None: the default of the source's type


class Refresh(Frozen):
    """When a source is refreshed, and when it is read anew from nothing."""

    trigger: Trigger | None = None  # None: the default of the type
    full_reindex: Literal["weekly", "monthly", "on_demand"] = "on_demand"


class AccessSettings(Frozen):
    """Who may find the source's content."""

    visibility: Literal["public", "tenant", "private"] = "public"
    tenant: str | None = None
    principals: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_its_audience(self) -> AccessSettings:
        if self.visibility != "public" and not self.tenant:
            raise ValueError(f"visibility {self.visibility!r} needs a tenant")
        if self.visibility == "private" and not self.principals:
            raise ValueError("visibility 'private' needs at least one entry in principals")
        return self


class SourceConfig(DocumentFilters):
    """One configured origin of documents; one Dagster partition."""

    id: SourceId
    type: SourceType
    connection: Connection
    include: tuple[str, ...] = ()  # gitignore syntax; empty: the default of the type
    exclude: tuple[str, ...] = ()
    max_bytes: int | None = Field(default=None, ge=1)  # None: the default of the type
    chunking: Chunking = Chunking()
    embedding: Embedding | None = None  # None: the one of the whole project
    metadata: MetadataSettings = MetadataSettings()
    sanitize: Sanitize = Sanitize()
    refresh: Refresh = Refresh()
    access: AccessSettings = AccessSettings()

    @model_validator(mode="after")
    def _can_be_read(self) -> SourceConfig:
        allowed = _CONNECTIONS[self.type]
        if self.connection.type not in allowed:
            raise ValueError(
                f"type {self.type!r} is not read over connection.type {self.connection.type!r}; "
                f"allowed: {', '.join(allowed)}"
            )
        require_fitting_filters(self, self.type)
        if self.type in _OF_GIT and isinstance(self.connection, GithubConnection | GitlabConnection):
            object.__setattr__(self, "connection", self.connection.as_git())  # the same repository, by git
        return self


def sanitize_of(source: SourceConfig) -> Sanitize:
    """What happens to secrets and personal data: as configured, else by the default of the type."""
    if source.sanitize.personal_data is not None:
        return source.sanitize
    return source.sanitize.model_copy(update={"personal_data": "redact" if source.type in _CHATTY else "off"})


def trigger_of(source: SourceConfig) -> Trigger:
    """When a source is refreshed: as configured, else by the default of its type."""
    return source.refresh.trigger or _TRIGGERS[source.type]


class Releases(Frozen):
    """How many releases can be rolled back to."""

    keep: int = Field(default=10, ge=1, le=1000)


class Settings(Frozen):
    """The whole of `knowledge.yaml`."""

    version: Literal[1] = 1
    store: Annotated[Path | ObjectStore, FolderOrUrl()] = Path(".knowledge")
    store_options: StoreOptions = StoreOptions()
    store_folder: Path | None = None  # None: .knowledge; of an object store, what stays on this machine
    embedding: Embedding = Embedding()
    language_model: LanguageModelSettings | None = None
    query: QuerySettings = QuerySettings()
    context: ContextSettings = ContextSettings()
    releases: Releases = Releases()
    owners: tuple[Owner, ...] = ()  # of the assets
    schedules: Schedules = Schedules()
    checks: Checks = Checks()
    alerts: Alerts = Alerts()
    evaluation: Evaluation = Evaluation()
    logs: Logs = Logs()
    serve: Serve = Serve()
    sources: tuple[SourceConfig, ...] = ()

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Settings:
        seen: set[str] = set()
        for source in self.sources:
            if source.id in seen:
                raise ValueError(f"two sources have the id {source.id!r}: ids must be unique")
            if source.id == "release":
                raise ValueError("a source cannot have the id 'release', which names the release in reports")
            seen.add(source.id)
        return self

    @model_validator(mode="after")
    def _store_is_reached(self) -> Settings:
        object.__setattr__(self, "store", self.reached(self.store))
        return self

    def reached(self, store: Path | ObjectStore) -> Path | ObjectStore:
        """A store with the options, and the local folder, that these settings give it.

        Raises:
            ValueError: it takes none.
        """
        given = self.store_options != StoreOptions()
        if not isinstance(store, ObjectStore):
            if given or self.store_folder:
                raise ValueError("store_options and store_folder belong to a store at a URL, not to a folder")
            return store
        if given and store.scheme != "s3":
            raise ValueError("store_options are those of s3://; gs:// and az:// are told by the environment")
        options = self.store_options if given else store.options
        return store.model_copy(update={"options": options, "folder": self.store_folder or store.folder})

    @model_validator(mode="after")
    def _language_model_is_there(self) -> Settings:
        uses = self.query.uses_of_language_model()
        if uses and self.language_model is None:
            named = " and ".join(uses)
            raise ValueError(
                f"{named} cannot do without a language model: add language_model, or switch it off"
            )
        return self

    def embedding_of(self, source: SourceConfig) -> Embedding:
        """The model settings that a source's chunks are embedded with."""
        return source.embedding or self.embedding
