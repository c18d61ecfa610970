"""The whole of `knowledge.yaml` as frozen, validated settings, and hashes of those that decide rows.

Only shapes and rules live here; `config.file` reads and checks the file, `config.edit` edits it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, model_validator

from knowledge_pipeline.config import operation
from knowledge_pipeline.config.connections import CustomConnection
from knowledge_pipeline.config.embedding import Content, EmbeddingByContent, EmbeddingSettings, find_content
from knowledge_pipeline.config.model import SettingsModel, VariableModel, read_word
from knowledge_pipeline.config.organisations import OrganisationSettings
from knowledge_pipeline.config.sources import (
    ChunkingByContent,
    SourceConfig,
    SourceTemplate,
    dump_filters,
    resolve_sanitize,
)
from knowledge_pipeline.config.store import FolderOrUrl, ObjectStore, StoreOptions, VectorIndexSettings
from knowledge_pipeline.errors import ConfigError, NotFound
from knowledge_pipeline.plugins import describe_settings
from knowledge_pipeline.records import hash_strings


class LanguageModelSettings(SettingsModel):
    """A language model at an OpenAI-compatible endpoint. Nothing needs one."""

    model: str = Field(min_length=1)
    base_url: str = "https://api.openai.com/v1"
    api_key: SecretStr | None = None
    price_per_million_input_tokens: float = Field(default=0.0, ge=0)
    price_per_million_output_tokens: float = Field(default=0.0, ge=0)
    max_input_tokens: int = Field(default=4000, ge=512)  # a longer prompt is never sent
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None  # None: not sent
    timeout_s: float = Field(default=60.0, gt=0)
    max_tries: int = Field(default=3, ge=1, le=20)
    max_concurrent: int = Field(default=4, ge=1, le=64)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)


class RerankSettings(SettingsModel):
    """Which search types are reranked, by what, and how long it may take."""

    kind: Literal["cross_encoder", "llm"] = "cross_encoder"
    model: str | None = None  # a cross-encoder's name or folder; None: no reranking by one
    types: tuple[Literal["semantic", "code", "similar", "historical"], ...] = ()
    budget_s: float = Field(default_factory=lambda data: 8.0 if data.get("kind") == "llm" else 0.4, gt=0)


class SearchGraphSettings(SettingsModel):
    """What the code graph adds to the results of a search."""

    enrich: bool = True  # add to the best code hits what they call, what calls them, ...


class CacheSettings(SettingsModel):
    """How long answers are kept for callers who ask the same and may see the same."""

    ttl_minutes: float = Field(default=15.0, ge=0)  # 0: no cache
    max_megabytes: int = Field(default=32, ge=1)  # approximate


class SearchDepth(SettingsModel):
    """How deep a search of one type looks. None: the default of the type."""

    candidates: int | None = Field(default=None, ge=10, le=1000)  # by words, and by vectors, of each space
    rerank_k: int | None = Field(default=None, ge=1, le=500)  # hits that are reranked, at least
    default_k: int | None = Field(default=None, ge=1, le=100)  # results of a question without a limit


class SearchDepths(SettingsModel):
    """The depths of each type of search."""

    semantic: SearchDepth = SearchDepth.defaults()
    code: SearchDepth = SearchDepth.defaults()
    similar: SearchDepth = SearchDepth.defaults()
    historical: SearchDepth = SearchDepth.defaults()

    @property
    def is_default(self) -> bool:
        """Whether every type has its defaults: then stored scores stay comparable."""
        return self == SearchDepths.defaults()


class RetrievalSettings(SettingsModel):
    """Sizes of answers, said once: those that `query.depth` and `context` leave open."""

    default_k: int | None = Field(default=None, ge=1, le=100)
    rerank_k: int | None = Field(default=None, ge=1, le=500)
    max_context_tokens: int | None = Field(default=None, ge=1)


class QuerySettings(SettingsModel):
    """How questions are answered."""

    fusion: Literal["following", "weighted", "reciprocal_rank"] = "following"
    vector_weight: float = Field(default=0.5, ge=0, le=1)
    feedback: float = Field(default=0.7, ge=0, le=2)  # of the best prose found, in a second look; 0: none
    floor: float = Field(default=0.0, ge=0, le=1)  # following: a result below this score is not relevant
    expansion: Literal["off", "llm"] = "off"
    decompose: Literal["off", "rules", "llm"] = "off"
    hyde: bool = False
    max_related: int = Field(default=3, ge=0, le=100)  # relations shown with a result
    llm_budget_s: float = Field(default=5.0, gt=0)  # for expansion, decomposition and HyDE together
    depth: SearchDepths = Field(default=SearchDepths.defaults(), exclude_if=lambda depth: depth.is_default)
    graph: SearchGraphSettings = SearchGraphSettings.defaults()
    rerank: RerankSettings = RerankSettings.defaults()
    cache: CacheSettings = CacheSettings.defaults()

    @property
    def rewrites_queries(self) -> bool:
        """Whether questions are rewritten before they are searched for."""
        return self.hyde or self.expansion == "llm" or self.decompose != "off"

    def list_language_model_keys(self) -> tuple[str, ...]:
        """Keys whose values need a language model."""
        uses = {
            "query.expansion": self.expansion == "llm",
            "query.decompose": self.decompose == "llm",
            "query.hyde": self.hyde,
            "query.rerank.kind": self.rerank.kind == "llm",
        }
        return tuple(name for name, used in uses.items() if used)


class BudgetSettings(SettingsModel):
    """What models may cost in a day or a month of UTC, in the currency of the prices."""

    per: Literal["total", "tenant", "project", "session"] = "total"  # projects and sessions by tenant
    name: str | None = Field(default=None, min_length=1)  # of the only one that is meant; None: each
    window: Literal["day", "month"] = "month"
    warn_at: float | None = Field(default=None, ge=0)  # said once a window
    stop_at: float | None = Field(default=None, ge=0)  # from then on, the language model is not called
    reported: bool = True  # whether calls that agents report count as well

    @model_validator(mode="after")
    def _require_limits(self) -> BudgetSettings:
        if self.warn_at is None and self.stop_at is None:
            raise ValueError("a budget needs warn_at, stop_at, or both")
        if self.warn_at is not None and self.stop_at is not None and self.warn_at > self.stop_at:
            raise ValueError(f"warn_at ({self.warn_at:g}) must be at most stop_at ({self.stop_at:g})")
        if self.name is not None and self.per == "total":
            raise ValueError("a total has no name: remove name, or set per")
        return self


class ModelPrice(SettingsModel):
    """What a model costs that agents report calls of without their cost."""

    model: str = Field(min_length=1)
    price_per_million_input_tokens: float = Field(default=0.0, ge=0)
    price_per_million_output_tokens: float = Field(default=0.0, ge=0)


class CostSettings(SettingsModel):
    """What models may cost, and how what agents report is recorded."""

    budgets: tuple[BudgetSettings, ...] = ()
    prices: tuple[ModelPrice, ...] = ()
    keep_texts: bool = False  # whether reported prompts and responses are kept, without their secrets


StoreName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class FederatedStore(SettingsModel):
    """One of the stores, by the project that it belongs to."""

    name: StoreName  # in reports: "store:NAME"
    path: Path  # the project's knowledge.yaml, or its folder


class FederationSettings(SettingsModel):
    """Which stores, and how long each may take."""

    stores: tuple[FederatedStore, ...] = Field(default=(), max_length=100)
    timeout_s: float = Field(default=10.0, gt=0)  # of each step, for each store; then answers do without it

    @model_validator(mode="after")
    def _require_unique_names(self) -> FederationSettings:
        names = [store.name for store in self.stores]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two stores have the name {twice!r}: names must be unique")
        return self


class LimitSettings(SettingsModel):
    """What one question may cost. `query.limits` refuses what asks for more.

    The smallest values are what interfaces ask for by default, so that no setting refuses those.
    """

    query_chars: int = Field(default=4_000, ge=100)  # of a question
    example_chars: int = Field(default=20_000, ge=100)  # of a text to be similar to, or a snippet
    task_chars: int = Field(default=200_000, ge=100)
    task_files: int = Field(default=20, ge=1)  # that context is built for
    name_chars: int = Field(default=1_000, ge=100)  # of a filter's value, a path, a target of the code graph
    id_chars: int = Field(default=4_000, ge=500)
    filter_values: int = Field(default=200, ge=10)  # of all filters of a question, those in its text included
    filter_patterns: int = Field(default=20, ge=5)  # of them, those that are compared with each row
    filter_chars: int = Field(default=5_000, ge=200)  # of all of them together
    results: int = Field(default=100, ge=20)
    context_tokens: int = Field(default=1_000_000, ge=1_000)
    graph_nodes: int = Field(default=1_000, ge=100)  # in addition to the target
    graph_depth: int = Field(default=10, ge=5)  # steps from the target


Owner = Annotated[str, Field(pattern=r"^(team:[\w-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]  # as Dagster takes them
SourceT = TypeVar("SourceT", bound=SourceTemplate)
_MAX_NAMED = 50  # sources in a message


def _find_source_content(source: SourceConfig) -> Content:
    return source.content_type or find_content(source.type)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """When files were changed last; settings that say the same are equal, whenever they were read."""

    parts: tuple[int, ...] = field(default=(), compare=False)


class Settings(VariableModel):
    """The whole of `knowledge.yaml`."""

    version: Literal[1] = 1
    store: Annotated[Path | ObjectStore, FolderOrUrl()] = Path(".knowledge")
    store_options: StoreOptions = StoreOptions.defaults()
    store_folder: Path | None = None  # None: .knowledge; of an object store, what stays on this machine
    embedding: EmbeddingSettings = EmbeddingSettings()
    embedding_by_content: EmbeddingByContent = EmbeddingByContent.defaults()
    chunking: ChunkingByContent = ChunkingByContent.defaults()
    language_model: LanguageModelSettings | None = None
    costs: CostSettings = CostSettings.defaults()
    vector_index: VectorIndexSettings = VectorIndexSettings.defaults()
    query: QuerySettings = QuerySettings.defaults()
    retrieval: RetrievalSettings = RetrievalSettings.defaults()
    limits: LimitSettings = LimitSettings.defaults()
    context: operation.ContextSettings = operation.ContextSettings.defaults()
    releases: operation.ReleaseSettings = operation.ReleaseSettings.defaults()
    owners: tuple[Owner, ...] = ()  # of the assets
    schedules: operation.ScheduleSettings = operation.ScheduleSettings.defaults()
    checks: operation.CheckSettings = operation.CheckSettings.defaults()
    alerts: operation.AlertSettings = operation.AlertSettings.defaults()
    events: operation.EventSettings = operation.EventSettings.defaults()
    evaluation: operation.EvaluationSettings = operation.EvaluationSettings.defaults()
    tuning: operation.TuningSettings = operation.TuningSettings.defaults()
    sql_models: operation.SqlModelSettings = operation.SqlModelSettings.defaults()
    logs: operation.LogSettings = operation.LogSettings.defaults()
    serve: operation.ServeSettings = operation.ServeSettings.defaults()
    federation: FederationSettings = FederationSettings.defaults()
    sources: tuple[SourceConfig, ...] = ()  # as declared; as `config.file` loads them, of organisations too
    organisations: tuple[OrganisationSettings, ...] = ()
    _unlisted: tuple[str, ...] = PrivateAttr(default=())
    _stamp: _Stamp = PrivateAttr(default=_Stamp())

    @model_validator(mode="after")
    def _check_organisations(self) -> Settings:
        ids = sorted(organisation.id for organisation in self.organisations)
        if both := next((source.id for source in self.sources if source.id in ids), None):
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
    def _apply_chunking(self) -> Settings:
        object.__setattr__(self, "sources", self._complete_chunking(self.sources))
        for organisation in self.organisations:  # their sources are completed as they are listed
            self._complete_chunking(organisation.sources)
        return self

    def _complete_chunking(self, sources: Iterable[SourceT]) -> tuple[SourceT, ...]:
        completed: list[SourceT] = []
        for source in sources:
            try:
                chunking = self.chunking.complete(source)
            except ValueError as error:
                name = source.id if isinstance(source, SourceConfig) else source.type
                raise ValueError(f"chunking of {name!r} with that of the file: {error}") from None
            is_complete = chunking == source.chunking
            completed.append(source if is_complete else source.model_copy(update={"chunking": chunking}))
        return tuple(completed)

    @model_validator(mode="after")
    def _require_fitting_vectors(self) -> Settings:
        """Those of models of this machine, which have fewer dimensions at times, are known as they embed."""
        for embedding in self.list_embeddings() if self.vector_index.sub_vectors else ():
            try:
                if embedding.provider != "local":
                    self.vector_index.require_divisor(embedding.dimensions or 0)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _apply_retrieval(self) -> Settings:
        tokens, context = self.retrieval.max_context_tokens, self.context
        if tokens is not None:
            if context.max_tokens != tokens and "max_tokens" in context.model_fields_set:
                raise ValueError(
                    "retrieval.max_context_tokens and context.max_tokens are one setting: remove one of them"
                )
            object.__setattr__(self, "context", context.model_copy(update={"max_tokens": tokens}))
        sizes = self.retrieval.model_dump(include={"default_k", "rerank_k"}, exclude_none=True)
        depths: dict[str, SearchDepth] = {}
        for name, depth in self.query.depth if sizes else ():
            unset = {key: size for key, size in sizes.items() if getattr(depth, key) is None}
            depths[name] = depth.model_copy(update=unset)
        if depths:
            depth = self.query.depth.model_copy(update=depths)
            object.__setattr__(self, "query", self.query.model_copy(update={"depth": depth}))
        return self

    @model_validator(mode="after")
    def _apply_store_options(self) -> Settings:
        object.__setattr__(self, "store", self.with_store_options(self.store))
        return self

    def with_store_options(self, store: Path | ObjectStore) -> Path | ObjectStore:
        """A store with these settings' options and local folder; raises ValueError if it takes none."""
        has_options = self.store_options != StoreOptions.defaults()
        if not isinstance(store, ObjectStore):
            if has_options or self.store_folder:
                raise ValueError("store_options and store_folder belong to a store at a URL, not to a folder")
            return store
        if has_options and store.scheme != "s3":
            raise ValueError("store_options apply to s3:// only; the environment configures gs:// and az://")
        options = self.store_options if has_options else store.options
        return store.model_copy(update={"options": options, "folder": self.store_folder or store.folder})

    @model_validator(mode="after")
    def _require_what_costs_need(self) -> Settings:
        uses = self.query.list_language_model_keys()
        if uses and self.language_model is None:
            raise ValueError(
                f"{' and '.join(uses)} needs a language model: add language_model, or switch it off"
            )
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
                is_common = results == self.retrieval.default_k
                key = "retrieval.default_k" if is_common else f"query.depth.{name}.default_k"
                raise ValueError(f"{key} ({results}) must be at most limits.results ({self.limits.results})")
        tokens, allowed = self.context.max_tokens, self.limits.context_tokens
        if tokens > allowed:
            is_common = self.retrieval.max_context_tokens is not None
            key = "retrieval.max_context_tokens" if is_common else "context.max_tokens"
            raise ValueError(f"{key} ({tokens}) must be at most limits.context_tokens ({allowed})")
        return self

    def with_members(self, sources: Sequence[SourceConfig], unlisted: Sequence[str]) -> Settings:
        """These settings with the sources of organisations, and the ids of those that are not listed yet."""
        of_members = self._complete_chunking(sources)
        settings = self.model_copy(update={"sources": (*self.sources, *of_members)})
        settings._unlisted = tuple(unlisted)
        return settings

    @property
    def unlisted_organisations(self) -> tuple[str, ...]:
        """Those whose members are not known here: what is stored of them must not be taken for removed."""
        return self._unlisted

    def find_undeclared(self, stored: Iterable[str]) -> frozenset[str]:
        """Sources that no entry declares any more; not those of an organisation that is not listed yet."""
        declared, prefixes = {source.id for source in self.sources}, tuple(f"{it}-" for it in self._unlisted)
        return frozenset(id for id in stored if id not in declared and not id.startswith(prefixes))

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

    def select_sources(self, ids: Iterable[str], *, or_types: bool = False) -> list[SourceConfig]:
        """Configured sources by id, or all of a type; without any, all. Raises NotFound: there is none."""
        by_id = {source.id: source for source in self.sources}
        selected: dict[str, SourceConfig] = {}
        for name in list(ids) or by_id:
            of_type = [source for source in self.sources if or_types and source.type == read_word(name)]
            matches = [by_id[name]] if name in by_id else of_type
            if not matches:
                configured = ", ".join(islice(by_id, _MAX_NAMED))
                configured += ", ..." if len(by_id) > _MAX_NAMED else ""
                raise NotFound(f"there is no source {name!r}; configured sources: {configured or 'none'}")
            selected |= {source.id: source for source in matches}
        return list(selected.values())

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


