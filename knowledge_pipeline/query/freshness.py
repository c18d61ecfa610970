"""How current the sources of an answer are, by what refreshes, and looks at origins, wrote.

What is told of a source depends on its declaration and on what was written of it as a whole, never on what
of it the caller may not see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.base import SourceFreshness
from knowledge_pipeline.contract.responses import GraphResponse, RelationsResponse, SearchResponse
from knowledge_pipeline.freshness import FreshnessReader, SourceRecord
from knowledge_pipeline.query.access import Access, sees_whole_source
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release

MAX_OBSTACLES = 20  # sources of an answer that found nothing
_NEVER = "it was not indexed yet"
_NO_TIMES: Mapping[str, datetime] = MappingProxyType({})


class Freshness:
    """What is written of the sources of some stores. For one event loop."""

    def __init__(self, lakes: Mapping[str, Lake]) -> None:
        """`lakes`: by what the names of their tables begin with in a release; "" for a single store."""
        self._readers = {prefix: FreshnessReader(lake) for prefix, lake in lakes.items()}

    async def describe(
        self,
        release: Release,
        drawn: Collection[str],
        declared: Mapping[str, SourceConfig],
        access: Access,
        max_age: timedelta | None,
        searched: Iterable[str] = (),
        stored: Collection[str] | None = None,
        permission_times: Mapping[str, datetime] = _NO_TIMES,
    ) -> tuple[SourceFreshness, ...]:
        """How current the sources are that an answer draws on; what is written is read where it has changed.

        Of those that were `searched` in vain, the ones of which something is missing in the index. `stored`:
        those that were ever read; None: not known. `permission_times`: of those with permissions of their
        own.
        """
        for reader in self._readers.values():
            if not reader.is_current:
                await asyncio.to_thread(reader.read)
        now, described = datetime.now(UTC), list[SourceFreshness]()
        for source in dict.fromkeys((*drawn, *searched)):
            it = self._describe(source, release, declared.get(source), access, now)
            it = replace(it, permissions_at=permission_times.get(source))
            if max_age is not None and (it.as_of is None or now - it.as_of > max_age):
                it = replace(it, too_old=True)
            if stored is not None and source not in (*drawn, *stored) and not it.failing_since:
                it = replace(it, problem=_NEVER)
            is_partial = bool(it.skipped) or it.embedded_share not in (None, 1.0)
            if source in drawn or it.failing_since or it.problem or it.too_old or is_partial:
                described.append(it)
        return tuple(described[: len(drawn) + MAX_OBSTACLES])

    def _describe(
        self, source: str, release: Release, declared: SourceConfig | None, access: Access, now: datetime
    ) -> SourceFreshness:
        record, tables = self._find(source, release)
        is_whole = access.everything or (declared is not None and sees_whole_source(declared.access, access))
        freshness = SourceFreshness(
            source=source,
            failing_since=_to_time(record.failed_since),
            problem=record.problem or None if is_whole else None,
        )
        if (state := record.find_live(tables)) is None:
            return freshness
        indexed, newest, since = state.indexed, state.newest, _to_time(state.behind_since)
        return replace(
            freshness,
            revision=indexed.revision,
            as_of=_to_time(state.as_of),
            looked_at=newest and _to_time(newest.last_at),
            origin_revision=newest and newest.commit,
            commits_behind=state.commits_behind,
            behind_since=since,
            minutes_behind=None if since is None else int((now - since).total_seconds() // 60),
            embedded_share=round(indexed.embedded_share, 4) if is_whole else None,
            skipped=dict(indexed.skipped) or None if is_whole else None,
        )

    def _find(self, source: str, release: Release) -> tuple[SourceRecord, Mapping[str, int]]:
        for prefix, reader in self._readers.items():
            if record := reader.records.get(source):
                versions = {it: at for it, at in release.tables.items() if it.startswith(prefix)}
                return record, {name.removeprefix(prefix): version for name, version in versions.items()}
        return SourceRecord(), {}


def _to_time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def list_drawn_sources(response: SearchResponse | GraphResponse | RelationsResponse) -> list[str]:
    """The sources that a response draws on, in its order."""
    if isinstance(response, SearchResponse):
        sources: Iterable[str | None] = (result.citation.source for result in response.results)
    elif isinstance(response, GraphResponse):
        sources = (node.source for node in (*response.nodes, *response.candidates))
    else:
        others = (relation.document for relation in response.relations)
        sources = (document.source for document in (*response.documents, *others))
    return list(dict.fromkeys(source for source in sources if source))
