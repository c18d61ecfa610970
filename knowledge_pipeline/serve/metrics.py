"""Metrics for Prometheus: https://prometheus.io/docs/practices/naming/.

Labels have few, known values: never a token, a tenant, a source, a path or a text. Moments are exported as
timestamps, not as ages: `time() - timestamp` is right however long ago the metrics were scraped.

Of several workers each counts in files of its own (`PROMETHEUS_MULTIPROC_DIR`), and the one that is scraped
adds up those of all.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from importlib.metadata import version
from math import inf

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.serve.observers import AnyResponse, Observer, Outcome
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline.store import release as releases
from knowledge_pipeline.store.access import read_permissions_time
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log

STORE_READ_INTERVAL_S = 10.0  # between reads of the store, however often metrics are scraped

_DURATION_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WORKERS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set by `workers.run_worker`, before the library is imported
_MAX_CLOCK_SKEW = timedelta(minutes=10)  # clocks of machines that share a store differ


class Metrics(Observer):
    """Counts queries, and exports the counts with the state of the store. Threads may share it."""

    def __init__(self, settings: Settings) -> None:
        self._registry = CollectorRegistry()  # of what this process counts
        self._scraped = self._registry
        if _WORKERS_FOLDER in os.environ:
            self._scraped = CollectorRegistry()
            MultiProcessCollector(self._scraped)
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry, multiprocess_mode="livesum")
        histogram = partial(Histogram, registry=self._registry, buckets=_DURATION_BUCKETS_S)
        self._queries_ended = counter("knowledge_queries", "Queries by outcome.", ["interface", "outcome"])
        self._queries_in_progress = gauge("knowledge_queries_in_progress", "Queries that are being answered.")
        self._queries_queued = gauge("knowledge_queries_queued", "Queries that wait for their turn.")
        cached = "Searches answered from the cache."
        self._cache_hits = counter("knowledge_search_cache_hits", cached, ["type"])
        self._degraded_answers = counter("knowledge_degraded_answers", "Answers that lack a step.", ["step"])
        self._query_duration = histogram(
            "knowledge_query_duration_seconds",
            "Time from a query to its answer, including the wait for its turn.",
            ["interface"],
        )
        self._search_duration = histogram(
            "knowledge_search_duration_seconds",
            "Time that the knowledge base took for an answer.",
            ["interface", "type"],
        )
        self._step_duration = histogram(
            "knowledge_search_step_duration_seconds", "Time that one step of an answer took.", ["step"]
        )
        ProcessCollector(registry=self._scraped)
        self._scraped.register(_StoreCollector(settings))
        build = partial(Gauge, registry=self._registry, multiprocess_mode="max")
        running = build("knowledge_build_info", "The running version.", ["version"])
        running.labels(version("knowledge-pipeline")).set(1)

    def register_refreshes(self, refreshes: RefreshQueue) -> None:
        """Export the refreshes of a server as well."""
        self._scraped.register(_FunctionCollector(partial(_collect_refreshes, refreshes)))

    def register_query_log(self, is_logging: Callable[[], bool]) -> None:
        """Export whether queries are logged, asked at each scrape."""
        self._scraped.register(_FunctionCollector(partial(_collect_query_log, is_logging)))

    def render(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the format that `Accept` prefers, and its content type; reads the store."""
        encode, content_type = choose_encoder(accept)
        return encode(self._scraped), content_type

    def on_queued(self, delta: int) -> None:
        """See `Observer`."""
        self._queries_queued.inc(delta)

    def on_running(self, delta: int) -> None:
        """See `Observer`."""
        self._queries_in_progress.inc(delta)

    def on_ended(self, caller: Caller, outcome: Outcome, took_s: float) -> None:
        """See `Observer`."""
        self._queries_ended.labels(caller.interface, outcome).inc()
        if outcome == "ok":
            self._query_duration.labels(caller.interface).observe(took_s)

    def on_answered(self, kind: str, text: str, access: Access, answer: AnyResponse) -> None:
        """See `Observer`."""
        del text
        self._search_duration.labels(access.caller.interface, kind).observe(answer.took_ms / 1000)
        for step in answer.degraded:
            self._degraded_answers.labels(step).inc()
        if isinstance(answer, SearchResponse):
            self._cache_hits.labels(kind).inc(answer.cached)
        for step, took_ms in getattr(answer, "timings_ms", {}).items():
            self._step_duration.labels(step).observe(took_ms / 1000)


