"""Sources: what the entries of `sources` in `knowledge.yaml` may say, and the defaults of each type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from knowledge_pipeline.config.connections import (
    CodeHostConnection,
    ConfluenceConnection,
    Connection,
    GitConnection,
    GithubConnection,
    GitlabConnection,
    JiraConnection,
    SlackConnection,
)
from knowledge_pipeline.config.embedding import Content, EmbeddingSettings
from knowledge_pipeline.config.model import PluginName, SettingsModel, VariableModel, read_word, spell
from knowledge_pipeline.contract.filters import SourceType, build_namespace_tag
from knowledge_pipeline.encodings import require_known_encoding
from knowledge_pipeline.records import PULL_PREFIXES, is_branch_tag, is_wrong_pattern
from knowledge_pipeline.times import parse_age

WrittenType = Literal[SourceType, "documentation"]
NameList = tuple[str, ...]
ContentType = Literal["page", "blogpost", "whiteboard", "database"]
Part = Literal["title", "description", "comments", "reviews", "diff", "worklogs", "remote_links"]

DEFAULT_PARTS: tuple[Part, ...] = ("description", "comments", "reviews")
"""A diff is several times as long, and its code is read by other sources; links cost a call a ticket."""

PARTS_BY_TYPE: dict[str, tuple[Part, ...]] = {
    "github_pr": ("description", "comments", "reviews", "diff", "title"),
    "jira": ("description", "comments", "worklogs", "remote_links", "title"),
}
"""The parts that a document of each type may have; the title is in every document."""


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _tidy_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Each once, and the title only by itself: it is read anyway."""
    return tuple(dict.fromkeys(part for part in parts if part != "title")) or ("title",)


_WrittenPart = Annotated[
    Part,
    BeforeValidator(read_word, json_schema_input_type=Literal[Part, "review_comments", "diff_context"]),
]


def _require_age(text: str) -> str:
    parse_age(text)
    return text


def _read_switch(value: Any) -> Any:
    """`true` is every default, `false` is nothing; a file's values come as text."""
    choices: dict[str, Any] = {"true": {}, "false": None}
    return choices.get(str(value).lower(), value)


class TableColumns(SettingsModel):
    """Which columns of a table say what of a document.

    A column that is not named has the name of its key, where the table has such a column.
    """

    id: str = "id"
    text: Annotated[NameList, BeforeValidator(_to_list), Field(min_length=1)] = ("text",)  # joined
    title: str | None = None
    url: str | None = None
    author: str | None = None
    updated: str | None = None  # changes with the row; None: the whole row is compared
    created: str | None = None
    language: str | None = None  # of the text: markdown, python
    labels: str | None = None  # a list, or text with commas
    project: str | None = None
    status: str | None = None
    filters: Annotated[NameList, BeforeValidator(_to_list)] = ()  # each value a tag: `region:emea`


class AttachmentSettings(SettingsModel):
    """Which of the files that hang on a document are read."""

    include: NameList = ()  # of file names, gitignore syntax; empty: the formats of type `files`
    exclude: NameList = ()
    max_bytes: int = Field(default=20_000_000, ge=1)  # of one file
    max_count: int = Field(default=50, ge=1)  # at one document


class FileSettings(SettingsModel):
    """How files are read, also those that hang on documents."""

    extractor: PluginName | None = None  # of another package; what it leaves is read as usual


