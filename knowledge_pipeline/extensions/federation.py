"""The live releases of several stores as one.

A store that cannot be asked is left out, and every answer says so: its name and the reason are in `missing`.
It is asked again after a few seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import FederatedStore, Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.contract.operation import StatusResponse
from knowledge_pipeline.errors import ConfigError, KnowledgeError, NotFound, StoreError, StoreUnavailable
from knowledge_pipeline.query.access import Access, Audiences, DeclaredSources
from knowledge_pipeline.query.open_release import RETRY_UNREADABLE_S, LiveIndex, OpenRelease
from knowledge_pipeline.query.status import read_status
from knowledge_pipeline.store.federation import FederatedGraphReader, FederatedReader, StoreUnreadable
from knowledge_pipeline.store.graph import GraphReader
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.search import IndexReader, SpaceUnreadable


@dataclass(frozen=True, slots=True)
class MemberStore:
    """One store, and who may see what of it: its own knowledge.yaml and permissions decide."""

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
        settings = file.load_settings(config, override=False)
        if settings.federation.stores:
            raise ConfigError(f"{config} is a federation itself: name its stores instead")
        if isinstance(settings.store, ObjectStore):
            _ = settings.store.storage_options  # raises where a secret of it is not set
        lake = Lake(settings.store)
        index = LiveIndex(lake)
        declared = DeclaredSources(config, settings.sources)
        return cls(store.name, settings, lake, index, declared, Audiences(lake, index))

    def list_sources(self) -> tuple[SourceConfig, ...]:
        """Its sources, each with the models that embed it."""
        sources, resolve = self.settings.sources, self.settings.resolve_embedding
        return tuple(source.model_copy(update={"embedding": resolve(source)}) for source in sources)


@dataclass(frozen=True, slots=True)
class MemberStores:
    """All stores of a federation whose settings can be read, and why those of others cannot."""

    opened: Sequence[MemberStore]
    problems: Mapping[str, str]  # by store

    @classmethod
    def open(cls, stores: Sequence[FederatedStore]) -> MemberStores:
        """The stores. Raises `ConfigError`: two of them have a source in common, or none can be used."""
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
        for member in self.opened:
            if any(declared.id == source for declared in member.declared.list_known()):
                return member.lake
        raise NotFound(f"no store of the federation declares the source {source!r} now")

    async def resolve_access(self, access: Access) -> Access:
        """What a caller may see, as each store decides of its own sources now: none is of two stores."""
        if access.everything:
            return access
        self._require_distinct_sources()
        seen = [
            await member.audiences.add(
                member.declared.narrow(access, await member.audiences.list_stored()),
                member.declared.list_permission_ages(),
            )
            for member in self.opened
        ]
        return replace(
            access,
            withheld_sources=frozenset().union(*(part.withheld_sources for part in seen)),
            audiences=frozenset().union(*(part.audiences for part in seen)),
            audience_sources=frozenset().union(*(part.audience_sources for part in seen)),
            withheld_documents=frozenset().union(*(part.withheld_documents for part in seen)),
            outdated_sources=frozenset().union(*(part.outdated_sources for part in seen)),
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


ResultT = TypeVar("ResultT")

_READ_ERRORS = (KnowledgeError, OSError, RuntimeError, ValueError)


class _DownStores:
    """Stores that are left out for a while, and why."""

    def __init__(self) -> None:
        self._until: dict[str, tuple[str, float]] = {}

    def mark(self, name: str, reason: str) -> None:
        """Leave a store out for some seconds."""
        self._until[name] = reason, time.monotonic() + RETRY_UNREADABLE_S

    def find_reason(self, name: str) -> str | None:
        """Why a store is left out now; None if it is not."""
        reason, until_s = self._until.get(name, ("", 0.0))
        return reason if time.monotonic() < until_s else None


@dataclass(slots=True)
class FederatedRelease(OpenRelease):
    """The open release of each store that can be asked."""

    members: Mapping[str, OpenRelease] = field(default_factory=dict[str, OpenRelease])  # by store
    timeout_s: float = 10.0
    down: _DownStores = field(default_factory=_DownStores)
    problems: dict[str, str] = field(default_factory=dict[str, str])  # store -> why it is left out
    _united: dict[tuple[tuple[str, int], ...], FederatedReader] = field(
        default_factory=dict[tuple[tuple[str, int], ...], FederatedReader]
    )  # by the store of each reader, and its identity

    @property
    def missing(self) -> Mapping[str, Any]:
        """See `OpenRelease.missing`."""
        damaged = {key: value for member in self.members.values() for key, value in member.missing.items()}
        return damaged | {f"store:{name}": reason for name, reason in sorted(self.problems.items())}

    async def open_readers(self) -> tuple[IndexReader, ...]:
        """A reader for each space of the stores that can be read."""
        return (await self.open_readable_readers())[0]

    async def open_readable_readers(self) -> tuple[tuple[IndexReader, ...], Mapping[str, SpaceUnreadable]]:
        """The same; what cannot be read is in `missing`. Raises `StoreUnavailable`: no store can be read."""
        by_store = await asyncio.gather(*(self._open_store(name) for name in self.members))
        by_space: dict[str, dict[str, IndexReader]] = {}
        for name, readers in zip(self.members, by_store, strict=True):
            for reader in readers:
                by_space.setdefault(reader.space, {})[name] = reader
        if not by_space and self.problems:
            raise _build_unavailable(self.problems)
        readers = tuple(self._unite(by_space[space]) for space in sorted(by_space))
        return readers, {}

    async def mark_unreadable(self, error: SpaceUnreadable) -> None:
        """Do without a store that cannot be read, and try it again after a while.

        Raises `SpaceUnreadable`: it can be read; only this question's condition cannot be evaluated.
        """
        if not isinstance(error, StoreUnreadable):
            raise error
        if not error.is_late:
            await self.members[error.store].mark_unreadable(error)
        self.down.mark(error.store, str(error))

    async def open_graph_reader(self) -> GraphReader | None:
        """The code graphs of all stores; None if none has one."""
        opened: dict[str, GraphReader] = {}
        for name, member in self.members.items():
            try:
                async with asyncio.timeout(self.timeout_s):
                    reader = await member.open_graph_reader()
            except (StoreError, TimeoutError) as error:
                self.problems[name] = str(error) or "its code graph did not open in time"
                continue
            if reader is not None:
                opened[name] = reader
        if self._graph is None and opened:
            self._graph = FederatedGraphReader.unite(opened)
        return self._graph

    async def _open_store(self, name: str) -> Sequence[IndexReader]:
        reason = self.down.find_reason(name)
        if reason is None:
            try:
                async with asyncio.timeout(self.timeout_s):
                    readers, unreadable = await self.members[name].open_readable_readers()
            except (SpaceUnreadable, TimeoutError) as error:
                reason = str(error) or f"it did not open within {self.timeout_s:g} s"
                self.down.mark(name, reason)
            else:
                if unreadable:
                    self.problems[name] = str(next(iter(unreadable.values())))
                else:
                    self.problems.pop(name, None)
                return readers
        self.problems[name] = reason
        return ()

    def _unite(self, members: Mapping[str, IndexReader]) -> FederatedReader:
        key = tuple((name, id(reader)) for name, reader in members.items())
        if key not in self._united:
            self._united[key] = FederatedReader.unite(members, timeout_s=self.timeout_s)
        return self._united[key]


class FederatedIndex:
    """The live release of each store, opened at once. For one event loop."""

    def __init__(self, lake: Lake, members: MemberStores, *, timeout_s: float) -> None:
        self._lake, self._members, self._timeout_s = lake, members, timeout_s
        self._down = _DownStores()
        self._opened: FederatedRelease | None = None

    async def open_release(self) -> FederatedRelease:
        """The live releases; the same object until a store has another.

        Raises `NotFound`: no store has released anything yet; `StoreUnavailable`: none can be read.
        """
        outcomes = await asyncio.gather(*map(self._open_member, self._members.opened))
        by_name = dict(zip((member.name for member in self._members.opened), outcomes, strict=True))
        opened = {name: outcome for name, outcome in by_name.items() if isinstance(outcome, OpenRelease)}
        problems = {name: outcome for name, outcome in by_name.items() if isinstance(outcome, str)}
        problems |= self._members.problems
        if not opened:
            raise _build_unavailable(problems)
        current = self._opened
        if current and [*map(id, current.members.values())] == [*map(id, opened.values())]:
            return current
        release = unite_releases({name: member.release for name, member in opened.items()})
        self._opened = FederatedRelease(
            release, self._lake, members=opened, timeout_s=self._timeout_s, down=self._down, problems=problems
        )
        return self._opened

    async def ask(self, operation: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """The result of an operation, which is done again without a store that fails.

        Raises:
            StoreUnavailable: nothing was found, and a store that may have it cannot be asked.
            KnowledgeError: what the operation raises.
        """
        while True:
            try:
                return await operation()
            except StoreUnreadable as error:
                await (await self.open_release()).mark_unreadable(error)
            except NotFound as error:
                if missing := (await self.open_release()).problems:
                    stores = ", ".join(sorted(missing))
                    problem = f"{error}; it may be in a store that cannot be asked now: {stores}"
                    raise StoreUnavailable(problem) from error
                raise

    async def prewarm(self) -> None:
        """Read the indexes of all stores into memory; raises as `open_release`."""
        for reader in await (await self.open_release()).open_readers():
            await reader.prewarm()

    async def _open_member(self, member: MemberStore) -> OpenRelease | str:
        if reason := self._down.find_reason(member.name):
            return reason
        try:
            async with asyncio.timeout(self._timeout_s):
                return await member.index.open_release()
        except NotFound as error:
            return str(error)
        except TimeoutError:
            reason = f"it did not answer within {self._timeout_s:g} s"
        except _READ_ERRORS as error:
            reason = str(error) if isinstance(error, KnowledgeError) else "its releases cannot be read"
        self._down.mark(member.name, reason)
        return reason


def _build_unavailable(problems: Mapping[str, str]) -> KnowledgeError:
    reasons = "; ".join(f"store {name}: {reason}" for name, reason in sorted(problems.items()))
    if all("nothing is released" in reason for reason in problems.values()):
        return NotFound(f"no store has released anything yet ({reasons})")
    return StoreUnavailable(f"no store can be asked ({reasons})")


def unite_releases(releases: Mapping[str, Release]) -> Release:
    """The releases of all stores as one; its number is the sum of theirs, and grows with each.

    The weights that `knowledge tune` learned are used where all stores have the same.
    """
    every = list(releases.values())
    rankers = {release.ranker for release in every}
    return Release(
        release=sum(release.release for release in every),
        created_at=max(release.created_at for release in every),
        tables={f"{name}/{s}": v for name, release in releases.items() for s, v in release.tables.items()},
        rows=sum(release.rows for release in every),
        graph={f"{name}/{t}": v for name, release in releases.items() for t, v in release.graph.items()},
        unembedded=sum(release.unembedded for release in every),
        stamps={f"{name}/{t}": s for name, release in releases.items() for t, s in release.stamps.items()},
        ranker=rankers.pop() if len(rankers) == 1 else None,
    )


async def read_federation_status(members: MemberStores, access: Access) -> StatusResponse:
    """Count the rows that the caller may see, of the stores that can be read.

    Raises `StoreUnavailable`: none can be.
    """
    statuses = await asyncio.gather(*(_read_status(member, access) for member in members.opened))
    read = [status for status in statuses if status is not None]
    if not read:
        raise StoreUnavailable("no store of the federation can be read: `knowledge doctor` in one says why")
    return StatusResponse(
        release=sum(status.release for status in read),
        released_at=max(status.released_at for status in read),
        rows=sum(status.rows for status in read),
        by_source=_add_up(status.by_source for status in read),
        by_type=_add_up(status.by_type for status in read),
        by_space=_add_up(status.by_space for status in read),
        unembedded_rows=_add_up(status.unembedded_rows for status in read),
        unindexed_rows=_add_up(status.unindexed_rows for status in read),
        restores=None,
        pinned_since=None,
        pin="; ".join(status.pin for status in read if status.pin) or None,
    )


async def _read_status(member: MemberStore, access: Access) -> StatusResponse | None:
    try:
        return await read_status(member.settings, member.lake, member.index, access)
    except (KnowledgeError, OSError):
        return None


def _add_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items()))
