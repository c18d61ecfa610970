"""The health of a knowledge base and its watchers, its sources and their states, and how it is used."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from collections.abc import Collection as Container
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from cachetools import TTLCache

from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings, build_run_url
from knowledge_pipeline.config.sources import AccessSettings
from knowledge_pipeline.contract import operation
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access, sees_whole_source
from knowledge_pipeline.query.status import check_store
from knowledge_pipeline.serve.refresh_history import choose_error, list_last_events
from knowledge_pipeline.sql_models.configured_sources import build_configured_sources, load_source_states
from knowledge_pipeline.store.file_cache import Kind
from knowledge_pipeline.store.filters import Filter, at_least, eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.progress import list_watchers

CACHE_TTL_S = 5.0  # more frequent requests put no more load on the components

ResultT = TypeVar("ResultT")


class HealthCheck:
    """Checks one knowledge base, once for all who ask within `CACHE_TTL_S`."""

    def __init__(self, base: AsyncKnowledgeBase) -> None:
        self._base = base
        self.check = _Cached(self._check_all).get  # the state of every component, and of the whole
        self.check_store = _Cached(self._check_store).get  # whether a release is there and can be read

    async def _check_all(self) -> operation.HealthResponse:
        components = await self._base.health()
        unhealthy = {name for name, component in components.items() if component.status == "unhealthy"}
        status = "unhealthy" if "store" in unhealthy else "degraded" if unhealthy else "ok"
        return operation.HealthResponse(status, components)

    async def _check_store(self) -> operation.ComponentHealth:
        # In a thread: the first check loads the store's library, and other requests wait for this loop.
        return await asyncio.to_thread(asyncio.run, check_store(self._base.open_index()))


class _Cached(Generic[ResultT]):
    """A result that is computed again when it is older than `CACHE_TTL_S`, by one of those who ask."""

    def __init__(self, compute: Callable[[], Awaitable[ResultT]]) -> None:
        self._compute = compute
        self._lock = asyncio.Lock()
        self._latest: tuple[float, ResultT] | None = None

    async def get(self) -> ResultT:
        async with self._lock:
            if self._latest is None or time.monotonic() - self._latest[0] > CACHE_TTL_S:
                result = await self._compute()
                self._latest = time.monotonic(), result
            return self._latest[1]


def check_watchers(folder: Path, *, with_counts: bool) -> operation.WatcherHealthResponse:
    """How the watchers of a store are, by its local folder; counts of sources are not for anybody."""
    reports = list_watchers(folder)
    problems = [report.problem for report in reports if report.problem]
    if not reports:
        status, detail = "absent", "no watcher runs on this store: start `knowledge watch` on this machine"
    elif problems:
        status, detail = "unhealthy", f"a watcher is unhealthy: {problems[0]}"
    else:
        behind = sum(len(report.heartbeat.behind) for report in reports)
        status, detail = "ok", f"{len(reports)} running"
        detail += f", {behind} sources behind" if with_counts else ""
    watchers: list[operation.WatcherHealth] = []
    for report in reports:
        beat, error_at = report.heartbeat, report.heartbeat.last_error_at
        watcher = operation.WatcherHealth(
            status="unhealthy" if report.problem else "ok",
            state=beat.state,
            started_at=datetime.fromtimestamp(beat.started_at, UTC),
            looked_at=datetime.fromtimestamp(beat.looked_at, UTC),
            sources=beat.sources if with_counts else None,
            behind=len(beat.behind) if with_counts else None,
            last_error_at=datetime.fromtimestamp(error_at, UTC) if error_at else None,
            detail=report.problem,
        )
        watchers.append(watcher)
    return operation.WatcherHealthResponse(status, detail, tuple(watchers))


_log = logging.getLogger(__name__)

_KEPT_S = 60.0  # ages are in tenths of hours

_States = tuple[Mapping[str, operation.SourceState], Mapping[str, AccessSettings]]
"""By source: its state, and who may see it, of those that are configured."""


class SourceStates:
    """The states of the sources of one store, kept while nothing is written.

    `config` is the knowledge.yaml that the settings are from, which may have changed since.
    """

    def __init__(self, settings: Settings, config: Path | None) -> None:
        self.lake = Lake(settings.store)
        self._settings, self._config = settings, config
        self._recent = TTLCache[Hashable, _States, float](maxsize=8, ttl=_KEPT_S)

    async def load(self, access: Access) -> Mapping[str, operation.SourceState]:
        """Those of sources that the caller may see whole; empty, and the log says why, on an error.

        Whether one is stale is what the SQL model `stale_sources` says.
        What something costs is for callers of a tenant. How the code has changed is not known to a server.
        """
        if self._settings.federation.stores:
            return {}  # each store has its own log
        try:
            states, declared = await asyncio.to_thread(self._load_with_events)
        except (KnowledgeError, OSError) as error:
            _log.warning("whether sources are stale is not known: %s", error)
            return {}
        if access.everything:
            return states

        def may_see(id: str) -> bool:
            return id in declared and sees_whole_source(declared[id], access)

        def show(state: operation.SourceState) -> operation.SourceState:
            event = state.last_event
            event = event and replace(event, error=choose_error(event, access, may_see))
            return replace(state, last_event=event, cost=state.cost if access.tenant else None)

        return {id_: show(state) for id_, state in states.items() if may_see(id_)}

    def _load_with_events(self) -> _States:
        states, declared = self._load()
        events: dict[str, operation.LastEvent] = {}
        for event in list_last_events(self.lake.folder):
            source, at = event.pop("source"), datetime.fromisoformat(event.pop("at"))
            events[source] = operation.LastEvent(at=at, **event)
        return {id_: replace(state, last_event=events.get(id_)) for id_, state in states.items()}, declared

    def _load(self) -> _States:
        lake, settings, config = self.lake, self._settings, self._config
        stamps = [open_log(lake, name).version_stamp for name in ("refreshes", "llm_calls")]
        written = config.stat().st_mtime_ns if config and config.exists() else None
        key = written, *stamps, *sorted(lake.all_version_stamps().items())
        if (recent := self._recent.get(key)) is not None:
            return recent
        if config:
            with suppress(ConfigError):  # while the file is wrong, what it said at the start counts
                settings = file.load_settings(config)
        rows = load_source_states(lake, build_configured_sources(settings, config))
        states = {source: _to_state(row) for source, row in rows.items()}
        loaded = states, {source.id: source.access for source in settings.sources}
        self._recent[key] = loaded
        return loaded


def _to_state(row: Mapping[str, Any]) -> operation.SourceState:
    names = ("state", "reason", "age_hours", "trigger", "skipped", "skipped_reasons", "cost", "last_run")
    run = row["last_run"]
    return operation.SourceState(
        **{name: row[name] for name in names}, last_run_url=build_run_url(run) if run else None
    )


MAX_HOURS = 24 * 366

_QUERY_LOG_COLUMNS = ("type", "interface", "results", "took_ms", "cached", "degraded")
_BATCH_ROWS = 8192
_SUMMARIES = Kind[tuple[Any, operation.QueryStats]](lambda _: 1_000)  # by tenant and hours


async def list_collections(
    base: AsyncKnowledgeBase, source_states: SourceStates, access: Access
) -> operation.CollectionsResponse:
    """The sources with content that the caller may see, and whether they are stale."""
    status, lake = await base.status(access=access), source_states.lake
    types, times = await asyncio.gather(
        asyncio.to_thread(lake.list_stored_sources),
        asyncio.to_thread(_load_refresh_times, lake, status.by_source),
    )
    types |= {source.id: source.type for source in base.settings.sources}
    states = await source_states.load(access)
    collections = (
        operation.Collection(
            source,
            types.get(source, ""),
            rows,
            times.get(source),
            rows - status.unembedded_rows.get(source, 0),
            states.get(source),
        )
        for source, rows in status.by_source.items()
    )
    return operation.CollectionsResponse(status.release, status.released_at, tuple(collections), status.pin)


async def compute_stats(
    settings: Settings, base: AsyncKnowledgeBase, access: Access, *, hours: int
) -> operation.StatsResponse:
    """How much is indexed, and recent queries: of the caller's tenant, or all for an operator."""
    status = await base.status(access=access)
    queries = None
    if settings.logs.queries and (access.everything or access.tenant):
        tenant = None if access.everything else access.tenant
        queries = await base.compute(_load_summary, Lake(settings.store), tenant, hours)
    return operation.StatsResponse(status.release, status.rows, status.by_type, hours, queries)