class SourceFilters(SettingsModel):
    """The filters of all types; `FILTER_TYPES` says which types each applies to. Empty means all."""

    # gitignore syntax; empty: the default of the type
    include: NameList = Field(default=(), validation_alias=spell("include"))
    exclude: NameList = ()
    max_bytes: int | None = Field(default=None, ge=1)  # None: the default of the type
    # of what declares none, and is not UTF-8: a label as pages have it
    encoding: Annotated[str, AfterValidator(require_known_encoding)] | None = None
    languages: NameList = ()
    depth: int = Field(default=1000, ge=1)  # at most so many commits
    since: str | None = None  # "2024-01-31", or a span: "180 days"; None: the default of the type
    max_results: int | None = Field(default=None, ge=1)  # the most recently updated ones
    state: Literal["open", "closed", "merged", "all"] | None = None  # None: the default of the type
    parts: Annotated[tuple[_WrittenPart, ...], Field(min_length=1), AfterValidator(_tidy_parts)] = (
        DEFAULT_PARTS  # of a pull request or a ticket
    )
    labels: NameList = Field(default=(), validation_alias=spell("labels"))  # documents with any of them
    projects: NameList = ()  # keys
    jql: str | None = None  # in addition to the other filters
    issue_types: NameList = ()
    statuses: NameList = ()
    custom_fields: NameList = ()  # display names of fields to include in the text
    spaces: NameList = ()  # keys
    comments: bool = True
    exclude_labels: NameList = ()  # no documents with any of them
    content_types: tuple[ContentType, ...] = ()  # empty: pages and blog posts
    channels: NameList = ()  # names or ids
    columns: TableColumns = TableColumns.defaults()
    attachments: Annotated[AttachmentSettings | None, BeforeValidator(_read_switch)] = None  # None: not read
    files: FileSettings = FileSettings.defaults()
    branches: NameList = ()  # patterns: what further branches of a repository have otherwise is read too
    # by kind of record, the age at which it is archived
    retention: dict[str, Annotated[str, AfterValidator(_require_age)]] = Field(default={})


_TICKET_TYPES = ("github_pr", "github_issues", "discussions", "jira")
_SERVICE_TYPES = (*_TICKET_TYPES, "confluence")
_ISSUE_STATES = ("open", "closed", "all")
_STATES: dict[str, tuple[str, ...]] = {
    "github_issues": _ISSUE_STATES,
    "discussions": _ISSUE_STATES,
    "releases": ("all",),  # also what is not final
}
"""The states of the types that have not all of them."""

_FILE_TYPES = ("code", "markdown", "openapi", "files", "archive")

FILTER_TYPES: dict[str, tuple[str, ...]] = {
    # of a commit or a pull request, by the files that it changes
    **dict.fromkeys(("include", "exclude"), (*_FILE_TYPES, "git_history", "github_pr")),
    "max_bytes": (*_FILE_TYPES, "snippets", "confluence", "table", "custom", "push"),
    "languages": ("code",),
    "depth": ("git_history",),
    "since": ("git_history", *_SERVICE_TYPES, "releases", "slack"),
    "max_results": (*_SERVICE_TYPES, "releases", "slack"),
    "state": ("github_pr", *_STATES),
    "parts": tuple(PARTS_BY_TYPE),
    "labels": _SERVICE_TYPES,
    **dict.fromkeys(("projects", "jql", "issue_types", "statuses", "custom_fields"), ("jira",)),
    **dict.fromkeys(("spaces", "comments", "exclude_labels", "content_types"), ("confluence",)),
    "channels": ("slack",),
    "columns": ("table",),
    "attachments": (*_SERVICE_TYPES, "slack"),
    "files": ("files", *_SERVICE_TYPES, "slack"),
    "branches": ("code", "markdown", "openapi"),
    "encoding": (*_FILE_TYPES, "git_history", *_SERVICE_TYPES, "slack"),
    "retention": ("archive",),
}
"""The types that each filter applies to."""

_LATER_KEYS = ("attachments", "files", "branches", "encoding", "retention")


def dump_filters(filters: SourceFilters) -> dict[str, Any]:
    """The filters as JSON values; later keys only where they are set, so that others keep their hashes."""
    defaults = {name: SourceFilters.model_fields[name].default for name in _LATER_KEYS}
    unset = {name for name, default in defaults.items() if getattr(filters, name) == default}
    return filters.model_dump(mode="json", include=FILTER_TYPES.keys() - unset)


