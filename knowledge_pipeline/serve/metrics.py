"""Metrics for Prometheus: https://prometheus.io/docs/practices/naming/.

Labels have few values that are known beforehand: never a token, a tenant, a source, a path or a text.
Moments are told as such, and not how long ago they are: that is what `time() - moment` says when it is
asked, however long ago it was scraped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.query.search.assemble import Answer
from knowledge_pipeline.serve.observers import Observer, Outcome, Told
from knowledge_pipeline.serve.refresh_queue import Refreshes
from knowledge_pipeline.store import release as releases
from knowledge_pipeline.store.filters import at_least, eq
from knowledge_pipeline.store.lake import Lake

LOOK_EVERY_S = 10.0  # at the store, however often it is scraped

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_OVERLAP = timedelta(minutes=10)  # clocks of machines that share a store differ


class Metrics(Observer):
    """Counts what one service is asked, and tells it with what the store says. Threads may share it."""

    def __init__(self, settings: Settings) -> None:
        self._registry = CollectorRegistry()
        self._count_questions()
        self._time_answers()
        ProcessCollector(registry=self._registry)
        self._registry.register(_Holdings(settings))
        build = Gauge("knowledge_build_info", "The version that runs.", ["version"], registry=self._registry)
        build.labels(version("knowledge-pipeline")).set(1)

    def include(self, refreshes: Refreshes) -> None:
        """Tell of the refreshes of a server as well."""
        self._registry.register(_Refreshing(refreshes))

    def exposed(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the form that an `Accept` header prefers, and its content type; reads the store."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def waiting(self, change: int) -> None:
        """See `Observer`."""
        self._waiting.inc(change)

    def running(self, change: int) -> None:
        """See `Observer`."""
        self._running.inc(change)

    def ended(self, caller: Caller, outcome: Outcome, took_s: float) -> None:
        """See `Observer`."""
        self._ended.labels(caller.door, outcome).inc()
        if outcome == "ok":
            self._took.labels(caller.door).observe(took_s)

    def heard(self, kind: str, text: str, access: Access, answer: Told) -> None:
        """See `Observer`."""
        del text
        self._answers.labels(access.caller.door, kind).observe(answer.took_ms / 1000)
        for step in answer.degraded:
            self._degraded.labels(step).inc()
        if isinstance(answer, Answer):
            self._kept.labels(kind).inc(answer.cached)
        for step, took_ms in getattr(answer, "timings_ms", {}).items():
            self._steps.labels(step).observe(took_ms / 1000)

    def _count_questions(self) -> None:
        self._ended = Counter(
            "knowledge_questions",
            "Questions by how they ended.",
            ["door", "outcome"],
            registry=self._registry,
        )
        self._running = Gauge(
            "knowledge_questions_in_progress", "Questions that are being answered.", registry=self._registry
        )
        self._waiting = Gauge(
            "knowledge_questions_waiting", "Questions that wait for their turn.", registry=self._registry
        )
        self._kept = Counter(
            "knowledge_answer_cache_hits",
            "Answers that were given before.",
            ["type"],
            registry=self._registry,
        )
        self._degraded = Counter(
            "knowledge_answers_degraded",
            "Answers that had to do without a step.",
            ["step"],
            registry=self._registry,
        )

    def _time_answers(self) -> None:
        def histogram(name: str, told: str, *labels: str) -> Histogram:
            return Histogram(name, told, labels, buckets=_SECONDS, registry=self._registry)

        self._took = histogram(
            "knowledge_question_duration_seconds",
            "From a question that may be asked to its answer, with waiting for its turn.",
            "door",
        )
        self._answers = histogram(
            "knowledge_answer_duration_seconds",
            "How long the knowledge base took for an answer.",
            "door",
            "type",
        )
        self._steps = histogram(
            "knowledge_answer_step_duration_seconds", "How long one step of an answer took.", "step"
        )


class _Refreshing(Collector):
    """Refreshes that one server was asked for."""

    def __init__(self, refreshes: Refreshes) -> None:
        self._refreshes = refreshes

    def collect(self) -> Iterator[Metric]:
        states = [refresh.status for refresh in self._refreshes.all()]
        under_way = GaugeMetricFamily("knowledge_refreshes", "Refreshes that are not done.", labels=["state"])
        for state in ("waiting", "running"):
            under_way.add_metric([state], states.count(state))
        yield under_way
        ended = CounterMetricFamily(
            "knowledge_refreshes_ended", "Refreshes that have ended.", labels=["state"]
        )
        for state in ("done", "failed"):
            ended.add_metric([state], self._refreshes.ended[state])
        yield ended


class _Holdings(Collector):
    """What is live, and when sources were last read; what the store said a moment ago is told again."""

    def __init__(self, settings: Settings) -> None:
        self._lake = Lake(settings.store)
        self._declared = {(source.id, source.type) for source in settings.sources}
        self._ended_at: dict[tuple[str, str], datetime] = {}  # by source and type
        self._told: tuple[Metric, ...] = ()
        self._looked_s = -LOOK_EVERY_S
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the store is asked when it is scraped, and not when the server starts."""
        return ()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            if time.monotonic() - self._looked_s >= LOOK_EVERY_S:
                self._told, self._looked_s = tuple(self._look()), time.monotonic()
            return self._told

    def _look(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("knowledge_store_up", "Whether the store could be read for these metrics.")
        try:
            yield from (*self._released(), self._freshness())
        except (KnowledgeError, OSError, RuntimeError, ValueError):
            up.add_metric([], 0)
        else:
            up.add_metric([], 1)
        yield up

    def _released(self) -> Iterator[Metric]:
        live = releases.live(self._lake)
        number = GaugeMetricFamily("knowledge_release", "The release that questions are asked of.")
        since = GaugeMetricFamily(
            "knowledge_release_created_timestamp_seconds", "When the live release was made."
        )
        rows = GaugeMetricFamily("knowledge_release_chunks", "Chunks of the live release.")
        if live:
            number.add_metric([], live.release)
            since.add_metric([], live.created_at.timestamp())
            rows.add_metric([], live.rows)
        yield from (number, since, rows)

    def _freshness(self) -> Metric:
        """Of each type the source that was refreshed the longest ago: none hides behind another."""
        held = {*self._lake.stored_sources().items(), *self._declared}
        oldest = dict[str, datetime]()
        for (source, type_), at in self._refreshed().items():
            if (source, type_) in held:
                oldest[type_] = min(at, oldest.get(type_, at))
        told = GaugeMetricFamily(
            "knowledge_source_refreshed_timestamp_seconds",
            "When the source of a type that was refreshed the longest ago was last refreshed.",
            labels=["source_type"],
        )
        for type_, at in sorted(oldest.items()):
            told.add_metric([type_], at.timestamp())
        return told

    def _refreshed(self) -> dict[tuple[str, str], datetime]:
        """When each source was last refreshed to the end; only the end of the log is read again."""
        where = eq("stage", "index")
        if self._ended_at:
            where &= at_least("at", max(self._ended_at.values()) - _OVERLAP)
        log = self._lake.log("refreshes")
        for row in log.rows(["source", "source_type", "at"], where).to_pylist():
            of: tuple[str, str] = (row["source"], row["source_type"])
            at: datetime = row["at"]
            self._ended_at[of] = max(at, self._ended_at.get(of, at))
        return self._ended_at
