"""A client whose errors give empty responses says why, and leaves a failing server alone for a while."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from knowledge_pipeline import errors
from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.client import transport as fallback
from knowledge_pipeline_tests.client.scripted_server import Scripted, ScriptedServer

QUESTIONS = {
    "search": (("payment",), "results"),
    "similar": ((), "results"),
    "related": (("SHOP-1",), "relations"),
    "context": (("retry a payment",), "excerpts"),
    "graph": (("find_usages", "Store"), "nodes"),
}


@pytest.fixture
def nobody() -> Iterator[str]:
    """The address of a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_is_answered_with_nothing_and_the_reason(nobody: str, name: str) -> None:
    given, found = QUESTIONS[name]
    with KnowledgeClient(nobody, on_error="empty") as client:
        response = getattr(client, name)(*given, **({"text": "x"} if name == "similar" else {}))
    assert response[found] == [] and response["degraded"] == ["server"]
    assert "does not answer" in response["problem"]


def test_a_failing_server_is_tried_twice_and_left_alone_after_three_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = Scripted(503, {"code": "Busy", "detail": "the store is busy", "status": 503})
    found = Scripted(told={"query_id": "q", "results": [], "degraded": []})
    with (
        ScriptedServer(*[busy] * 6, found) as server,
        KnowledgeClient(server.url, on_error="empty") as client,
    ):
        answers = [client.search("payment") for _ in range(4)]
        assert len(server.asked) == 6, "two tries for each of three questions, none for the fourth"
        assert [each["problem"] for each in answers[:3]] == ["the store is busy"] * 3
        assert "it failed 3 times in a row, and is asked again in" in answers[3]["problem"]
        later = fallback.monotonic() + fallback.OPEN_S + 1
        monkeypatch.setattr(fallback, "monotonic", lambda: later)
        assert "problem" not in client.search("payment"), "it answers again"


def test_a_success_in_between_counts_failures_anew() -> None:
    busy = Scripted(503, {"code": "Busy", "detail": "the store is busy", "status": 503})
    found = Scripted(told={"query_id": "q", "results": [], "degraded": []})
    script = [busy, busy, busy, busy, found, busy, busy, busy, busy, found]
    with ScriptedServer(*script) as server, KnowledgeClient(server.url, on_error="empty") as client:
        told = ["problem" in client.search("payment") for _ in range(6)]
    assert told == [True, True, False, True, True, False]


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [(401, "Unauthenticated", errors.Unauthenticated), (422, "InvalidQuery", errors.InvalidQuery)],
)
def test_the_callers_mistake_is_raised_all_the_same(status: int, code: str, error: type[Exception]) -> None:
    refusal = Scripted(status, {"code": code, "detail": "a sentence", "status": status})
    with (
        ScriptedServer(refusal) as server,
        KnowledgeClient(server.url, on_error="empty") as client,
        pytest.raises(error),
    ):
        client.search("payment")


def test_raising_is_the_default_and_what_has_no_empty_response_raises(nobody: str) -> None:
    with KnowledgeClient(nobody, tries=1) as client, pytest.raises(errors.TransientError):
        client.search("payment")
    with KnowledgeClient(nobody, on_error="empty") as client, pytest.raises(errors.TransientError):
        client.get("docs:README.md")


def test_wrong_arguments_are_refused_at_once() -> None:
    with pytest.raises(errors.InvalidQuery, match="'nothing': give one of raise, empty"):
        KnowledgeClient("http://localhost:1", on_error="nothing")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidQuery, match="'localhost:1' is no address of a server"):
        KnowledgeClient("localhost:1", on_error="empty")
    for address in ("https://", "https://[", "https://kb.example.org/?tenant=a", "https://kb.example.org/#x"):
        with pytest.raises(errors.InvalidQuery, match="is no address of a server: write https://"):
            KnowledgeClient(address)
    for interface in ("/api/v1/knowledge", "/mcp/"):
        with pytest.raises(errors.InvalidQuery, match=r"write the server's, https://kb\.example\.org$"):
            KnowledgeClient(f"https://kb.example.org{interface}")
