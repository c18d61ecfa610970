"""Searches that a language model or rules add something to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from knowledge_pipeline import AsyncKnowledgeBase, KnowledgeBase
from knowledge_pipeline.config.settings import (
    CostSettings,
    LanguageModelSettings,
    QuerySettings,
    RerankSettings,
    Settings,
)
from knowledge_pipeline.contract.requests import ModelCallRequest
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.contract.usage_labels import UsageLabels
from knowledge_pipeline.llm.model_calls import on_behalf_of
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.chat_server import ChatServer
from knowledge_pipeline_tests.fakes.openai_server import Fault
from knowledge_pipeline_tests.query.search.rows import publish, row, write

Ask = Callable[..., SearchResponse]


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture
def configured(settings: Settings, chat: ChatServer) -> Callable[..., Settings]:
    """Settings with a language model, and some of the keys of `query` changed."""

    def make(**query: Any) -> Settings:
        model = LanguageModelSettings.model_validate(
            {"model": "fake", "base_url": chat.url, "api_key": chat.key, "max_tries": 1}
        )
        given = {"query": QuerySettings.model_validate(query), "language_model": model}
        return settings.model_copy(update=given)

    return make


@pytest.fixture
def ask(configured: Callable[..., Settings]) -> Ask:
    """One question of a base that is opened for it."""

    def ask(text: str, *, type: Any = "semantic", limit: int = 5, **query: Any) -> SearchResponse:
        with KnowledgeBase.open(configured(**query)) as base:
            return base.search(text, type=type, limit=limit, explain=True)

    return ask


@pytest.fixture(autouse=True)
def shelf(lake: Lake, space: str) -> None:
    write(lake, space, [
        row("refunds are booked by the ledger", "ledger.py"),
        row("lamps of the office", "lamps.py"),
        row("fcntl guards the file", "guards.py"),
        row("the backoff doubles", "backoff.py"),
    ])  # fmt: skip
    publish(lake)


def paths(answer: SearchResponse) -> list[str]:
    return [result.citation.path for result in answer.results]


def generated(answer: SearchResponse) -> dict[str, Any]:
    assert answer.explain is not None
    return answer.explain.get("generated", {})


def test_the_vector_leans_to_a_hypothetical_answer(ask: Ask, chat: ChatServer):
    chat.say("fcntl guards the file")
    plain, answer = ask("mutual exclusion"), ask("mutual exclusion", hyde=True)
    (before,), (after,) = (
        [each.explain for each in one.results if each.explain and each.citation.path == "guards.py"]
        for one in (plain, answer)
    )
    assert before.vector_score is not None and after.vector_score is not None
    assert after.vector_score > before.vector_score + 0.3
    assert paths(answer)[0] == "guards.py"
    assert generated(answer) == {"hypothetical": "fcntl guards the file"}
    assert (generated(plain), "prepare" in plain.timings_ms, "prepare" in answer.timings_ms) == (
        {},
        False,
        True,
    )


def test_a_question_about_code_is_answered_with_hypothetical_code(ask: Ask, chat: ChatServer):
    ask("mutual exclusion", type="code", hyde=True)
    assert "source code" in chat.prompts[0]


def test_full_text_is_asked_for_related_terms_too(ask: Ask, chat: ChatServer):
    chat.say("fcntlLock\nfcntl")
    plain, answer = ask("mutual exclusion"), ask("mutual exclusion", expansion="llm")
    assert all(result.explain and result.explain.bm25_rank is None for result in plain.results)
    assert [result.citation.path for result in answer.results if result.explain and result.explain.bm25_rank]
    assert generated(answer) == {"terms": ("fcntlLock", "fcntl")}


@pytest.mark.parametrize("how", ["rules", "llm"])
def test_the_best_of_every_part_of_a_question_are_among_the_results(ask: Ask, chat: ChatServer, how: str):
    parts = ("How does the ledger book refunds?", "Where does the backoff double?")
    chat.say("\n".join(parts))
    answer = ask(" ".join(parts), limit=2, decompose=how)
    assert set(paths(answer)) == {"ledger.py", "backoff.py"}
    assert generated(answer) == {"parts": parts}
    assert len(chat.requests) == (how == "llm")


def test_what_looks_like_a_filter_in_a_part_is_text(ask: Ask, chat: ChatServer):
    chat.say("lamps lang:go\nledger \u200b")
    assert "lamps.py" in paths(ask("the lamps", decompose="llm"))


def test_what_the_model_did_not_make_is_named_and_the_question_answered(ask: Ask, chat: ChatServer):
    for _ in range(3):
        chat.fail_next(Fault(503))
    answer = ask("ledger refunds", hyde=True, expansion="llm", decompose="llm")
    assert paths(answer)[0] == "ledger.py"
    assert answer.degraded == ("hyde", "expansion", "decompose")
    assert answer.explain is not None
    assert all("503" in reason for reason in answer.explain["degraded"].values())


def test_the_language_model_puts_the_results_in_order(ask: Ask, chat: ChatServer):
    chat.say("[4, 2]")
    before = paths(ask("the ledger"))
    answer = ask("the ledger", rerank=RerankSettings(kind="llm", types=("semantic",)))
    assert paths(answer) == [before[3], before[1], before[0], before[2]]
    assert answer.degraded == () and "rerank" in answer.timings_ms


def test_an_example_is_searched_for_as_it_is(configured: Callable[..., Settings], chat: ChatServer):
    on = configured(hyde=True, expansion="llm", decompose="llm")
    with KnowledgeBase.open(on) as base:
        assert paths(base.similar(text="lamps of the office"))
        assert paths(base.search("lamps of the office", type="similar"))
    assert chat.requests == []


def test_calls_of_the_model_are_logged_with_what_they_took(ask: Ask, chat: ChatServer, lake: Lake):
    chat.say("fcntl guards the file")
    ask("mutual exclusion", hyde=True)
    (logged,) = lake.log_table("llm_calls").read_rows(["kind", "model", "calls", "tokens"]).to_pylist()
    assert (logged["kind"], logged["model"], logged["calls"]) == ("completion", "fake", 1)
    assert logged["tokens"] > 4


def test_a_model_that_nothing_uses_is_not_asked(ask: Ask, chat: ChatServer):
    assert ask("the ledger").degraded == ()
    assert chat.requests == []


def test_closing_gives_up_the_question_that_waits_for_the_model(
    configured: Callable[..., Settings], chat: ChatServer
):
    chat.fail_next(Fault(wait_s=600))
    before = threading.enumerate()
    base = KnowledgeBase.open(configured(hyde=True, llm_budget_s=600.0))
    messages: list[str] = []

    def wait() -> None:
        try:
            base.search("mutual exclusion")
        except RuntimeError as error:
            messages.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not chat.at_once:
        threading.Event().wait(0.01)
    base.close()
    waiting.join(60)
    assert not waiting.is_alive()
    assert messages == ["this KnowledgeBase was closed before it had an answer"]
    after = [thread for thread in threading.enumerate() if thread not in before]
    assert not any(thread.name == "KnowledgeBase" for thread in after)


def test_asynchronous_callers_are_told_of_a_closed_base(
    configured: Callable[..., Settings], chat: ChatServer
):
    chat.fail_next(Fault(wait_s=600))

    async def close_while_it_waits() -> None:
        base = AsyncKnowledgeBase.open(configured(hyde=True, llm_budget_s=600.0))
        search = asyncio.ensure_future(base.search("mutual exclusion"))
        while not chat.at_once:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(base.close)
        with pytest.raises(RuntimeError, match="closed before"):
            await search

    asyncio.run(close_while_it_waits())


def test_a_spent_budget_costs_the_model_and_never_the_search(
    configured: Callable[..., Settings], chat: ChatServer
):
    chat.say("fcntl guards the file")
    settings = configured(hyde=True)
    assert settings.language_model
    priced = settings.language_model.model_copy(update={"price_per_million_input_tokens": 1e6})
    costs = CostSettings.model_validate({"budgets": [{"per": "project", "warn_at": 1, "stop_at": 1000}]})
    settings = settings.model_copy(update={"language_model": priced, "costs": costs})
    with KnowledgeBase.open(settings) as base:
        with on_behalf_of(project="shop", session="s"):
            first = base.search("mutual exclusion")
            second = base.search("mutual exclusion of files")
            base.report_model_call(ModelCallRequest("p", "m", cost=1000.0))
            third = base.search("mutual exclusion of lamps", explain=True)
            known = base.search("mutual exclusion of files")
        labelled = Access.operator("http").with_labels(UsageLabels(project="shop"))
        fourth = base.search("mutual exclusion of chairs", access=labelled)  # as another process gets it
        other = base.search("mutual exclusion of desks")
    assert [each.degraded for each in (first, second, third, fourth, other)] == [
        ("budget_warning",),
        (),
        ("hyde", "budget"),
        ("hyde", "budget"),
        (),
    ]
    assert known.degraded == () and paths(known)[0] == "guards.py"  # the answer is cached, the budget spent
    assert paths(third) and third.explain
    assert third.explain["degraded"]["hyde"].startswith("the budget of the project 'shop' is spent")
    assert len(chat.prompts) == 3
