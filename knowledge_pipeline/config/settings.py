"""`knowledge.yaml` and the environment as frozen, validated settings.

Only shapes and rules live here; `config.file` reads and checks the file, `config.edit` edits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice, pairwise, starmap
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from knowledge_pipeline.config.access import AccessSettings
from knowledge_pipeline.config.chunking import (
    ChunkingSettings,
    MetadataSettings,
    require_read_keys,
)
from knowledge_pipeline.config.connections import (
    CodeHostConnection,
    Connection,
    GithubConnection,
    GitlabConnection,
)
from knowledge_pipeline.config.costs import CostSettings
from knowledge_pipeline.config.embedding import Content, EmbeddingByContent, EmbeddingSettings, find_content
from knowledge_pipeline.config.federation import FederationSettings
from knowledge_pipeline.config.limits import LimitSettings
from knowledge_pipeline.config.model import PluginName
from knowledge_pipeline.config.operation import (
    AlertSettings,
    CheckSettings,
    ContextSettings,
    EvaluationSettings,
    EventSettings,
    LogSettings,
    ReleaseSettings,
    ScheduleSettings,
    ServeSettings,
    SettingsModel,
    SqlModelSettings,
    TuningSettings,
)
from knowledge_pipeline.config.organisations.connections import AnyOrganisationConnection
from knowledge_pipeline.config.organisations.members import (
    MemberFilter,
    MemberPatterns,
    OrganisationMember,
    build_source_id,
    matches_any,
)
from knowledge_pipeline.config.permission_sources import (
    GIT_READ_TYPES,
    PermissionConnection,
    find_permission_connection,
)
from knowledge_pipeline.config.query import LanguageModelSettings, QuerySettings
from knowledge_pipeline.config.source_filters import NameList, SourceFilters, require_supported_filters
from knowledge_pipeline.config.store import FolderOrUrl, ObjectStore, StoreOptions
from knowledge_pipeline.contract.types import SourceType, build_namespace_tag
from knowledge_pipeline.errors import NotFound

SanitizeAction = Literal["off", "redact", "drop"]
Trigger = Literal["realtime", "on_commit", "hourly", "daily", "weekly"]
Owner = Annotated[str, Field(pattern=r"^(team:[\w-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]  # as Dagster takes them
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

_MAX_NAMED = 50  # sources in a message

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
_ALLOWED_CONNECTIONS: dict[SourceType, tuple[str, ...]] = {
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
        allowed = _ALLOWED_CONNECTIONS[self.type]
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
        require_read_keys(self.type, self.chunking, self.metadata)
        if isinstance(self.connection, CodeHostConnection):
            self.connection.require_readable_wiki(self.type)
        return self._connect(self.connection)

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


class MemberSource(SourceTemplate):
    """A source that members of an organisation have; the last one of a type that fits a member counts."""

    members: MemberPatterns = ()  # empty: all


class OrganisationSettings(MemberFilter):
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
        allowed = [each for each, known in _ALLOWED_CONNECTIONS.items() if connection.reads in known]
        if source.type not in allowed:
            raise ValueError(
                f"sources[{index}]: type {source.type!r} is not read from members of {connection.type!r}; "
                f"allowed: {', '.join(allowed)}"
            )
        if name in source.model_fields_set:
            raise ValueError(f"sources[{index}]: {name} is the member's own: name members in `include`")
        values = {each: getattr(source, each) for each in source.model_fields_set - {"members"}}
        values |= {name: (connection.example,)} if name else {}
        try:
            return SourceConfig(**values, id=self.id, connection=connection.connect(connection.example))
        except ValidationError as error:
            reasons = "; ".join(str(each["msg"]).removeprefix("Value error, ") for each in error.errors())
            raise ValueError(f"sources[{index}]: {reasons}") from None

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


def _find_source_content(source: SourceConfig) -> Content:
    return source.content_type or find_content(source.type)


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


@dataclass(frozen=True, slots=True)
class _Stamp:
    """When files were changed last; settings that say the same are equal, whenever they were read."""

    parts: tuple[int, ...] = field(default=(), compare=False)


class Settings(SettingsModel):
    """The whole of `knowledge.yaml`."""

    version: Literal[1] = 1
    store: Annotated[Path | ObjectStore, FolderOrUrl()] = Path(".knowledge")
    store_options: StoreOptions = StoreOptions.defaults()
    store_folder: Path | None = None  # None: .knowledge; of an object store, what stays on this machine
    embedding: EmbeddingSettings = EmbeddingSettings()
    embedding_by_content: EmbeddingByContent = EmbeddingByContent.defaults()
    language_model: LanguageModelSettings | None = None
    costs: CostSettings = CostSettings.defaults()
    query: QuerySettings = QuerySettings.defaults()
    limits: LimitSettings = LimitSettings.defaults()
    context: ContextSettings = ContextSettings.defaults()
    releases: ReleaseSettings = ReleaseSettings.defaults()
    owners: tuple[Owner, ...] = ()  # of the assets
    schedules: ScheduleSettings = ScheduleSettings.defaults()
    checks: CheckSettings = CheckSettings.defaults()
    alerts: AlertSettings = AlertSettings.defaults()
    events: EventSettings = EventSettings.defaults()
    evaluation: EvaluationSettings = EvaluationSettings.defaults()
    tuning: TuningSettings = TuningSettings.defaults()
    sql_models: SqlModelSettings = SqlModelSettings.defaults()
    logs: LogSettings = LogSettings.defaults()
    serve: ServeSettings = ServeSettings.defaults()
    federation: FederationSettings = FederationSettings.defaults()
    sources: tuple[SourceConfig, ...] = ()  # as declared; as `config.file` loads them, of organisations too
    organisations: tuple[OrganisationSettings, ...] = ()
    _unlisted: tuple[str, ...] = PrivateAttr(default=())
    _stamp: _Stamp = PrivateAttr(default=_Stamp())

    @model_validator(mode="after")
    def _check_organisations(self) -> Settings:
        ids = sorted(each.id for each in self.organisations)
        if both := next((each.id for each in self.sources if each.id in ids), None):
            raise ValueError(f"a source and an organisation have the id {both!r}: ids must be unique")
        for one, other in pairwise(ids):
            if f"{other}-".startswith(f"{one}-"):
                raise ValueError(
                    f"organisations {one!r} and {other!r}: no id may be another one, or begin with it and '-'"
                )
        return self

    @model_validator(mode="after")
    def _check_sources(self) -> Settings:
        if (self.sources or self.organisations) and self.federation.stores:
            raise ValueError("a federation has its stores' sources: remove sources, or federation.stores")
        seen: set[str] = set()
        for source in self.sources:
            if source.id in seen:
                raise ValueError(f"two sources have the id {source.id!r}: ids must be unique")
            if source.id == "release":
                raise ValueError("a source cannot have the id 'release', which names the release in reports")
            seen.add(source.id)
        return self

    @model_validator(mode="after")
    def _apply_store_options(self) -> Settings:
        object.__setattr__(self, "store", self.with_store_options(self.store))
        return self

    def with_store_options(self, store: Path | ObjectStore) -> Path | ObjectStore:
        """A store with these settings' options and local folder; raises ValueError if it takes none."""
        given = self.store_options != StoreOptions.defaults()
        if not isinstance(store, ObjectStore):
            if given or self.store_folder:
                raise ValueError("store_options and store_folder belong to a store at a URL, not to a folder")
            return store
        if given and store.scheme != "s3":
            raise ValueError("store_options apply to s3:// only; the environment configures gs:// and az://")
        options = self.store_options if given else store.options
        return store.model_copy(update={"options": options, "folder": self.store_folder or store.folder})

    @model_validator(mode="after")
    def _require_language_model(self) -> Settings:
        uses = self.query.list_language_model_keys()
        if uses and self.language_model is None:
            keys = " and ".join(uses)
            raise ValueError(f"{keys} needs a language model: add language_model, or switch it off")
        return self

    @model_validator(mode="after")
    def _require_logs_of_budgets(self) -> Settings:
        by_month = any(budget.window == "month" for budget in self.costs.budgets)
        if by_month and self.logs.keep_days < 31:
            raise ValueError(
                f"costs.budgets of a month need logs.keep_days of 31 or more, found {self.logs.keep_days}"
            )
        return self

    @model_validator(mode="after")
    def _require_allowed_budget(self) -> Settings:
        for name, depth in self.query.depth:
            if (results := depth.default_k or 0) > self.limits.results:
                raise ValueError(
                    f"query.depth.{name}.default_k ({results}) must be at most limits.results "
                    f"({self.limits.results})"
                )
        budget, allowed = self.context.max_tokens, self.limits.context_tokens
        if budget > allowed:
            raise ValueError(
                f"context.max_tokens ({budget}) must be at most limits.context_tokens ({allowed})"
            )
        return self

    def with_members(self, sources: Sequence[SourceConfig], unlisted: Sequence[str]) -> Settings:
        """These settings with the sources of organisations, and the ids of those that are not listed yet."""
        found = self.model_copy(update={"sources": (*self.sources, *sources)})
        found._unlisted = tuple(unlisted)
        return found

    @property
    def unlisted_organisations(self) -> tuple[str, ...]:
        """Those whose members are not known here: what is stored of them must not be taken for removed."""
        return self._unlisted

    def with_stamp(self, stamp: tuple[int, ...]) -> Settings:
        """These settings, as read from files with these times of change."""
        self._stamp = _Stamp(stamp)
        return self

    @property
    def stamp(self) -> tuple[int, ...]:
        """What differs once the files that they are read from do."""
        return self._stamp.parts

    @property
    def local_folder(self) -> Path:
        """Of the store, what stays on this machine."""
        return self.store.folder if isinstance(self.store, ObjectStore) else self.store

    def select_sources(self, ids: Iterable[str]) -> list[SourceConfig]:
        """Configured sources by id; all of them where no id is given.

        Raises:
            NotFound: no source has such an id.
        """
        by_id = {source.id: source for source in self.sources}
        ids = list(ids) or list(by_id)
        for id_ in ids:
            if id_ not in by_id:
                known = ", ".join(islice(by_id, _MAX_NAMED)) + (", ..." if len(by_id) > _MAX_NAMED else "")
                raise NotFound(f"there is no source {id_!r}; configured sources: {known or 'none'}")
        return [by_id[id_] for id_ in ids]

    def resolve_embedding(self, source: SourceConfig) -> EmbeddingSettings:
        """The model settings of a source's chunks: its own, those of its content, or those of the file."""
        content = _find_source_content(source)
        own: EmbeddingSettings | None = source.embedding or getattr(self.embedding_by_content, content)
        return (own or self.embedding).resolve(source.type, content)

    def list_embeddings(self) -> list[EmbeddingSettings]:
        """The model settings of all sources, each once; those of documentation where there is no source.

        Their tasks of questions are those of all the content that one model reads.
        """
        contents: dict[EmbeddingSettings, set[Content]] = {}
        for source in self.sources:
            contents.setdefault(self.resolve_embedding(source), set()).add(_find_source_content(source))
        chosen = [embedding.choose_query_task(read) for embedding, read in contents.items()]
        return list(dict.fromkeys(chosen)) or [self.embedding.resolve("markdown")]