def _require_supported_filters(filters: SourceFilters, source_type: str) -> None:
    """Raises ValueError if a filter is set that does not apply to the type: it would have no effect."""
    for name, types in FILTER_TYPES.items():
        default = SourceFilters.model_fields[name].default
        if getattr(filters, name) != default and source_type not in types:
            own = ", ".join(key for key, its_types in FILTER_TYPES.items() if source_type in its_types)
            raise ValueError(
                f"{name} does not apply to type {source_type!r}, only to {', '.join(types)}: use {own}"
            )
    allowed = PARTS_BY_TYPE.get(source_type, DEFAULT_PARTS)
    if filters.parts != DEFAULT_PARTS and (others := sorted({*filters.parts} - {*allowed})):
        own = ", ".join(allowed)
        raise ValueError(f"parts {', '.join(others)} do not apply to type {source_type!r}: use {own}")
    states = _STATES.get(source_type)
    if filters.state and states and filters.state not in states:
        raise ValueError(
            f"state {filters.state!r} does not apply to type {source_type!r}: use {', '.join(states)}"
        )


ChunkingStrategy = Literal[
    "fixed_size", "sentence", "paragraph", "semantic", "ast_aware", "endpoint", "commit", "conversation"
]

_PARSED_TYPES = ("code", "snippets", "files", "custom", "push")
"""The types whose documents may be cut by their syntax without being told to."""

_SYNTAX_KEYS = ("granularity", "include_imports", "include_comments", "preserve_signatures")


class ChunkingSettings(SettingsModel):
    """How documents are chunked. None: the default of the source type and strategy.

    Token limits count with the embedding model's own tokenizer, header included.
    """

    strategy: ChunkingStrategy | None = None
    custom: PluginName | None = None  # a chunker of another package, instead of a strategy
    max_tokens: int | None = Field(default=None, ge=16, le=8192)
    min_tokens: int | None = Field(default=None, ge=0, le=8192)
    overlap_tokens: int | None = Field(default=None, ge=0, le=4096)
    max_section_depth: int = Field(default=6, ge=1, le=6)
    granularity: Literal["file", "class", "function", "method"] = "method"
    include_imports: bool = True
    include_comments: bool = True
    preserve_signatures: bool = True

    @model_validator(mode="after")
    def _check_keys(self) -> ChunkingSettings:
        self._require_limits()
        return self

    def _require_limits(self) -> None:
        limit = self.max_tokens
        for name in ("min_tokens", "overlap_tokens"):
            value = getattr(self, name)
            if limit is not None and value is not None and value >= limit:
                raise ValueError(f"{name} ({value}) must be smaller than max_tokens ({limit})")
        if self.custom and self.strategy:
            raise ValueError("custom and strategy both say how to split: remove one")

    def to_json(self) -> dict[str, Any]:
        """The keys as JSON values; `custom` only where it is set, so that others keep their hashes."""
        return self.model_dump(mode="json", exclude=None if self.custom else {"custom"})

    def with_defaults(self, defaults: ChunkingSettings) -> ChunkingSettings:
        """These, with the keys of `defaults` that are not set here; raises ValueError if they contradict."""
        if not defaults.model_fields_set:
            return self
        own = set(self.model_fields_set)
        if self.custom or self.strategy:
            own |= {"custom", "strategy"}
        if self.custom or self.strategy not in (None, "ast_aware"):  # which does not read what is of syntax
            own |= {*_SYNTAX_KEYS}
        inherited = {name: getattr(defaults, name) for name in defaults.model_fields_set - own}
        completed = self.model_copy(update=inherited)
        completed._require_limits()
        return completed


class MetadataSettings(SettingsModel):
    """Which extractors run, and the tags of every chunk of the source."""

    standard: bool = True
    code: bool = True
    documents: bool = True
    custom: tuple[PluginName, ...] = ()
    tags: tuple[str, ...] = ()
    coverage: Path | None = None  # a coverage.xml or lcov file, for `test_coverage`

    @model_validator(mode="after")
    def _require_own_tags(self) -> MetadataSettings:
        if reserved := next(filter(is_branch_tag, self.tags), None):
            raise ValueError(f"the tag {reserved!r} is one of branches: choose another")
        return self


