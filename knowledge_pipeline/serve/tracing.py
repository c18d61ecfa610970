"""Traces of queries, sent by OpenTelemetry with OpenInference's attributes, which Phoenix reads.

The span of a request is FastAPI's own, and continues the caller's `traceparent`. Below it is one span for
each answer of the knowledge base, and below that one for each step, built from the times in the answer, so
that searching knows nothing of traces.

Attributes: https://arize-ai.github.io/openinference/spec/semantic_conventions.html
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from openinference.semconv.resource import ResourceAttributes
from openinference.semconv.trace import DocumentAttributes, OpenInferenceSpanKindValues, SpanAttributes
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import Span as AnySpan
from opentelemetry.trace import StatusCode, set_span_in_context
from opentelemetry.util.re import parse_env_headers

from knowledge_pipeline.config.operation import TraceSettings
from knowledge_pipeline.contract.base import Step
from knowledge_pipeline.contract.responses import GraphNode, RelationsResponse, SearchResponse, SearchResult
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.serve.logs import redact
from knowledge_pipeline.serve.observers import AnyResponse, Observer, Outcome

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

SERVICE_NAME = "knowledge_pipeline"
EXPORT_TIMEOUT_S = 5.0  # for one batch of spans to be taken

_PARENT_STEPS: Mapping[str, str] = {"embed": "retrieve"}  # parts of steps
_CHAIN, _RETRIEVER = OpenInferenceSpanKindValues.CHAIN, OpenInferenceSpanKindValues.RETRIEVER
_SPAN_KINDS: Mapping[str, OpenInferenceSpanKindValues] = {  # of steps; others are chains
    "embed": OpenInferenceSpanKindValues.EMBEDDING,
    "rerank": OpenInferenceSpanKindValues.RERANKER,
}
_UNTRACED_PATHS = ("/health", "/ready", "/metrics", "/static")
_MAX_ATTRIBUTES = 1_000  # a hundred results with four each
_REDACTED_ATTRIBUTES = ("url.path", "url.query")  # they hold ids and queries


class TracingObserver(Observer):
    """Sends the traces of one service. `close` sends the rest."""

    def __init__(self, settings: TraceSettings) -> None:
        """Start the thread that sends. Raises `ConfigError`: there is no endpoint."""
        self._include_content = settings.include_content
        if settings.endpoint is None:
            raise ConfigError("serve.traces.endpoint is not set: no traces can be sent")
        ours = {
            "service.name": SERVICE_NAME,
            "service.version": version("knowledge-pipeline"),
            ResourceAttributes.PROJECT_NAME: SERVICE_NAME,
        }
        provider = TracerProvider(
            sampler=ParentBasedTraceIdRatio(settings.sample_ratio),
            # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override ours
            resource=Resource.create().merge(Resource(ours)).merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attributes=_MAX_ATTRIBUTES),
        )
        header_text = settings.headers.get_secret_value() if settings.headers else ""
        headers = dict(parse_env_headers(header_text, liberal=True))
        exporter = OTLPSpanExporter(settings.endpoint, headers=headers, timeout=EXPORT_TIMEOUT_S)
        if not settings.include_content:
            provider.add_span_processor(_RedactingProcessor())
        provider.add_span_processor(BatchSpanProcessor(exporter))
        self._provider = provider
        self._tracer = self._provider.get_tracer(SERVICE_NAME, version("knowledge-pipeline"))

    @property
    def telemetry(self) -> TelemetryConfig:
        """FastAPI's settings for the spans of requests."""
        return {
            "tracer_provider": self._provider,
            "tracing": True,
            "operation_spans": False,
            "metrics": False,
            "logs": False,
            "exclude": lambda scope: str(scope.get("path", "")).startswith(_UNTRACED_PATHS),
        }

    def close(self) -> None:
        """Send what is left, for at most `EXPORT_TIMEOUT_S`."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        ending.join(EXPORT_TIMEOUT_S)

    def on_answered(self, kind: str, text: str, access: Access, answer: AnyResponse) -> None:
        """See `Observer`."""
        end_ns = time.time_ns()
        start_ns = end_ns - _ms_to_ns(answer.took_ms)
        span = self._tracer.start_span(f"search {kind}", start_time=start_ns)
        if not span.is_recording():
            return
        span.set_attributes(
            {
                **_kind_attributes(_RETRIEVER),
                **_caller_attributes(access.caller),
                "knowledge.type": kind,
                "knowledge.outcome": "ok",
                "knowledge.query_id": answer.query_id,
                "knowledge.release": answer.release,
                "knowledge.degraded": list(answer.degraded),
                "knowledge.cached": isinstance(answer, SearchResponse) and answer.cached,
            }
        )
        span.set_attributes(dict(_iter_document_attributes(answer, content=self._include_content)))
        if self._include_content:
            span.set_attribute(SpanAttributes.INPUT_VALUE, redact(text))
        self._record_steps(span, start_ns, getattr(answer, "steps", ()))
        span.end(end_ns)

    def on_ended(self, caller: Caller, outcome: Outcome, took_s: float) -> None:
        """See `Observer`; a query that was answered has its span already."""
        if outcome in ("ok", "unauthenticated"):
            return
        end_ns = time.time_ns()
        span = self._tracer.start_span("search", start_time=end_ns - _ms_to_ns(took_s * 1000))
        span.set_attributes(
            {**_kind_attributes(_CHAIN), **_caller_attributes(caller), "knowledge.outcome": outcome}
        )
        if outcome in ("error", "timeout"):
            span.set_status(StatusCode.ERROR, outcome)
        span.end(end_ns)

    def _record_steps(self, query_span: AnySpan, start_ns: int, steps: Iterable[Step]) -> None:
        """One span for each step, with its parts as children: other steps, or those of a query in it."""
        whole: list[tuple[Step, AnySpan]] = []
        for step in sorted(steps, key=lambda step: step.name in _PARENT_STEPS):
            parents = (
                span
                for other, span in whole
                if other.name == _PARENT_STEPS.get(step.name)
                and other.start_ms <= step.start_ms
                and step.end_ms <= other.end_ms
            )
            span = self._tracer.start_span(
                step.name,
                context=set_span_in_context(next(parents, query_span)),
                start_time=start_ns + _ms_to_ns(step.start_ms),
                attributes=_kind_attributes(_SPAN_KINDS.get(step.name, _CHAIN)),
            )
            self._record_steps(span, start_ns + _ms_to_ns(step.start_ms), step.steps)
            span.end(start_ns + _ms_to_ns(step.end_ms))
            whole.append((step, span))


class _RedactingProcessor(SpanProcessor):
    """Hides the path and the query of a request; the route stays."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        for name in _REDACTED_ATTRIBUTES:
            if name in (span.attributes or {}):
                span.set_attribute(name, "REDACTED")


