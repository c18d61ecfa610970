"""What a caller may see: by the released rows, the configuration of now, and the permissions of sources.

Every function that reads content takes an `Access`; the filter that `build_visibility_filter` makes of it is
part of the condition that the store evaluates.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from knowledge_pipeline.config import file
from knowledge_pipeline.config.model import read_word
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import MAX_PERMISSION_AGE, AccessSettings, SourceConfig
from knowledge_pipeline.contract.usage_labels import UsageLabels, merge_labels
from knowledge_pipeline.errors import (
    ConfigError,
    Forbidden,
    InvalidQuery,
    KnowledgeError,
    NotFound,
    StoreUnavailable,
)
from knowledge_pipeline.llm.model_calls import NO_ACCOUNT, UsageAccount, current_account
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.access import (
    AUDIENCE_PREFIX,
    Requirements,
    build_audience_principal,
    fold_principal,
    is_member,
    read_audiences,
    read_permissions_time,
)
from knowledge_pipeline.store.filters import Filter, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp
from knowledge_pipeline.store.listings import ListingRefresh
from knowledge_pipeline.store.reconcile import find_differing_sources
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.tables import Table, split_batches
from knowledge_pipeline.times import parse_age


@dataclass(frozen=True, slots=True)
class Caller:
    """The interface and the token of a query, as the log has them."""

    interface: str = "python"  # "cli", "http", "mcp", "page"
    token: str | None = None  # its id; None: no token
    is_logged: bool = True  # False: this is a part of an answer that is logged as a whole
    labels: UsageLabels = field(default_factory=UsageLabels)  # for the logs and the budgets alone


@dataclass(frozen=True, slots=True)
class Access:
    """A caller's tenant and principals; a row's own `visibility` decides whether they see it.

    Equal ones see the same rows, whoever calls.

    Raises:
        ValueError: a name is empty, names an audience of a source, or has a character that the store would
            drop, so that it could pass for another name.
    """

    tenant: str | None
    principals: frozenset[str]
    everything: bool = False
    withheld_sources: frozenset[str] = frozenset()  # whatever their rows say; see `DeclaredSources.narrow`
    audiences: frozenset[str] = frozenset()  # of sources, that the caller belongs to; see `Audiences.add`
    audience_sources: frozenset[str] = frozenset()  # seen by audience alone, whatever else their rows say
    withheld_documents: frozenset[tuple[str, str]] = frozenset()  # of those: source and uri
    outdated_sources: frozenset[str] = frozenset()  # withheld for old permissions, by which the caller reads
    only_tenant: str | None = None  # of what is seen, what is of this tenant or public; None: all
    caller: Caller = field(default=Caller(), compare=False)

    def __post_init__(self) -> None:
        for name in (*self.principals, *([] if self.tenant is None else [self.tenant])):
            storable = name.encode(errors="ignore").decode()  # without halves of surrogate pairs
            if not name or "\x00" in name or name != storable or name.startswith(AUDIENCE_PREFIX):
                raise ValueError(f"{name!r} cannot name a tenant or a principal")

    @classmethod
    def operator(cls, interface: str = "python") -> Access:
        """Sees every row, as anybody can who reads the store's files."""
        return cls(tenant=None, principals=frozenset(), everything=True, caller=Caller(interface))

    @property
    def unlogged(self) -> Access:
        """The same, for a part of an answer: a request has one row in the log."""
        return replace(self, caller=replace(self.caller, is_logged=False))

    @classmethod
    def public(cls) -> Access:
        """Sees public rows only."""
        return cls(tenant=None, principals=frozenset())

    def within_tenant(self, tenant: str | None) -> Access:
        """The same, of which only what is of a tenant or public is seen; None: all. Nobody sees more by it.

        Raises `InvalidQuery`: nothing can have that name.
        """
        if tenant is None:
            return self
        try:
            return replace(self, only_tenant=Access(tenant, frozenset()).tenant)
        except ValueError as error:
            raise InvalidQuery(f"org_id: {error}") from None

    def with_labels(self, labels: UsageLabels) -> Access:
        """The same, with these labels before those that the caller has; nobody sees more by labels."""
        if labels == _NO_LABELS:
            return self
        merged = merge_labels(labels, self.caller.labels)
        return replace(self, caller=replace(self.caller, labels=merged))

    def with_current_labels(self) -> Access:
        """The same, with the labels of `on_behalf_of` around the call, where the caller has none."""
        if (account := current_account.get()) == NO_ACCOUNT:
            return self
        return replace(self, caller=replace(self.caller, labels=merge_labels(self.caller.labels, account)))

    @property
    def account(self) -> UsageAccount:
        """On whose account calls of models for this caller go; see `on_behalf_of`."""
        labels, current = self.caller.labels, current_account.get()
        return UsageAccount(
            labels.session or current.session,
            labels.project or current.project,
            labels.on_behalf_of or current.on_behalf_of,
            self.tenant,
            self.caller.token,
        )