class _FunctionCollector(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collect


def _collect_query_log(is_logging: Callable[[], bool]) -> Iterator[Metric]:
    sentence = "Whether the last query and refusal could be logged."
    yield GaugeMetricFamily("knowledge_query_log_up", sentence, value=float(is_logging()))


def _collect_refreshes(refreshes: RefreshQueue) -> Iterator[Metric]:
    states = [refresh.status for refresh in refreshes.list_all()]
    sentence = "Refreshes that are queued or running."
    active = GaugeMetricFamily("knowledge_refreshes_active", sentence, labels=["state"])
    for state in ("queued", "running"):
        active.add_metric([state], states.count(state))
    yield active
    sentence = "Refreshes that have finished."
    finished = CounterMetricFamily("knowledge_refreshes_finished", sentence, labels=["state"])
    for state in ("succeeded", "failed"):
        finished.add_metric([state], refreshes.finished_counts[state])
    yield finished


class _StoreCollector(Collector):
    """The live release, and when sources were last refreshed; read at most every `STORE_READ_INTERVAL_S`."""

    def __init__(self, settings: Settings) -> None:
        self._lake = Lake(settings.store)
        self._declared = {(source.id, source.type) for source in settings.sources}
        self._guarded = [(it.id, it.type) for it in settings.sources if it.access.visibility == "from_source"]
        self._refreshed_at: dict[tuple[str, str], datetime] = {}  # by source and type
        self._cached_metrics: tuple[Metric, ...] = ()
        self._last_read_s = -STORE_READ_INTERVAL_S
        self._lock = threading.Lock()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            if time.monotonic() - self._last_read_s >= STORE_READ_INTERVAL_S:
                self._cached_metrics, self._last_read_s = tuple(self._collect_store()), time.monotonic()
            return self._cached_metrics

    def _collect_store(self) -> Iterator[Metric]:
        is_up = True
        try:
            yield from (*self._collect_release(), self._collect_freshness(), self._collect_permissions())
        except (KnowledgeError, OSError, RuntimeError, ValueError):
            is_up = False
        sentence = "Whether the store could be read for these metrics."
        yield GaugeMetricFamily("knowledge_store_up", sentence, value=float(is_up))

    def _collect_permissions(self) -> Metric:
        """Of each type, the source whose own permissions were read longest ago."""
        sentence = "When the permissions of the source of a type were read, the oldest of all; 0: never."
        name = "knowledge_oldest_permissions_timestamp_seconds"
        read, oldest = GaugeMetricFamily(name, sentence, labels=["source_type"]), dict[str, float]()
        for source, type_ in self._guarded:
            at = read_permissions_time(self._lake.audiences(type_, source))
            oldest[type_] = min(at.timestamp() if at else 0.0, oldest.get(type_, inf))
        for type_, seconds in sorted(oldest.items()):
            read.add_metric([type_], seconds)
        return read

    def _collect_release(self) -> Iterator[Metric]:
        live = releases.find_live_release(self._lake)
        since = "When the live release was created."
        unembedded = "Chunks of the live release that have no vector yet."
        for name, sentence, value in (
            ("number", "The live release.", live and live.release),
            ("created_timestamp_seconds", since, live and live.created_at.timestamp()),
            ("chunks", "Chunks of the live release.", live and live.rows),
            ("chunks_unembedded", unembedded, live and live.unembedded),
        ):
            yield GaugeMetricFamily(f"knowledge_release_{name}", sentence, value=value)

    def _collect_freshness(self) -> Metric:
        """Of each type, the source that was refreshed longest ago, so that none hides behind another."""
        existing = {*self._lake.list_stored_sources().items(), *self._declared}
        oldest = dict[str, datetime]()
        where = eq("stage", "index")
        if self._refreshed_at:  # only the end of the log is read again
            where &= at_least("at", max(self._refreshed_at.values()) - _MAX_CLOCK_SKEW)
        log = open_log(self._lake, "refreshes")
        for row in log.read_rows(["source", "source_type", "at"], where).to_pylist():
            of: tuple[str, str] = (row["source"], row["source_type"])
            at: datetime = row["at"]
            self._refreshed_at[of] = max(at, self._refreshed_at.get(of, at))
        for (source, type_), at in self._refreshed_at.items():
            if (source, type_) in existing:
                oldest[type_] = min(at, oldest.get(type_, at))
        sentence = "When the source of a type that was refreshed longest ago was refreshed."
        name = "knowledge_oldest_source_refresh_timestamp_seconds"
        refreshed = GaugeMetricFamily(name, sentence, labels=["source_type"])
        for type_, at in sorted(oldest.items()):
            refreshed.add_metric([type_], at.timestamp())
        return refreshed
