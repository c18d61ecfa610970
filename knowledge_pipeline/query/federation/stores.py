"""The stores of a federation: their projects' settings, and what a caller may see in each.

Each store decides by its own knowledge.yaml and its own permissions. As no two have a source in common, what
they decide is one `Access`, which holds for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knowledge_pipeline.config import file
from knowledge_pipeline.config.federation import FederatedStore
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.config.store import is_resolved
from knowledge_pipeline.errors import ConfigError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.audiences import Audiences
from knowledge_pipeline.query.declared_sources import DeclaredSources
from knowledge_pipeline.query.open_release import LiveIndex
from knowledge_pipeline.store.lake import Lake


@dataclass(frozen=True, slots=True)
class MemberStore:
    """One store, and who may see what of it."""

    name: str
    settings: Settings
    lake: Lake
    index: LiveIndex
    declared: DeclaredSources
    audiences: Audiences

    @classmethod
    def open(cls, store: FederatedStore) -> MemberStore:
        """The store of a project. Raises `ConfigError` if its knowledge.yaml cannot be used."""
        config = store.path / file.CONFIG_NAME if store.path.is_dir() else store.path
        settings = file.load_settings(config, allow_unset=True, override=False)
        if settings.federation.stores:
            raise ConfigError(f"{config} is a federation itself: name its stores instead")
        if not is_resolved(settings.store):
            raise ConfigError(f"{config} reads its store with variables that are not set: set them")
        return cls._build(store.name, settings, config)

    @classmethod
    def _build(cls, name: str, settings: Settings, config: Path) -> MemberStore:
        lake = Lake(settings.store)
        index = LiveIndex(lake)
        declared = DeclaredSources(config, settings.sources)
        return cls(name, settings, lake, index, declared, Audiences(lake, index))

    def list_sources(self) -> tuple[SourceConfig, ...]:
        """Its sources, each with the models that embed it."""
        resolve = self.settings.resolve_embedding
        return tuple(each.model_copy(update={"embedding": resolve(each)}) for each in self.settings.sources)


@dataclass(frozen=True, slots=True)
class MemberStores:
    """All stores of a federation whose settings can be read, and why those of others cannot."""

    opened: Sequence[MemberStore]
    problems: Mapping[str, str]  # by store

    @classmethod
    def open(cls, stores: Sequence[FederatedStore]) -> MemberStores:
        """The stores.

        Raises:
            ConfigError: two of them have a source in common, or none can be used.
        """
        opened: list[MemberStore] = []
        problems: dict[str, str] = {}
        for store in stores:
            try:
                opened.append(MemberStore.open(store))
            except ConfigError as error:
                problems[store.name] = str(error)
        if not opened:
            raise ConfigError("; ".join(f"store {name}: {problem}" for name, problem in problems.items()))
        members = cls(opened, problems)
        members._require_distinct_sources()
        return members

    def unite_settings(self, settings: Settings) -> Settings:
        """The federation's settings, with the sources of all stores."""
        sources = tuple(source for member in self.opened for source in member.list_sources())
        return settings.model_copy(update={"sources": sources})

    def find_lake(self, source: str) -> Lake:
        """The store that has a source. Raises `NotFound` if none does."""
        for each in self.opened:
            if any(known.id == source for known in each.declared.list_known()):
                return each.lake
        raise NotFound(f"no store of the federation declares the source {source!r} now")

    async def resolve_access(self, access: Access) -> Access:
        """What a caller may see, as each store decides of its own sources now."""
        if access.everything:
            return access
        self._require_distinct_sources()
        seen = [await each.audiences.add(each.declared.narrow(access)) for each in self.opened]
        return replace(
            access,
            withheld_sources=frozenset().union(*(each.withheld_sources for each in seen)),
            audiences=frozenset().union(*(each.audiences for each in seen)),
            audience_sources=frozenset().union(*(each.audience_sources for each in seen)),
            withheld_documents=frozenset().union(*(each.withheld_documents for each in seen)),
        )

    def _require_distinct_sources(self) -> None:
        """What one store says of a source must not count for another's: raises `ConfigError`."""
        owners: dict[str, str] = {}
        for member in self.opened:
            for source in member.declared.list_known():
                owner = owners.setdefault(source.id, member.name)
                if owner != member.name:
                    raise ConfigError(
                        f"the stores {owner!r} and {member.name!r} both have a source {source.id!r}: "
                        "rename one, because results name their source"
                    )
