"""How current the sources of an answer are, by what refreshes, and looks at origins, wrote.

What is told of a source depends on its declaration and on what was written of it as a whole, never on what
of it the caller may not see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.base import SourceFreshness
from knowledge_pipeline.contract.describe import describe_doubt, describe_freshness
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphResponse, RelationsResponse, SearchResponse
from knowledge_pipeline.freshness import FreshnessReader, SourceRecord
from knowledge_pipeline.query.access import Access, Audiences, may_see_source, sees_whole_source
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.times import parse_max_age

Answer = SearchResponse | GraphResponse | RelationsResponse
ResponseT = TypeVar("ResponseT", SearchResponse, GraphResponse, RelationsResponse)
MAX_OBSTACLES = 20  # sources of an answer that found nothing
_NEVER = "it was not indexed yet"


@dataclass(frozen=True, slots=True)
class FreshnessRequest:
    """How new the sources of an answer should be (`15m`), and where the answer is looked for.

    Raises `InvalidQuery`: `max_age` is no span.
    """

    max_age: str | None = None
    scope: Filters = field(default_factory=Filters)
    span: timedelta | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.max_age:
            object.__setattr__(self, "span", parse_max_age(self.max_age))

    def includes(self, source: SourceConfig) -> bool:
        """Whether the answer is looked for there."""
        ids, types = self.scope.sources, self.scope.source_types
        return source.id in (ids or (source.id,)) and source.type in (types or (source.type,))


class Freshness:
    """What is written of the sources of some stores. For one event loop.

    Args:
        index: whose live release answers.
        lakes: by what the names of their tables begin with in a release; "" for a single store.
        audiences: of a single store.
    """

    def __init__(self, index: Index, lakes: Mapping[str, Lake], audiences: Audiences | None) -> None:
        self._index, self._audiences = index, audiences
        self._readers = {prefix: FreshnessReader(lake) for prefix, lake in lakes.items()}

    async def annotate(
        self, response: ResponseT, declared: Sequence[SourceConfig], access: Access, request: FreshnessRequest
    ) -> ResponseT:
        """The response with how current its sources are, and a note of what is wrong with them."""
        sources = _list_drawn_sources(response)
        in_vain = not sources or (isinstance(response, SearchResponse) and bool(describe_doubt(response)))
        freshness, note = await self.describe(sources, declared, access, request, in_vain=in_vain)
        return replace(response, freshness=freshness, notes=(*response.notes, *([note] if note else [])))

    async def describe(
        self,
        drawn: Collection[str],
        declared: Sequence[SourceConfig],
        access: Access,
        request: FreshnessRequest,
        *,
        in_vain: bool,
    ) -> tuple[tuple[SourceFreshness, ...], str]:
        """How current the sources are that an answer draws on, and in one line what is wrong with them.

        What is written is read where it has changed. `in_vain`: as well of the others that were searched,
        those of which something is missing in the index.
        """
        for reader in self._readers.values():
            if not reader.is_current:
                await asyncio.to_thread(reader.read)
        release, by_id = (await self._index.open_release()).release, {it.id: it for it in declared}
        searched = (it.id for it in declared if may_see_source(it.access, access) and request.includes(it))
        sources = dict.fromkeys((*drawn, *(searched if in_vain else ())))
        stored = await self._audiences.list_stored() if self._audiences and in_vain else None
        guarded = {it for it in sources if it in by_id and by_id[it].access.visibility == "from_source"}
        times = dict[str, datetime]()
        if self._audiences and guarded:
            read_at = await self._audiences.list_permission_times()
            times = {source: at for source, at in read_at.items() if source in guarded}
        now, described = datetime.now(UTC), list[SourceFreshness]()
        for source in sources:
            it = self._describe(source, release, by_id.get(source), access, now)
            it = replace(it, permissions_at=times.get(source))
            if request.span is not None and (it.as_of is None or now - it.as_of > request.span):
                it = replace(it, too_old=True)
            if stored is not None and source not in (*drawn, *stored) and not it.failing_since:
                it = replace(it, problem=_NEVER)
            is_partial = bool(it.skipped) or it.embedded_share not in (None, 1.0)
            if source in drawn or it.failing_since or it.problem or it.too_old or is_partial:
                described.append(it)
        freshness = tuple(described[: len(drawn) + MAX_OBSTACLES])
        return freshness, describe_freshness(freshness, now=now, max_age=request.max_age, in_vain=in_vain)

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
                tables = release.tables.items()
                return record, {it.removeprefix(prefix): at for it, at in tables if it.startswith(prefix)}
        return SourceRecord(), {}


def _to_time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _list_drawn_sources(response: Answer) -> list[str]:
    """The sources that a response draws on, in its order."""
    if isinstance(response, SearchResponse):
        sources: Iterable[str | None] = (result.citation.source for result in response.results)
    elif isinstance(response, GraphResponse):
        sources = (node.source for node in (*response.nodes, *response.candidates))
    else:
        others = (relation.document for relation in response.relations)
        sources = (document.source for document in (*response.documents, *others))
    return list(dict.fromkeys(source for source in sources if source))