_NO_LABELS = UsageLabels()


def build_visibility_filter(access: Access) -> Filter:
    """Public rows, rows of the caller's tenant, and private rows of one of theirs; none withheld."""
    if access.only_tenant is not None:
        of_tenant = filters.eq("visibility", "public") | filters.eq("tenant", access.only_tenant)
        return build_visibility_filter(replace(access, only_tenant=None)) & of_tenant
    if access.everything:
        return filters.MATCH_ALL
    visible = filters.eq("visibility", "public")
    if access.tenant is not None:
        visible |= filters.eq("visibility", "tenant") & filters.eq("tenant", access.tenant)
    principals = sorted(access.principals | access.audiences)
    if access.tenant is not None and principals:
        private = filters.eq("visibility", "private") & filters.eq("tenant", access.tenant)
        visible |= private & filters.has_any("principals", principals)
    if access.withheld_sources:
        visible &= ~filters.one_of("source", sorted(access.withheld_sources))
    if access.audience_sources:  # of these, what is of one of the caller's audiences, and not withheld
        seen = filters.has_any("principals", sorted(access.audiences))
        for source in sorted({source for source, _ in access.withheld_documents}):
            uris = sorted(uri for of, uri in access.withheld_documents if of == source)
            seen &= ~(filters.eq("source", source) & filters.one_of("uri", uris))
        visible &= ~filters.one_of("source", sorted(access.audience_sources)) | seen
    return visible


_log = logging.getLogger(__name__)

_parse_age = cache(parse_age)  # for each source of each question
_DEFAULT_AGE = parse_age(MAX_PERMISSION_AGE)

_POLL_INTERVAL_S = 1.0  # on an object store, where every look is a request
_MAX_PAUSE_S = 0.5  # on a disk, between two looks at the tables of so many sources that each takes long
_PAUSE = 8  # times as long as the look before it
_SHORT_LOOK_S = 0.002  # is done for each question, and takes less than handing it to a thread
_MAX_WITHHELD = 1_000  # documents of one source; beyond, the whole source is
_SOURCES_AT_ONCE = 128  # whose released rows are read together: a look at an index for each takes longer

_TypedSource = tuple[str, str]  # type and id
_Stamps = Mapping[_TypedSource, tuple[VersionStamp, VersionStamp]]  # of its audiences, of its snapshot


@dataclass(frozen=True, slots=True)
class _State:
    """What was read, and what it was read of."""

    stamps: _Stamps
    release: Release | None
    indexes: Mapping[str, Any]  # by space: those, opened
    by_source: Mapping[_TypedSource, Mapping[str, Requirements]]
    withheld: Mapping[str, frozenset[str]]  # uris by source
    read_at: Mapping[_TypedSource, datetime | None]  # since when permissions are as they are here
    by_principals: dict[frozenset[str], frozenset[str]] = field(
        default_factory=dict[frozenset[str], frozenset[str]]
    )

    def find_audiences(self, principals: frozenset[str]) -> frozenset[str]:
        """Those that a caller of these principals belongs to."""
        if (names := self.by_principals.get(principals)) is None:
            folded = frozenset(map(fold_principal, principals))
            every = (audience for audiences in self.by_source.values() for audience in audiences.items())
            names = frozenset(name for name, requires in every if is_member(folded, requires))
            self.by_principals[principals] = names
        return names