def _kind_attributes(kind: OpenInferenceSpanKindValues) -> dict[str, str]:
    return {SpanAttributes.OPENINFERENCE_SPAN_KIND: kind.value}


def _caller_attributes(caller: Caller) -> dict[str, Any]:
    attributes = {"knowledge.interface": caller.interface, SpanAttributes.USER_ID: caller.token}
    return {name: value for name, value in attributes.items() if value is not None}


def _iter_document_attributes(answer: AnyResponse, *, content: bool) -> Iterator[tuple[str, Any]]:
    results: tuple[SearchResult | GraphNode, ...] = ()
    if not isinstance(answer, RelationsResponse):
        results = answer.results if isinstance(answer, SearchResponse) else answer.matches
    for rank, result in enumerate(results):
        of = f"{SpanAttributes.RETRIEVAL_DOCUMENTS}.{rank}"
        yield f"{of}.{DocumentAttributes.DOCUMENT_ID}", result.id
        if result.score is not None:
            yield f"{of}.{DocumentAttributes.DOCUMENT_SCORE}", result.score
        if content and isinstance(result, SearchResult):
            cited = {name: getattr(result.citation, name) for name in ("source", "path", "lines")}
            yield f"{of}.{DocumentAttributes.DOCUMENT_CONTENT}", result.content
            yield f"{of}.{DocumentAttributes.DOCUMENT_METADATA}", json.dumps(cited, ensure_ascii=False)


def _ms_to_ns(ms: float) -> int:
    return round(ms * 1_000_000)