def _require_read_keys(source_type: str, chunking: ChunkingSettings, metadata: MetadataSettings) -> None:
    """Raises ValueError if a key is set that nothing reads for the type: it would have no effect."""
    strategy = chunking.strategy
    is_parsed = strategy == "ast_aware" or (strategy is None and source_type in _PARSED_TYPES)
    for name in () if is_parsed else _SYNTAX_KEYS:
        if getattr(chunking, name) != ChunkingSettings.model_fields[name].default:
            raise ValueError(
                f"chunking.{name} does not apply to type {source_type!r}"
                + (f" with chunking.strategy {strategy!r}" if strategy else "")
                + ": use max_tokens, or chunking.strategy 'ast_aware'"
            )
    if metadata.coverage is not None and source_type not in _PARSED_TYPES:
        raise ValueError(
            f"metadata.coverage does not apply to type {source_type!r}, only to {', '.join(_PARSED_TYPES)}: "
            "use metadata.custom"
        )


_DOCUMENTATION_TYPES = ("markdown", "confluence", "files", "releases", "table")
"""Types whose documents are prose with headings, whatever is in them."""


class ChunkingByContent(SettingsModel):
    """How documents are chunked by what they hold, where their source does not say."""

    code: ChunkingSettings = ChunkingSettings.defaults()
    documentation: ChunkingSettings = ChunkingSettings.defaults()

    @model_validator(mode="after")
    def _check_keys(self) -> ChunkingByContent:
        own = self.documentation
        unread = [it for it in _SYNTAX_KEYS if getattr(own, it) != ChunkingSettings.model_fields[it].default]
        if unread and own.strategy != "ast_aware":
            raise ValueError(
                f"documentation.{unread[0]} is for code: remove it, or set it below chunking.code"
            )
        return self

    def complete(self, source: SourceTemplate) -> ChunkingSettings:
        """The settings of a source with these defaults; raises ValueError if they contradict its own."""
        holds_code = source.content_type == "code"
        if source.type == "code" or (holds_code and source.type in _PARSED_TYPES):
            return source.chunking.with_defaults(self.code)
        is_prose = source.type in _DOCUMENTATION_TYPES and not holds_code
        return source.chunking.with_defaults(self.documentation) if is_prose else source.chunking


MAX_PERMISSION_AGE = "26 hours"  # a daily refresh reads them in time, where nothing else does


class AccessSettings(SettingsModel):
    """Who may find the source's content.

    With `from_source` each document has the readers that the source's own permissions give it; `principals`
    then see every document, also those whose permissions cannot be read. `mapping` leads from accounts and
    groups of the source to principals; what it does not name is the account's e-mail, if that is trusted.
    These readers see nothing while the permissions were last read more than `max_age` ago. When an earlier
    program read them is not known: where `max_age` is set, that is too long ago.
    """

    visibility: Literal["public", "tenant", "private", "from_source"] = "public"
    tenant: str | None = None
    principals: tuple[str, ...] = ()
    mapping: Mapping[str, str] = Field(default_factory=dict[str, str])
    trust_emails: bool = True
    max_age: Annotated[str, AfterValidator(_require_age)] = MAX_PERMISSION_AGE

    @model_validator(mode="after")
    def _require_audience(self) -> AccessSettings:
        if self.visibility != "public" and not self.tenant:
            raise ValueError(f"visibility {self.visibility!r} needs a tenant")
        if self.visibility == "private" and not self.principals:
            raise ValueError("visibility 'private' needs at least one entry in principals")
        has_own_keys = self.mapping or not self.trust_emails or self.max_age != MAX_PERMISSION_AGE
        if self.visibility != "from_source" and has_own_keys:
            raise ValueError("mapping, trust_emails and max_age belong to visibility 'from_source'")
        if wrong := [name for name in (*self.mapping, *self.mapping.values()) if not name.strip()]:
            raise ValueError(f"mapping leads from an account to a principal: neither can be {wrong[0]!r}")
        return self


PermissionConnection = (
    ConfluenceConnection | JiraConnection | SlackConnection | GithubConnection | GitlabConnection
)

GIT_READ_TYPES: frozenset[SourceType] = frozenset({"code", "markdown", "openapi", "git_history"})
"""Types that git reads, also over a connection to GitHub or GitLab."""


