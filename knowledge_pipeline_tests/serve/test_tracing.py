"""Traces, as a receiver of OTLP gets them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import anyio
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pydantic import SecretStr

from knowledge_pipeline.config.operation import TraceSettings
from knowledge_pipeline.serve import tracing
from knowledge_pipeline_tests.fakes.otlp_server import OTLPServer, Told
from knowledge_pipeline_tests.serve.mcp_calls import over_http
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World

API = "/api/v1/knowledge"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")


@pytest.fixture
def receiver() -> Iterator[OTLPServer]:
    with OTLPServer() as server:
        yield server


def traced(world: World, receiver: OTLPServer, **more) -> Running:
    traces = TraceSettings(endpoint=receiver.url, headers=SecretStr(f"api-key={receiver.key}"), **more)
    return Running(world.settings, config=world.config, traces=traces)


def has(*names: str):
    return lambda spans: set(names) <= {span.name for span in spans}


def named(spans: list[Told], name: str) -> Told:
    return next(span for span in spans if span.name == name)


def test_a_question_is_told_with_its_steps_below_the_request_of_its_caller(world, receiver):
    with traced(world, receiver) as running:
        asker = running.client(world.tokens["ann"], traceparent=f"00-{TRACE}-{CALLER}-01")
        answer = asker.post(f"{API}/search", json={"query": "payments retried", "limit": 3}).json()
        spans = receiver.received(has(f"POST {API}/search", "search semantic"))
    request, question = named(spans, f"POST {API}/search"), named(spans, "search semantic")
    assert {span.trace_id for span in spans} == {TRACE}
    assert (request.parent_id, question.parent_id) == (CALLER, request.span_id)
    assert request.kind == Span.SPAN_KIND_SERVER and not request.failed
    assert request.attributes["http.response.status_code"] == 200
    facts = question.attributes
    assert facts["openinference.span.kind"] == "RETRIEVER"
    assert facts["knowledge.query_id"] == answer["query_id"]
    assert (facts["knowledge.release"], facts["knowledge.degraded"]) == (2, [])
    assert (facts["knowledge.type"], facts["knowledge.interface"], facts["knowledge.cached"]) == (
        "semantic",
        "http",
        False,
    )
    assert facts["user.id"] == world.ids["ann"]
    assert question.resource["service.name"] == "knowledge_pipeline"
    for rank, result in enumerate(answer["results"]):
        of = f"retrieval.documents.{rank}.document"
        assert (facts[f"{of}.id"], facts[f"{of}.score"]) == (result["id"], result["score"])
    assert len([name for name in facts if name.endswith("document.id")]) == len(answer["results"]) == 3
    assert "steps" not in answer  # they are for traces alone


def test_steps_lie_within_their_question_and_take_as_long_as_the_answer_says(world, receiver):
    with traced(world, receiver) as running:
        asker = running.client(world.tokens["ann"])
        told = asker.post(f"{API}/search", json={"query": "sessions that end"}).json()
        spans = receiver.received(has("search semantic", "assemble"))
    question, steps = named(spans, "search semantic"), [s for s in spans if s.name in told["timings_ms"]]
    assert {step.name for step in steps} == set(told["timings_ms"]) > {"understand", "open", "retrieve"}
    slack_ns = 2_000_000
    for step in steps:
        assert step.parent_id == question.span_id
        assert question.start_ns <= step.start_ns <= step.end_ns <= question.end_ns + slack_ns
        assert abs((step.end_ns - step.start_ns) / 1e6 - told["timings_ms"][step.name]) < 2
    order = [each.name for each in sorted(steps, key=lambda each: each.start_ns)]
    assert order.index("understand") < order.index("retrieve") < order.index("assemble")
    embed, retrieve = named(spans, "embed"), named(spans, "retrieve")
    assert embed.parent_id == retrieve.span_id
    assert embed.attributes["openinference.span.kind"] == "EMBEDDING"


def test_a_context_has_a_span_for_each_search_with_the_steps_of_that_search_in_it(world, receiver):
    with traced(world, receiver) as running:
        asker = running.client(world.tokens["ann"])
        body = {"task": "retry payments", "file": "README.md", "source": "shop-docs"}
        told = asker.post(f"{API}/context", json=body).json()
        spans = receiver.received(has("search context", "select"))
    whole = named(spans, "search context")
    assert whole.attributes["knowledge.query_id"] == told["query_id"]
    parts = {span.name: span for span in spans if span.parent_id == whole.span_id}
    assert (
        set(parts)
        == {"load", "semantic", "similar", "link", "select"}
        == {run["name"] for run in told["searches"]}
        | {
            "load",
            "link",
            "select",
        }
    )
    for name, first in (("semantic", "understand"), ("similar", "open")):
        search = parts[name]
        steps = sorted((s for s in spans if s.parent_id == search.span_id), key=lambda step: step.start_ns)
        assert steps[0].name == first and {"retrieve", "fuse", "assemble"} < {step.name for step in steps}
        slack_ns = 2_000_000
        for step in steps:
            assert search.start_ns <= step.start_ns <= step.end_ns <= search.end_ns + slack_ns
    embed = named(spans, "embed")
    assert embed.parent_id in {span.span_id for span in spans if span.name == "retrieve"}


def test_neither_questions_nor_what_was_found_are_told_unless_wanted(world, receiver):
    with traced(world, receiver) as running:
        asker = running.client(world.tokens["ann"])
        asker.get("/", params={"q": "payments of xylophones"})
        asker.post(f"{API}/search", json={"query": "payments of xylophones"})
        asker.get(f"{API}/docs/shop-docs:README.md")
        asker.get(f"{API}/docs/shop-docs:xylophones.md")
        spans = receiver.received(lambda spans: [s.kind for s in spans].count(Span.SPAN_KIND_SERVER) == 4)
    told = json.dumps([[span.name, dict(span.attributes)] for span in spans])
    hidden = ("xylophones", "README", "canary", "shop-docs", world.tokens["ann"], receiver.key)
    assert not [each for each in hidden if each in told]
    assert named(spans, "GET /").attributes["url.query"] == "REDACTED"


def test_content_is_told_without_secrets_where_that_is_wanted(world, receiver):
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    with traced(world, receiver, include_content=True) as running:
        asker = running.client(world.tokens["public"])
        told = asker.post(f"{API}/search", json={"query": f"payments retried {secret}"}).json()
        question = named(receiver.received(has("search semantic")), "search semantic")
    assert question.attributes["input.value"].startswith("payments retried [REDACTED")
    first = "retrieval.documents.0.document"
    assert question.attributes[f"{first}.content"] == told["results"][0]["content"]
    cited = json.loads(question.attributes[f"{first}.metadata"])
    assert cited["path"] == told["results"][0]["citation"]["path"]


def test_a_question_that_ends_badly_has_a_span_that_says_how(world, receiver):
    with traced(world, receiver) as running:
        asker = running.client(world.tokens["public"])
        asker.post(f"{API}/search", json={"query": "  "})
        spans = receiver.received(has("search", f"POST {API}/search"))

        async def broken(**_):
            raise RuntimeError("disk on fire")

        running.service.base.status = broken
        asker.get(f"{API}/status")
        spans = receiver.received(has("search", f"GET {API}/status"))
    refused, failed = (span for span in spans if span.name == "search")
    assert (refused.attributes["knowledge.outcome"], refused.failed) == ("invalid", False)
    assert (failed.attributes["knowledge.outcome"], failed.failed) == ("error", True)
    assert "fire" not in json.dumps([dict(span.attributes) for span in spans])


def test_questions_of_an_agent_are_below_its_request(world, receiver):
    async def ask(url: str) -> None:
        async with over_http(url, world.tokens["ann"]) as client:
            answer = await client.call_tool("knowledge_query", {"query": "payments"})
            assert not answer.is_error

    with traced(world, receiver) as running:
        anyio.run(ask, running.url)
        spans = receiver.received(has("search semantic", "POST /mcp"))
    question = named(spans, "search semantic")
    above = next(span for span in spans if span.span_id == question.parent_id)
    assert (above.name, question.attributes["knowledge.interface"]) == ("POST /mcp", "mcp")


def test_a_share_of_the_requests_is_traced_and_those_whose_callers_are(world, receiver):
    with traced(world, receiver, sample_ratio=0.0) as running:
        asker = running.client(world.tokens["public"])
        asker.post(f"{API}/search", json={"query": "payments"})
        asker.post(
            f"{API}/search", json={"query": "sessions"}, headers={"traceparent": f"00-{TRACE}-{CALLER}-01"}
        )
        receiver.received(has(f"POST {API}/search"))
    assert {span.trace_id for span in receiver.spans} == {TRACE}


@pytest.mark.slow
def test_health_is_not_traced_and_the_rest_is_sent_when_the_server_ends(world, receiver, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
    with traced(world, receiver) as running:
        running.client().get("/health")
        running.client(world.tokens["public"]).get(f"{API}/collections")
        assert receiver.spans == []
    assert [span.name for span in receiver.spans] == [f"GET {API}/collections"]


def test_a_receiver_that_does_not_answer_holds_up_neither_answers_nor_the_end(world, monkeypatch):
    monkeypatch.setattr(tracing, "EXPORT_TIMEOUT_S", 1.0)
    with OTLPServer(wait_s=600) as stuck:
        running = traced(world, stuck)
        with running:
            asker = running.client(world.tokens["public"])
            start_s = time.monotonic()
            assert asker.post(f"{API}/search", json={"query": "payments"}).status_code == 200
            assert time.monotonic() - start_s < 60
            start_s = time.monotonic()
    assert time.monotonic() - start_s < 60


@pytest.mark.slow
def test_nothing_of_it_is_imported_where_it_is_not_configured():
    program = (
        "import sys\n"
        "import knowledge_pipeline.serve.workers\n"
        "names = ('opentelemetry.sdk', 'opentelemetry.exporter', 'openinference', 'prometheus_client')\n"
        "print([name for name in sys.modules if name.startswith(names)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