def compute_settings_digests(settings: Settings, source: SourceConfig) -> dict[str, str]:
    """A hash of each kind of settings of a source, without secrets."""
    plain = source.connection.model_dump(exclude={"token", "app", "email", "settings", "wiki"})
    if isinstance(source.connection, CustomConnection):
        plain["settings"] = describe_settings(source.connection.use, source.connection.settings)
    connection = plain | ({"url": _strip_secrets(plain["url"])} if "url" in plain else {})
    own = {"type": source.type, **dump_filters(source)}
    chunking = {"chunking": source.chunking.to_json(), "metadata": source.metadata.model_dump(mode="json")}
    embedding = settings.resolve_embedding(source)
    model = embedding.model_dump(mode="json", include={"provider", "model", "dimensions"})
    kept = embedding.model_dump(mode="json", include={"document_prompt", "document_task"})
    model |= {name: value for name, value in kept.items() if value is not None}
    if embedding.provider != "local":
        endpoint = _strip_secrets(embedding.base_url)
        model |= {"place": endpoint, "max_input_tokens": embedding.max_input_tokens}
    access, tags = source.access.model_dump(mode="json", exclude={"max_age"}), source.tags  # no row has it
    read = {
        "source": {**own, "connection": connection},
        "chunking": {**chunking, "sanitize": resolve_sanitize(source).to_json()},
        "model": model,
        "access": {"access": access, "tags": tags, "connection": connection},
    }
    # `str` shows paths as they are, and secrets as stars, also those whose variables are not set.
    written = {name: json.dumps(values, sort_keys=True, default=str) for name, values in read.items()}
    return {name: hash_strings(text)[:16] for name, text in written.items()}


def _strip_secrets(url: str) -> str:
    """Host, port and path of an address; the other parts may hold a token."""
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


URL_VARIABLE = "KNOWLEDGE_DAGSTER_URL"


def build_run_url(run_id: str) -> str | None:
    """The page of a run; None where the environment does not say where the UI is."""
    base = os.environ.get(URL_VARIABLE, "").rstrip("/")
    return f"{base}/runs/{run_id}" if base else None
