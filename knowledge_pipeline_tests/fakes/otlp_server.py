"""A receiver of traces over OTLP/HTTP: takes protobuf, keeps the spans."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served


@dataclass(frozen=True, slots=True)
class Told:
    """One span as it was received."""

    name: str
    kind: int  # of `Span.SpanKind`
    trace_id: str
    span_id: str
    parent_id: str  # "": none
    start_ns: int
    end_ns: int
    failed: bool
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]


class OTLPServer(Served):
    """A context manager; `spans` are those that were sent with the right key, `refused` counts others.

    Protocol: https://opentelemetry.io/docs/specs/otlp/#otlphttp
    """

    def __init__(self, *, key: str = "-".join(("trace", "key")), wait_s: float = 0.0) -> None:
        super().__init__()
        self.key = key
        self.spans: list[Told] = []
        self.refused = 0
        self._wait_s = wait_s

    @property
    def url(self) -> str:
        """Where traces are sent to."""
        return f"{self.address}/v1/traces"

    def send(self, asked: Asked) -> Sent:
        """See `Served`."""
        if asked.path != "/v1/traces" or asked.headers.get("Content-Type") != "application/x-protobuf":
            return Sent(415, b"")
        if asked.headers.get("api-key") != self.key:
            self.refused += 1
            return Sent(401, b"")
        zipped = asked.headers.get("Content-Encoding") == "gzip"
        content = gzip.decompress(asked.content) if zipped else asked.content
        self.spans += _told(ExportTraceServiceRequest.FromString(content))
        described = {"Content-Type": "application/x-protobuf"}
        return Sent(200, ExportTraceServiceResponse().SerializeToString(), described, self._wait_s)

    def received(self, enough: Callable[[list[Told]], bool], *, within_s: float = 120.0) -> list[Told]:
        """The spans, once there are enough of them."""
        deadline = time.monotonic() + within_s
        while not enough(list(self.spans)):
            assert time.monotonic() < deadline, [span.name for span in self.spans]
            time.sleep(0.02)
        return list(self.spans)


def _told(request: ExportTraceServiceRequest) -> list[Told]:
    return [
        _span(span, {each.key: _value(each.value) for each in resource.resource.attributes})
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _span(span: Span, resource: Mapping[str, Any]) -> Told:
    return Told(
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == Status.STATUS_CODE_ERROR,
        {each.key: _value(each.value) for each in span.attributes},
        resource,
    )


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None
