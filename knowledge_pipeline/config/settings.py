"""The whole of `knowledge.yaml` as frozen, validated settings.

Only shapes and rules live here; `config.file` reads and checks the file, `config.edit` edits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, model_validator

from knowledge_pipeline.config.costs import CostSettings
from knowledge_pipeline.config.embedding import Content, EmbeddingByContent, EmbeddingSettings, find_content
from knowledge_pipeline.config.federation import FederationSettings
from knowledge_pipeline.config.limits import LimitSettings
from knowledge_pipeline.config.model import SettingsModel
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
    SqlModelSettings,
    TuningSettings,
)
from knowledge_pipeline.config.organisations.organisation import OrganisationSettings
from knowledge_pipeline.config.query import LanguageModelSettings, QuerySettings
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.config.store import FolderOrUrl, ObjectStore, StoreOptions
from knowledge_pipeline.errors import NotFound

Owner = Annotated[str, Field(pattern=r"^(team:[\w-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]  # as Dagster takes them
_MAX_NAMED = 50  # sources in a message


def _find_source_content(source: SourceConfig) -> Content:
    return source.content_type or find_content(source.type)


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