class Audiences:
    """The audiences of a store, as its sources' permissions were last read; used on one event loop.

    Memberships are read beside the release, at their newest: a rollback or a refused release keeps none.
    Where a released row names another audience than its document has now, the document is withheld from
    everybody who sees it by audience, until a release has the row of now.
    """

    def __init__(self, lake: Lake, index: Index) -> None:
        self._lake, self._index = lake, index
        self._looking = asyncio.Lock()
        self._look_s = 0.0  # of the processor, that the last look took
        self._next_look_at = float("-inf")
        self._state = _State({}, None, {}, {}, {}, {})
        self._stored: tuple[object, frozenset[str]] = (None, frozenset())  # of a release

    async def list_stored(self) -> frozenset[str]:
        """Every source that may have rows in the live release, declared or not; listed once a release.

        Raises `StoreUnavailable`: the folders cannot be listed, so nobody can tell what to withhold.
        """
        try:
            release = (await self._index.open_release()).release
        except (KnowledgeError, OSError):
            return self._stored[1]  # the question meets the same, or the store of a federation is left out
        if self._stored[0] != release:
            try:
                sources = await asyncio.to_thread(self._lake.list_stored_sources)
            except OSError as error:
                raise StoreUnavailable(f"the sources in the store cannot be listed: {error}") from error
            self._stored = release, frozenset(sources)
        return self._stored[1]

    async def add(self, access: Access, max_ages: Mapping[_TypedSource, timedelta]) -> Access:
        """The access with the audiences of the caller, and what is withheld from it.

        That are also the sources whose permissions were read longer ago than `max_ages` allows, of those that
        are seen by audience alone.

        Where the permissions cannot be read, the caller belongs to none, and the log tells.
        """
        if access.everything or access.tenant is None:
            return access
        try:
            state = await self._load_state()
        except (KnowledgeError, OSError, ValueError) as error:
            _log.warning("nobody sees anything by a source's permissions, which cannot be read: %s", error)
            return access
        withheld = {source: state.withheld.get(source, frozenset()) for source in access.audience_sources}
        too_many = frozenset(source for source, uris in withheld.items() if len(uris) > _MAX_WITHHELD)
        audiences = state.find_audiences(access.principals)
        now = datetime.now(UTC)
        outdated = frozenset(
            source
            for (type_, source), max_age in max_ages.items()
            if source in access.audience_sources
            and (
                now - at > max_age if (at := state.read_at.get((type_, source))) else max_age != _DEFAULT_AGE
            )
        )
        documents = (
            (source, uri) for source in withheld.keys() - too_many - outdated for uri in withheld[source]
        )
        return replace(
            access,
            audiences=audiences,
            withheld_sources=access.withheld_sources | too_many | outdated,
            audience_sources=access.audience_sources - too_many - outdated,
            withheld_documents=frozenset(documents),
            outdated_sources=frozenset(
                source
                for type_, source in max_ages
                if source in outdated
                and any(it.startswith(build_audience_principal(type_, source, "")) for it in audiences)
            ),
        )

    async def list_permission_times(self) -> Mapping[str, datetime]:
        """When the permissions of each source that has its own were last read, where that is known.

        By the look of the question itself, or of the last seconds, as nothing is decided by it.
        """
        if time.monotonic() > self._next_look_at + _POLL_INTERVAL_S:
            with suppress(
                KnowledgeError, OSError, ValueError
            ):  # what cannot be read opens nothing: see `add`
                await self._load_state()
        return {source: at for (_, source), at in self._state.read_at.items() if at}

    async def _load_state(self) -> _State:
        async with self._looking:  # one look serves all questions that wait for it
            if time.monotonic() < self._next_look_at:
                return self._state
            is_short = self._lake.is_local and self._look_s < _SHORT_LOOK_S
            stamps = self._read_stamps() if is_short else await asyncio.to_thread(self._read_stamps)
            release: Release | None = None
            if stamps:
                with suppress(NotFound):  # there is nothing to withhold
                    release = (await self._index.open_release()).release
            if stamps != self._state.stamps or release != self._state.release:
                self._state = await asyncio.to_thread(self._read_state, stamps, release)
            pause_s = 0.0 if self._look_s < _SHORT_LOOK_S else min(_PAUSE * self._look_s, _MAX_PAUSE_S)
            pause_s = pause_s if self._lake.is_local else _POLL_INTERVAL_S
            self._next_look_at = time.monotonic() + pause_s  # nobody sees for longer what is taken away
            return self._state

    def _read_stamps(self) -> _Stamps:
        started = time.thread_time()
        stamps = self._lake.list_audience_stamps()
        self._look_s = time.thread_time() - started
        return stamps

    def _read_state(self, stamps: _Stamps, release: Release | None) -> _State:
        """What differs from the state before is read; a refresh writes a few sources of many."""
        before, tables = self._state, dict(release.tables) if release else dict[str, int]()
        by_source = {
            source: before.by_source[source]
            if source in before.stamps and before.stamps[source][0] == stamp
            else read_audiences(self._lake, *source)
            for source, (stamp, _) in stamps.items()
        }
        read_at = {
            source: before.read_at[source]
            if source in before.stamps and before.stamps[source][0] == stamp
            else read_permissions_time(self._lake.audiences(*source))
            for source, (stamp, _) in stamps.items()
        }
        spaces = self._lake.list_spaces()
        indexes = {space: self._lake.index(space, spaces[space]) for space in tables.keys() & spaces.keys()}
        opened = {space: index.open_version(tables[space]) for space, index in indexes.items()}
        types: defaultdict[str, list[str]] = defaultdict(list)  # by source; several, where it had others
        for source_type, source in stamps:
            types[source].append(source_type)
        changed = self._find_changed_sources(stamps, opened)
        stale = [source for source in types if changed is None or source in changed]
        withheld = {source: before.withheld.get(source, frozenset()) for source in types}
        for sources in split_batches(stale, _SOURCES_AT_ONCE):
            released = _read_released_audiences(indexes, tables, sources)
            for source in sources:
                withheld[source] = self._find_withheld(types[source], source, released[source])
        return _State(stamps, release, opened, by_source, withheld, read_at)

    def _find_changed_sources(self, stamps: _Stamps, indexes: Mapping[str, Any]) -> set[str] | None:
        """Sources of which a document or a released row may be another one; None: all."""
        before, absent = self._state, (None, object())
        if indexes.keys() != before.indexes.keys():
            return None
        changed = {
            source[1]
            for source in stamps.keys() | before.stamps.keys()
            if stamps.get(source, absent)[1] != before.stamps.get(source, absent)[1]
        }
        for space, now in indexes.items():
            sources = find_differing_sources(before.indexes[space], now)
            if sources is None:
                return None
            changed |= sources
        return changed

    def _find_withheld(
        self, source_types: Sequence[str], source: str, released: Mapping[str, set[str]]
    ) -> frozenset[str]:
        """Documents of which a released row names another audience than theirs."""
        current: defaultdict[str, set[str]] = defaultdict(set)
        for source_type in source_types:
            snapshot = self._lake.snapshot(source_type, source)
            rows = snapshot.read_rows(["uri", "audience"], ~is_null("audience")).to_pydict()
            for uri, audience in zip(rows["uri"], rows["audience"], strict=True):
                current[uri].add(build_audience_principal(source_type, source, audience))
        return frozenset(uri for uri, names in released.items() if names - current[uri])


