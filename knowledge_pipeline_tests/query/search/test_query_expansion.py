"""Hypothetical answers, related terms and parts by a language model, against a small real endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from knowledge_pipeline.config.settings import LanguageModelSettings, QuerySettings
from knowledge_pipeline.extensions import llm_steps as query_expansion
from knowledge_pipeline.extensions.llm_steps import GenerationResult, QueryExpander, expand_query
from knowledge_pipeline.llm.model import LanguageModel
from knowledge_pipeline.query.plan import QueryExpansion
from knowledge_pipeline_tests.fakes.chat_server import ChatServer
from knowledge_pipeline_tests.fakes.openai_server import Fault

QUESTION = "how are locks taken"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


def with_generator(server: ChatServer, use: Callable[[QueryExpander], Awaitable[Any]], **changes: Any) -> Any:
    known = {"model": "fake", "base_url": server.url, "api_key": server.key, "max_tries": 1}

    async def run() -> Any:
        model = LanguageModel(LanguageModelSettings.model_validate(known))
        generator = QueryExpander(model, budget_s=changes.get("budget_s", 60.0))
        try:
            return await use(generator)
        finally:
            await generator.aclose()
            await model.aclose()

    return asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_hypothetical_answer_comes_without_fences_and_not_too_long(server):
    server.say("```\nLocks are files.\n```", "word " * 1000)

    async def twice(generator: QueryExpander) -> list[GenerationResult[str]]:
        return [
            await generator.generate_hypothetical_passage(QUESTION),
            await generator.generate_hypothetical_passage(QUESTION, form="code"),
        ]

    prose, code = with_generator(server, twice)
    assert prose == GenerationResult("Locks are files.")
    assert len(code.value.split()) == 300
    assert "documentation" in server.prompts[0] and "source code" in server.prompts[1]
    assert all(request.texts[1] == QUESTION for request in server.requests)


@pytest.mark.parametrize(
    ("reply", "terms"),
    [
        ("file lock\nfcntl\nLOCKS\n", ("file lock", "fcntl")),
        ('["file lock", "fcntl", "file lock"]', ("file lock", "fcntl")),
        ("file lock, fcntl, locks", ("file lock", "fcntl")),
        ("- `flock`\n- mutual exclusion (mutex)", ("flock", "mutual exclusion (mutex)")),
        ("\n".join(f"term{number}" for number in range(30)), tuple(f"term{number}" for number in range(8))),
        ("I am sorry, but I cannot name any terms for this question today.", ()),
        (QUESTION, ()),
    ],
)
def test_related_terms_are_short_new_and_few(server, reply, terms):
    server.say(reply)
    assert with_generator(
        server, lambda generator: generator.generate_related_terms(QUESTION)
    ) == GenerationResult(terms)


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("1. How is a lock taken?\n2. Who waits?", ("How is a lock taken?", "Who waits?")),
        (QUESTION, (QUESTION,)),
        ("a?\nb?\nc?\nd?\ne?", ("a?", "b?", "c?", "d?")),
    ],
)
def test_parts_are_at_most_four_questions(server, reply, parts):
    server.say(reply)
    assert with_generator(server, lambda generator: generator.generate_parts(QUESTION)) == GenerationResult(
        parts
    )


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(401), "401: set language_model.api_key"),
        (Fault(wait_s=600), "took more than 0.4 s"),
        (Fault(body=b'{"choices": [{"message": {"content": " "}}]}'), "'fake' replied with nothing of use"),
    ],
)
@pytest.mark.parametrize(
    ("ask", "without"),
    [
        (lambda generator: generator.generate_hypothetical_passage(QUESTION), ""),
        (lambda generator: generator.generate_related_terms(QUESTION), ()),
        (lambda generator: generator.generate_parts(QUESTION), (QUESTION,)),
    ],
    ids=["hypothetical", "related_terms", "parts"],
)
def test_what_cannot_be_made_has_a_reason_and_the_question_goes_on(server, fault, reason, ask, without):
    server.fail_next(fault)
    result = with_generator(server, ask, budget_s=0.4 if fault.wait_s else 60.0)
    assert result.value == without
    assert result.problem is not None and reason in result.problem


def test_the_same_question_twice_is_one_call_and_another_or_another_form_is_not(server):
    async def ask(generator: QueryExpander) -> None:
        for _ in range(2):
            await generator.generate_hypothetical_passage(QUESTION)
            await generator.generate_hypothetical_passage(QUESTION, form="code")
            await generator.generate_hypothetical_passage("another question")
            await generator.generate_parts(QUESTION)

    with_generator(server, ask)
    assert len(server.requests) == 4


def test_callers_that_ask_at_once_share_a_call_and_one_that_gives_up_leaves_the_others_theirs():
    async def ask(generator: QueryExpander) -> list[Any]:
        waiting = [asyncio.create_task(generator.generate_hypothetical_passage(QUESTION)) for _ in range(3)]
        await until(lambda: server.at_once)
        waiting[0].cancel()
        await asyncio.sleep(0)
        server.go_on()
        return await asyncio.gather(*waiting, return_exceptions=True)

    with ChatServer(wait_s=600, otherwise="made") as server:
        first, *others = with_generator(server, ask)
        assert isinstance(first, asyncio.CancelledError)
        assert others == [GenerationResult("made")] * 2
        assert len(server.requests) == 1


def test_a_failure_is_asked_for_again(server):
    server.fail_next(Fault(500))
    server.say("made")

    async def twice(generator: QueryExpander) -> list[GenerationResult[str]]:
        return [await generator.generate_hypothetical_passage(QUESTION) for _ in range(2)]

    first, second = with_generator(server, twice)
    assert (first.value, second.value) == ("", "made")


def test_only_the_last_replies_are_kept(server, monkeypatch):
    monkeypatch.setattr(query_expansion, "MAX_CACHED_REPLIES", 2)

    async def ask(generator: QueryExpander) -> None:
        for question in ("a", "b", "a", "c", "a", "b"):  # "b" has gone when "c" came, "a" was used since
            await generator.generate_hypothetical_passage(question)

    with_generator(server, ask)
    assert [request.texts[1] for request in server.requests] == ["a", "b", "c", "b"]


def test_closing_gives_up_what_is_under_way(server):
    server.fail_next(Fault(wait_s=600))

    async def ask(generator: QueryExpander) -> object:
        waiting = asyncio.create_task(generator.generate_hypothetical_passage(QUESTION))
        await until(lambda: server.at_once)
        await generator.aclose()
        (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
        return outcome

    assert isinstance(with_generator(server, ask), asyncio.CancelledError)


def settings_of(**changes: Any) -> QuerySettings:
    return QuerySettings.model_validate(changes)


def test_by_default_nothing_is_asked_of_the_model(server):
    result = with_generator(server, lambda generator: expand_query(QUESTION, settings_of(), generator))
    assert result == QueryExpansion() and server.requests == []


def test_rules_need_no_model():
    question = "how are locks taken and where is the timeout set?"
    result = asyncio.run(expand_query(question, settings_of(decompose="rules"), None))
    assert result.parts == ("how are locks taken", "where is the timeout set?")
    assert asyncio.run(expand_query(QUESTION, settings_of(decompose="rules"), None)).parts == ()


def test_everything_that_is_on_is_asked_for_at_once_and_what_fails_is_named():
    every = settings_of(hyde=True, expansion="llm", decompose="llm")

    def speak(messages: list[dict[str, str]]) -> str:
        task = messages[0]["content"]
        if "terms" in task:
            return "flock\nmutex"
        return "" if "code" in task else "How is a lock taken?\nWhere is it?"

    async def ask(generator: QueryExpander) -> QueryExpansion:
        asked = asyncio.create_task(expand_query(QUESTION, every, generator, form="code"))
        await until(lambda: server.at_once == 3)
        server.go_on()
        return await asked

    with ChatServer(wait_s=600, otherwise=speak) as server:
        result = with_generator(server, ask, budget_s=600.0)
    assert (result.terms, result.parts) == (("flock", "mutex"), ("How is a lock taken?", "Where is it?"))
    assert result.hypothetical_passage == ""
    assert result.problems == {"hyde": "the language model 'fake' replied with nothing of use"}