SanitizeAction = Literal["off", "redact", "drop"]
Trigger = Literal["realtime", "on_commit", "hourly", "daily", "weekly", "manual"]
AssetKeyText = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")]  # as Dagster shows them

SourceId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]

MAX_AGE_BY_TRIGGER: dict[Trigger, timedelta] = {
    "realtime": timedelta(hours=26),  # all are reconciled daily, whatever was missed
    "on_commit": timedelta(hours=26),
    "hourly": timedelta(hours=2.5),
    "daily": timedelta(hours=26),
    "weekly": timedelta(days=8),
}
"""How old the last refresh may be: the interval, plus time for a late tick and a long run. By hand: any."""

_DEFAULT_TRIGGERS: dict[SourceType, Trigger] = {  # all others: daily
    **dict.fromkeys(("code", "markdown", "openapi"), "on_commit"),
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
    "push": ("push",),
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


def _read_trigger(value: Any) -> Any:
    return {"trigger": value} if isinstance(value, str) else value


class SourceTemplate(SourceFilters):
    """What is said of a source, but for its name and where it is read."""

    type: Annotated[SourceType, BeforeValidator(read_word, json_schema_input_type=WrittenType)]
    namespace: SourceId | None = None  # groups sources: filters can name it
    content_type: Content | None = None  # what models read in it; None: by the type
    chunking: ChunkingSettings = ChunkingSettings.defaults()
    embedding: EmbeddingSettings | None = None  # None: the one of the whole project
    metadata: MetadataSettings = MetadataSettings.defaults()
    sanitize: SanitizeSettings = SanitizeSettings.defaults()
    refresh: Annotated[
        RefreshSettings, BeforeValidator(_read_trigger, json_schema_input_type=RefreshSettings | Trigger)
    ] = RefreshSettings.defaults()
    upstream: tuple[AssetKeyText, ...] = ()  # assets of Dagster that it is read from
    access: AccessSettings = AccessSettings.defaults()


class SourceConfig(VariableModel, SourceTemplate):
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
        _require_supported_filters(self, self.type)
        if self.files.extractor and self.type != "files" and self.attachments is None:
            raise ValueError(f"files.extractor reads attachments of type {self.type!r}: set attachments too")
        if self.encoding and self.type in (*_SERVICE_TYPES, "slack") and self.attachments is None:
            raise ValueError(f"encoding is that of attachments of type {self.type!r}: set attachments too")
        if self.attachments and self.connection.type == "slack_export":
            raise ValueError(
                "attachments are not part of a Slack export: remove the key, or read over the API"
            )
        if self.branches:
            self._require_further_branches()
        _require_read_keys(self.type, self.chunking, self.metadata)
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
        service = self.connection.type
        if wrong := [branch for branch in self.branches if is_wrong_pattern(branch, service)]:
            heads = [f"{prefix}*" for host, prefix in PULL_PREFIXES.items() if service in (host, "git")]
            raise ValueError(
                f"branches has {wrong[0]!r}, which names no branch: write names or patterns such as "
                f"'release/*', and {' or '.join(map(repr, heads))} for the heads of pull requests"
            )

    def _connect(self, connection: Connection) -> SourceConfig:
        service = connection if isinstance(connection, PermissionConnection) else None
        if isinstance(connection, GitConnection):
            service = connection.to_code_host()
        if service is None and self.access.visibility == "from_source":
            remedy = ": use connection.type github or gitlab, or a connection.token for a url on one of them"
            raise ValueError(
                f"access.visibility 'from_source' is not read for type {self.type!r} over connection.type "
                f"{connection.type!r}; only Confluence, Jira, Slack, GitHub and GitLab say who may read a "
                f"document{remedy if self.type in GIT_READ_TYPES else ''}"
            )
        self._permission_connection = service
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
    usual = _DEFAULT_TRIGGERS.get(source.type, "daily")
    if usual == "weekly" and source.access.visibility == "from_source":
        usual = "daily"  # permissions are as old as the last refresh
    return source.refresh.trigger or usual
