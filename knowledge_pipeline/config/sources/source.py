"""One source, as an entry of `sources` in `knowledge.yaml` declares it, and the defaults of its type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from knowledge_pipeline.branch_names import PULL_PREFIXES, is_wrong_pattern
from knowledge_pipeline.config.connections.connection import Connection
from knowledge_pipeline.config.connections.repositories import (
    CodeHostConnection,
    GithubConnection,
    GitlabConnection,
)
from knowledge_pipeline.config.embedding import Content, EmbeddingSettings
from knowledge_pipeline.config.model import PluginName, SettingsModel
from knowledge_pipeline.config.sources.access import AccessSettings
from knowledge_pipeline.config.sources.chunking import ChunkingSettings, MetadataSettings, require_read_keys
from knowledge_pipeline.config.sources.filters import NameList, SourceFilters, require_supported_filters
from knowledge_pipeline.config.sources.permissions import (
    GIT_READ_TYPES,
    PermissionConnection,
    find_permission_connection,
)
from knowledge_pipeline.contract.types import SourceType, build_namespace_tag

SanitizeAction = Literal["off", "redact", "drop"]
Trigger = Literal["realtime", "on_commit", "hourly", "daily", "weekly"]
AssetKeyText = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")]  # as Dagster shows them

SourceId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]

MAX_AGE_BY_TRIGGER: dict[Trigger, timedelta] = {
    "realtime": timedelta(hours=26),  # all are reconciled daily, whatever was missed
    "on_commit": timedelta(hours=26),
    "hourly": timedelta(hours=2.5),
    "daily": timedelta(hours=26),
    "weekly": timedelta(days=8),
}
"""How old the last refresh may be: the interval, plus time for a late tick and a long run."""

_DEFAULT_TRIGGERS: dict[SourceType, Trigger] = {
    **dict.fromkeys(("code", "markdown", "openapi"), "on_commit"),
    **dict.fromkeys(
        (
            *("github_pr", "github_issues", "discussions", "releases", "snippets"),
            *("jira", "confluence", "slack", "files", "table", "custom"),
        ),
        "daily",
    ),
    "git_history": "weekly",
    "archive": "realtime",
}

_GIT_CONNECTIONS: tuple[str, ...] = ("local", "git", "github", "gitlab")
_BUCKET_CONNECTIONS: tuple[str, ...] = ("s3", "gcs", "azure")
CONNECTIONS_BY_TYPE: dict[SourceType, tuple[str, ...]] = {
    **dict.fromkeys(
        ("code", "markdown", "openapi"), (*_GIT_CONNECTIONS, *_BUCKET_CONNECTIONS, "archive_file")
    ),
    "git_history": _GIT_CONNECTIONS,
    **dict.fromkeys(("github_pr", "github_issues", "releases"), ("github", "gitlab")),
    "discussions": ("github",),
    "snippets": ("gitlab",),
    "jira": ("jira",),
    "confluence": ("confluence",),
    "slack": ("slack", "slack_export"),
    **dict.fromkeys(("files", "archive"), ("local", *_BUCKET_CONNECTIONS, "archive_file")),
    "table": ("table_files", "duckdb", "postgres"),
    "custom": ("custom",),
}
"""The connections that each type can be read over."""

_CONVERSATION_TYPES: frozenset[SourceType] = frozenset(
    {"github_pr", "github_issues", "discussions", "jira", "confluence", "slack", "archive"}
)
"""Types that hold conversations: personal data is redacted unless the file says otherwise."""


class SanitizeSettings(SettingsModel):
    """What happens to secrets and personal data before anything is embedded or indexed."""

    secrets: SanitizeAction = "redact"
    personal_data: SanitizeAction | None = None  # None: the default of the source's type
    custom: tuple[PluginName, ...] = ()  # sanitizers of other packages: what they find is redacted

    def to_json(self) -> dict[str, Any]:
        """The keys as JSON values; `custom` only where it is set, so that others keep their hashes."""
        return self.model_dump(mode="json", exclude=None if self.custom else {"custom"})


class RefreshSettings(SettingsModel):
    """When a source is refreshed, and when it is reindexed from scratch."""

    trigger: Trigger | None = None  # None: the default of the type
    full_reindex: Literal["weekly", "monthly", "on_demand"] = "on_demand"


class SourceTemplate(SourceFilters):
    """What is said of a source, but for its name and where it is read."""

    type: SourceType
    namespace: SourceId | None = None  # groups sources: filters can name it
    content_type: Content | None = None  # what models read in it; None: by the type
    chunking: ChunkingSettings = ChunkingSettings.defaults()
    embedding: EmbeddingSettings | None = None  # None: the one of the whole project
    metadata: MetadataSettings = MetadataSettings.defaults()
    sanitize: SanitizeSettings = SanitizeSettings.defaults()
    refresh: RefreshSettings = RefreshSettings.defaults()
    upstream: tuple[AssetKeyText, ...] = ()  # assets of Dagster that it is read from
    access: AccessSettings = AccessSettings.defaults()


class SourceConfig(SourceTemplate):
    """One configured origin of documents; one Dagster partition."""

    id: SourceId
    connection: Connection
    _permission_connection: PermissionConnection | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_connection(self) -> SourceConfig:
        allowed = CONNECTIONS_BY_TYPE[self.type]
        if self.connection.type not in allowed:
            raise ValueError(
                f"type {self.type!r} is not read over connection.type {self.connection.type!r}; "
                f"allowed: {', '.join(allowed)}"
            )
        require_supported_filters(self, self.type)
        if self.files.extractor and self.type != "files" and self.attachments is None:
            raise ValueError(f"files.extractor reads attachments of type {self.type!r}: set attachments too")
        if self.attachments and self.connection.type == "slack_export":
            raise ValueError(
                "attachments are not part of a Slack export: remove the key, or read over the API"
            )
        if self.branches:
            self._require_further_branches()
        require_read_keys(self.type, self.chunking, self.metadata)
        if isinstance(self.connection, CodeHostConnection):
            self.connection.require_readable_wiki(self.type)
        return self._connect(self.connection)

    def _require_further_branches(self) -> None:
        if self.connection.type not in ("git", "github", "gitlab"):
            raise ValueError(
                f"branches does not apply to connection.type {self.connection.type!r}, only to git, github "
                "and gitlab: remove the key"
            )
        if isinstance(self.connection, CodeHostConnection) and self.connection.wiki:
            raise ValueError("branches does not apply to a wiki: remove the key")
        if wrong := [each for each in self.branches if is_wrong_pattern(each, self.connection.type)]:
            service = self.connection.type
            heads = [f"{prefix}*" for each, prefix in PULL_PREFIXES.items() if service in (each, "git")]
            raise ValueError(
                f"branches has {wrong[0]!r}, which names no branch: write names or patterns such as "
                f"'release/*', and {' or '.join(map(repr, heads))} for the heads of pull requests"
            )

    def _connect(self, connection: Connection) -> SourceConfig:
        self._permission_connection = find_permission_connection(self.type, connection, self.access)
        if self.type in GIT_READ_TYPES and isinstance(connection, GithubConnection | GitlabConnection):
            connection = connection.to_git()  # the same repository, by git
        object.__setattr__(self, "connection", connection)
        return self

    def copy_for(self, id: str, connection: Connection, filters: Mapping[str, NameList]) -> SourceConfig:
        """The same source of something else of this kind, which is not validated again."""
        return self.model_copy(update={"id": id, **filters})._connect(connection)

    @property
    def tags(self) -> list[str]:
        """Tags of all its chunks: those of the configuration, and its namespace's."""
        namespace = [build_namespace_tag(self.namespace)] if self.namespace else []
        return sorted({*self.metadata.tags, *namespace})

    @property
    def permission_connection(self) -> PermissionConnection | None:
        """Where to ask who may read the documents; None: nobody says."""
        return self._permission_connection


def resolve_sanitize(source: SourceConfig) -> SanitizeSettings:
    """What happens to secrets and personal data: as configured, or by the default of the type."""
    if source.sanitize.personal_data is not None:
        return source.sanitize
    usual = "redact" if source.type in _CONVERSATION_TYPES else "off"
    return source.sanitize.model_copy(update={"personal_data": usual})


def resolve_trigger(source: SourceConfig) -> Trigger:
    """When a source is refreshed: as configured, or by the default of its type."""
    usual = _DEFAULT_TRIGGERS[source.type]
    if usual == "weekly" and source.access.visibility == "from_source":
        usual = "daily"  # permissions are as old as the last refresh
    return source.refresh.trigger or usual