def _read_released_audiences(
    indexes: Mapping[str, Table], tables: Mapping[str, int], sources: Sequence[str]
) -> Mapping[str, Mapping[str, set[str]]]:
    """The audiences that the released rows of some sources name, by source and uri."""
    released: dict[str, defaultdict[str, set[str]]] = {source: defaultdict(set) for source in sources}
    columns, where = ["source", "uri", "principals"], one_of("source", sources)
    for space, index in indexes.items():
        for batch in index.iter_batches(columns, where, version=tables[space]):
            rows = batch.to_pydict()
            for source, uri, principals in zip(*(rows[name] for name in columns), strict=True):
                names = (name for name in principals if name.startswith(AUDIENCE_PREFIX))
                released[source][uri].update(names)
    return released


class DeclaredSources:
    """The sources of one file, read again when it changes: who may see which, and who manages which.

    A row says who may see it as the configuration was when the row was written. Where the configuration is
    stricter now, it decides, before any refresh and after a rollback; where it is wider, the row does.

    A caller who sees everything manages all sources. A tenant's caller manages those of the tenant, and can
    only have them refreshed: whoever declares a source names files, addresses and secrets of the server.
    Threads may share it.

    Args:
        config_path: the knowledge.yaml; None: there is none, and nothing changes.
        declared: its sources when it was last read.
    """

    def __init__(self, config_path: Path | None, declared: tuple[SourceConfig, ...] = ()) -> None:
        self._config_path = config_path
        self._declared = declared
        self._loaded: Settings | None = None
        self._listings = ListingRefresh()
        self._warned_of = ""
        self._undeclared: tuple[object, object, frozenset[str]] = (None, None, frozenset())

    @property
    def path(self) -> Path:
        """The file. Raises `ConfigError` where the server has none."""
        if self._config_path is None:
            raise ConfigError("this server was started without a knowledge.yaml: it declares no sources")
        return self._config_path

    def sources(self) -> tuple[SourceConfig, ...]:
        """All of them, secrets aside. Raises `ConfigError`: there is no file, or it is wrong."""
        loaded, path = self._loaded, self.path
        if loaded:
            self._listings.fetch_if_due(loaded, in_background=True)
        stamp = file.read_stamp(path, loaded or Settings())
        if not stamp:
            raise ConfigError("the server's knowledge.yaml cannot be read")
        if loaded is None or loaded.stamp != stamp:
            self._loaded = file.load_settings(path)
            self._declared = self._loaded.sources
        return self._declared

    def narrow(self, access: Access, stored: frozenset[str] = frozenset()) -> Access:
        """The access without the sources that are declared to be seen by others alone.

        Of those that are `stored`, what the file does not declare is withheld too: who could see it was said
        by an entry that is gone. While the file is wrong, what it said last counts, and the log tells.
        """
        if access.everything:
            return access
        sources = self.list_known()
        withheld = frozenset(source.id for source in sources if not _is_for(source.access, access))
        withheld |= self._find_undeclared(stored)
        by_audience = frozenset(
            source.id
            for source in sources
            if source.access.visibility == "from_source"
            and access.principals.isdisjoint(source.access.principals)
        )
        return replace(access, withheld_sources=withheld, audience_sources=by_audience - withheld)

    def _find_undeclared(self, stored: frozenset[str]) -> frozenset[str]:
        if self._config_path is None:
            return frozenset()  # a program says what there is
        if (loaded := self._loaded) is None:  # the file became wrong before it was read
            return stored - {source.id for source in self._declared}
        if self._undeclared[0] is not loaded or self._undeclared[1] is not stored:
            self._undeclared = loaded, stored, loaded.find_undeclared(stored)
        return self._undeclared[2]

    def list_known(self) -> tuple[SourceConfig, ...]:
        """As `sources`; while the file is wrong, what it said last, and the log tells."""
        if self._config_path is None:
            return self._declared
        try:
            return self.sources()
        except ConfigError as error:
            if self._warned_of != str(error):
                self._warned_of = str(error)
                _log.warning("access is decided by the configuration as it was last read: %s", error)
            return self._declared

    def list_permission_ages(self) -> Mapping[tuple[str, str], timedelta]:
        """How old the permissions may be of sources that have their own, by type and id."""
        return {
            (source.type, source.id): _parse_age(source.access.max_age)
            for source in self.list_known()
            if source.access.visibility == "from_source"
        }

    def list_managed(self, access: Access) -> tuple[SourceConfig, ...]:
        """Those that a caller may have refreshed; raises as `sources` does."""
        if access.everything:
            return self.sources()
        return tuple(
            source for source in self.sources() if access.tenant and source.access.tenant == access.tenant
        )

    def find_managed(self, access: Access, name: str) -> tuple[SourceConfig, ...]:
        """The one of an id, else all of a type, of those that a caller manages.

        Raises `NotFound`: there is none; `ConfigError`: see `sources`.
        """
        managed = self.list_managed(access)
        matches = [source for source in managed if source.id == name]
        matches = matches or [source for source in managed if source.type == read_word(name)]
        if not matches:
            raise NotFound(f"there is no source, and no type with a source, called {name[:200]!r}")
        return tuple(matches)


def require_manage_all(access: Access) -> None:
    """Raise `Forbidden` unless a caller may declare and remove sources."""
    if not access.everything:
        raise Forbidden("sources are declared and removed with a token that sees everything: `--everything`")


def may_see_source(declared: AccessSettings, access: Access) -> bool:
    """Whether a caller may know that there is such a source, though perhaps not all that it has."""
    return access.everything or _is_for(declared, access)


def sees_whole_source(declared: AccessSettings, access: Access) -> bool:
    """Whether a caller may know what concerns all documents of a source."""
    by_document = declared.visibility == "from_source" and access.principals.isdisjoint(declared.principals)
    return access.everything or (_is_for(declared, access) and not by_document)


def _is_for(declared: AccessSettings, access: Access) -> bool:
    """Whether a source is declared for a caller; the same rule as `build_visibility_filter` for rows."""
    if declared.visibility == "public":
        return True
    is_of_tenant = access.tenant is not None and access.tenant == declared.tenant
    return is_of_tenant and (
        declared.visibility in ("tenant", "from_source")  # of the latter, each document has its audience
        or not access.principals.isdisjoint(declared.principals)
    )