def _load_refresh_times(lake: Lake, sources: Container[str]) -> dict[str, datetime]:
    newest: dict[str, datetime] = {}
    rows = open_log(lake, "refreshes").read_rows(["source", "at"], eq("stage", "snapshot"))
    for row in rows.to_pylist():
        if row["source"] in sources:
            at: datetime = row["at"]
            newest[row["source"]] = max(at, newest.get(row["source"], at))
    return newest


def _load_summary(lake: Lake, tenant: str | None, hours: int) -> operation.QueryStats:
    """Of a tenant, or of all; read once for each version of the log and each minute."""
    now = datetime.now(UTC)
    where = at_least("at", now - timedelta(hours=hours))
    if tenant is not None:
        where &= eq("tenant", tenant)
    stamp = now.replace(second=0, microsecond=0), lake.log_table("queries").version_stamp
    summarize = partial(_summarize_queries, lake, where)
    return lake.files.load(_SUMMARIES, "queries", (tenant, hours), stamp, summarize)


def _summarize_queries(lake: Lake, where: Filter) -> operation.QueryStats:
    """Counts over the rows as they are streamed; of each only its time is kept, in 8 bytes."""
    zero_results, cached, degraded = 0, 0, 0
    by_type, by_interface = Counter[str](), Counter[str]()
    times = [np.empty(0)]
    batches: Any = lake.log_table("queries").iter_batches(_QUERY_LOG_COLUMNS, where, batch_rows=_BATCH_ROWS)
    for batch in batches:  # of pyarrow, whose columns have no types
        zero_results += int(np.count_nonzero(batch["results"].to_numpy() == 0))
        cached += batch["cached"].true_count
        degraded += int(np.count_nonzero(batch["degraded"].value_lengths().to_numpy()))
        for column, counts in (("type", by_type), ("interface", by_interface)):
            counts.update({row["values"]: row["counts"] for row in batch[column].value_counts().to_pylist()})
        times.append(batch["took_ms"].to_numpy())
    all_times = np.concatenate(times)
    ranks = dict.fromkeys(("p50_ms", "p95_ms", "p99_ms"))  # what so many of a hundred do not exceed
    if len(all_times):
        values = np.percentile(all_times, (50, 95, 99), method="inverted_cdf")
        ranks = dict(zip(ranks, values.round(3).tolist(), strict=True))
    return operation.QueryStats(
        count=len(all_times),
        zero_result_count=zero_results,
        degraded=degraded,
        cached=cached,
        by_type=by_type,
        by_interface=by_interface,
        **ranks,
    )
