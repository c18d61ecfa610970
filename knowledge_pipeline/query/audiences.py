"""Which audiences of sources a caller belongs to, as the sources' permissions were last read.

Memberships are read beside the release, at their newest: a rollback or a refused release keeps none. Where a
released row names another audience than its document has now, the document is withheld from everybody who
sees it by audience, until a release has the row of now.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.store.audiences import (
    AUDIENCE_PREFIX,
    Requirements,
    build_audience_principal,
    fold_principal,
    is_member,
    read_audiences,
)
from knowledge_pipeline.store.filters import eq, is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp

_log = logging.getLogger(__name__)

_POLL_INTERVAL_S = 1.0  # on an object store, where every look is a request
_MAX_PAUSE_S = 0.5  # on a disk, between two looks at the tables of so many sources that each takes long
_PAUSE = 8  # times as long as the look before it
_SHORT_LOOK_S = 0.002  # is done for each question, and takes less than handing it to a thread
_MAX_WITHHELD = 1_000  # documents of one source; beyond, the whole source is

_Stamps = Mapping[tuple[str, str], tuple[VersionStamp, VersionStamp]]


@dataclass(frozen=True, slots=True)
class _State:
    """What was read, and what it was read of."""

    stamps: _Stamps = field(default_factory=dict[tuple[str, str], tuple[VersionStamp, VersionStamp]])
    tables: Mapping[str, int] = field(default_factory=dict[str, int])  # of the release
    audiences: Mapping[str, Requirements] = field(default_factory=dict[str, Requirements])
    withheld: Mapping[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]]
    )  # uris by source
    by_principals: dict[frozenset[str], frozenset[str]] = field(
        default_factory=dict[frozenset[str], frozenset[str]]
    )


class Audiences:
    """The audiences of a store; used on one event loop."""

    def __init__(self, lake: Lake, index: Index) -> None:
        self._lake, self._index = lake, index
        self._looking = asyncio.Lock()
        self._look_s = 0.0  # of the processor, that the last look took
        self._next_look_at = float("-inf")
        self._state = _State()

    async def add(self, access: Access) -> Access:
        """The access with the audiences of the caller, and what is withheld from it.

        Where the permissions cannot be read, the caller belongs to none, and the log tells.
        """
        if access.everything or access.tenant is None:
            return access
        try:
            state = await self._load_state()
        except (KnowledgeError, OSError, ValueError) as error:
            _log.warning("nobody sees anything by a source's permissions, which cannot be read: %s", error)
            return access
        found = state.by_principals.get(access.principals)
        if found is None:
            principals = frozenset(map(fold_principal, access.principals))
            found = frozenset(name for name, needs in state.audiences.items() if is_member(principals, needs))
            state.by_principals[access.principals] = found
        withheld = {source: state.withheld.get(source, frozenset()) for source in access.audience_sources}
        too_many = frozenset(source for source, uris in withheld.items() if len(uris) > _MAX_WITHHELD)
        documents = ((source, uri) for source in withheld.keys() - too_many for uri in withheld[source])
        return replace(
            access,
            audiences=found,
            withheld_sources=access.withheld_sources | too_many,
            audience_sources=access.audience_sources - too_many,
            withheld_documents=frozenset(documents),
        )

    async def _load_state(self) -> _State:
        async with self._looking:  # one look serves all questions that wait for it
            if time.monotonic() < self._next_look_at:
                return self._state
            is_short = self._lake.is_local and self._look_s < _SHORT_LOOK_S
            stamps = self._read_stamps() if is_short else await asyncio.to_thread(self._read_stamps)
            tables: Mapping[str, int] = {}
            if stamps:
                try:
                    tables = (await self._index.open_release()).release.tables
                except NotFound:
                    tables = {}  # there is nothing to withhold
            if stamps != self._state.stamps or dict(tables) != dict(self._state.tables):
                self._state = await asyncio.to_thread(self._read_state, stamps, tables)
            self._next_look_at = time.monotonic() + self._choose_pause_s()
            return self._state

    def _choose_pause_s(self) -> float:
        """Until the next look: nobody sees for longer what a source has taken away."""
        if not self._lake.is_local:
            return _POLL_INTERVAL_S
        return 0.0 if self._look_s < _SHORT_LOOK_S else min(_PAUSE * self._look_s, _MAX_PAUSE_S)

    def _read_stamps(self) -> _Stamps:
        started = time.thread_time()
        found = self._lake.list_audience_stamps()
        stamps = {each: (stamp, self._lake.snapshot(*each).version_stamp) for each, stamp in found.items()}
        self._look_s = time.thread_time() - started
        return stamps

    def _read_state(self, stamps: _Stamps, tables: Mapping[str, int]) -> _State:
        audiences: dict[str, Requirements] = {}
        for source_type, source in stamps:
            audiences |= read_audiences(self._lake, source_type, source)
        types: defaultdict[str, list[str]] = defaultdict(list)  # by source; several, where it had others
        for source_type, source in stamps:
            types[source].append(source_type)
        withheld = {source: self._find_withheld(each, source, tables) for source, each in types.items()}
        return _State(stamps, dict(tables), audiences, withheld)

    def _find_withheld(
        self, source_types: Sequence[str], source: str, tables: Mapping[str, int]
    ) -> frozenset[str]:
        """Documents of which a released row names another audience than theirs."""
        current: defaultdict[str, set[str]] = defaultdict(set)
        for source_type in source_types:
            snapshot = self._lake.snapshot(source_type, source)
            rows = snapshot.read_rows(["uri", "audience"], ~is_null("audience")).to_pydict()
            for uri, audience in zip(rows["uri"], rows["audience"], strict=True):
                current[uri].add(build_audience_principal(source_type, source, audience))
        released: defaultdict[str, set[str]] = defaultdict(set)
        dimensions = self._lake.list_spaces()
        for space in tables.keys() & dimensions.keys():
            table, where = self._lake.index(space, dimensions[space]), eq("source", source)
            found = table.read_rows(["uri", "principals"], where, version=tables[space]).to_pydict()
            for uri, principals in zip(found["uri"], found["principals"], strict=True):
                released[uri].update(name for name in principals if name.startswith(AUDIENCE_PREFIX))
        return frozenset(uri for uri, names in released.items() if names - current[uri])
