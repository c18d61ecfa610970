"""The resources that assets open: what `knowledge.yaml` says, the tables that it names, the live release."""

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from cachetools import LRUCache
from pydantic import Field

from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.listings import ListingRefresh, load_shared_settings

if TYPE_CHECKING:
    from knowledge_pipeline.knowledge_base import KnowledgeBase


class ProjectResource(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]  # it has no value but itself
    """One `knowledge.yaml` and its store. An edited file is read again, without a reload."""

    config_path: str = Field(
        default="",
        description="Path of knowledge.yaml; if empty, KNOWLEDGE_CONFIG, or the nearest file upwards.",
    )
    max_retries: int = Field(default=3, ge=0, description="Retries of a transient failure.")
    retry_delay_s: float = Field(
        default=15.0, ge=0, description="Seconds before the first retry; each further one doubles them."
    )
    pools: bool = Field(
        default=True,
        description="Whether a step claims slots in Dagster's pools; off where no monitor frees them.",
    )

    @property
    def names(self) -> Names:
        """How what Dagster knows of it is named."""
        return PLAIN

    @property
    def path(self) -> Path:
        """The file in use; raises ConfigError if there is none."""
        return Path(self.config_path) if self.config_path else file.find_config(Path.cwd())

    def load_settings(self) -> Settings:
        """The settings of the file now, read again only after a change: 2,000 sources take a second."""
        path, override = self.path, not self.names.prefix
        settings, _, listings = _loaded.get((path, override), (None, None, ListingRefresh()))
        if settings:
            listings.fetch_if_due(settings)
        if settings is None or settings.stamp != file.read_stamp(path, settings):
            settings = load_shared_settings(path, override=override)
            _loaded[path, override] = settings, Lake(settings.store), listings
        return settings

    def open_lake(self) -> Lake:
        """The store; opens no table."""
        return Lake(self.load_settings().store)

    def retry_policy(self) -> dg.RetryPolicy:
        """How often to retry a transient failure, and after how long."""
        backoff, jitter, delay = dg.Backoff.EXPONENTIAL, dg.Jitter.PLUS_MINUS, self.retry_delay_s
        return dg.RetryPolicy(max_retries=self.max_retries, delay=delay, backoff=backoff, jitter=jitter)


class KnowledgeBaseResource(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]
    """The live release of a store, for assets that ask it questions; `build_defs` provides one."""

    config_path: str = Field(
        default="",
        description="Path of knowledge.yaml; if empty, KNOWLEDGE_CONFIG, or the nearest file upwards.",
    )

    def open(self) -> "KnowledgeBase":
        """What `KnowledgeBase.open` returns, and raises: use it in a `with`."""
        from knowledge_pipeline.knowledge_base import KnowledgeBase

        return KnowledgeBase.open(self.locate())

    def locate(self) -> Settings | str:
        """What is opened."""
        return self.config_path or "."


_loaded = LRUCache[tuple[Path, bool], tuple[Settings, Lake, ListingRefresh]](8)
"""Knowledge bases of one code location; while its lake is here, what was read of a store is not forgotten."""


def build_project(settings: Settings | Path | str | None, names: Names) -> ProjectResource:
    """The resource of one knowledge base: of a file, which it reads again after an edit, or of settings.

    Where neither is given, the file is found as the command line finds it. KNOWLEDGE_STORE and
    KNOWLEDGE_EMBEDDING_MODE apply only to names without a prefix: two knowledge bases have two stores.
    """

    class NamedProject(
        ProjectResource
    ):  # Dagster makes new ones of the class: it has what is no configuration
        @property
        def names(self) -> Names:
            return names

    if not isinstance(settings, Settings):
        return NamedProject(config_path=str(Path(settings).absolute()) if settings else "")

    class GivenProject(NamedProject):
        def load_settings(self) -> Settings:
            return settings

    return GivenProject()


def build_knowledge_base(project: ProjectResource) -> KnowledgeBaseResource:
    """The resource that opens the store of a project, by the settings that the project has at that time."""

    class ProjectKnowledgeBase(KnowledgeBaseResource):
        def locate(self) -> Settings:
            return project.load_settings()

    return ProjectKnowledgeBase()
