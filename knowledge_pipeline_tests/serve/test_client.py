"""The client against the server: every question, both ways."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from knowledge_pipeline import errors
from knowledge_pipeline.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_pipeline.sync_facade import SyncFacade

QUESTIONS = {
    "search": (("payment",), {"type": "code", "filters": {"languages": ["python"]}, "limit": 3}),
    "similar": ((), {"path": "shop/store.py", "limit": 2}),
    "get": (("shop-docs:guides/canaryshopdocs.md",), {}),
    "trace": (("shop-docs:guides/canaryshopdocs.md",), {}),
    "related": (("SHOP-1",), {}),
    "context": (("retry a payment",), {"kind": "code_review", "max_tokens": 1000}),
    "status": ((), {}),
}
GRAPH = {
    "find_usages": {},
    "find_references": {"limit": 5},
    "get_call_graph": {"depth": 2, "direction": "callers"},
    "get_class_hierarchy": {"depth": 2},
    "get_dependencies": {"filters": {"sources": ["shop-code"]}},
    "analyze_dependencies": {"depth": 2},
    "find_related_code": {"limit": 3},
}
_OF_ONE_ANSWER = ("query_id", "took_ms", "timings_ms", "searches", "cached")


def same(told: dict) -> dict:
    return {name: value for name, value in told.items() if name not in _OF_ONE_ANSWER}


@pytest.fixture
def client(server, world):
    with KnowledgeClient(server.url, world.tokens["acme"]) as opened:
        yield opened


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_is_answered_at_once_and_awaited(client, server, world, name):
    given, how = QUESTIONS[name]

    async def awaited():
        async with AsyncKnowledgeClient(server.url, world.tokens["acme"]) as other:
            return await getattr(other, name)(*given, **how)

    told = getattr(client, name)(*given, **how)
    assert told["release"] > 0
    assert same(told) == same(asyncio.run(awaited()))


@pytest.mark.parametrize("question", GRAPH)
def test_each_question_to_the_code_graph_is_answered(client, question):
    told = client.graph(question, "shop/store.py:Store", **GRAPH[question])
    assert "Store" in [node["name"] for node in told["nodes"] if node["role"] == "target"]


def test_feedback_is_taken_for_an_answer_and_refused_for_none(client):
    answer = client.search("payment")
    client.feedback(answer["query_id"], answer["results"][0]["id"], "useful")
    with pytest.raises(errors.NotFound, match="there is no query"):
        client.feedback("no-such-question", "r", "useful")


def test_a_model_call_is_reported_with_the_scope_alone_and_labels_are_checked_at_once(client, server):
    with pytest.raises(errors.Forbidden, match="scope 'report'"):
        client.report_model_call("openai", "m-1", input_tokens=10)
    with pytest.raises(errors.InvalidQuery, match="session is not a label"):
        KnowledgeClient(server.url, session="a\nb")


def test_what_is_not_there_and_what_makes_no_sense_are_our_errors(client, server):
    with pytest.raises(errors.NotFound):
        client.get("globex-docs:README.md")
    with pytest.raises(errors.InvalidQuery):
        client.search("")
    with (
        KnowledgeClient(server.url, "kpt_00000000_nothing") as stranger,
        pytest.raises(errors.Unauthenticated),
    ):
        stranger.status()


def test_every_question_has_both_forms():
    def public(cls: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if name[0] != "_"}

    questions = {*QUESTIONS, "graph", "feedback", "report_model_call", "push", "delete"}
    assert public(AsyncKnowledgeClient) == {*questions, "events", "aclose"}
    assert public(KnowledgeClient) - public(SyncFacade) == {*questions, "events", "close"}
    assert all(inspect.iscoroutinefunction(getattr(AsyncKnowledgeClient, name)) for name in questions)
