"""The client of a language model, against a small real endpoint."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from knowledge_pipeline.config.model import UnsetSecret
from knowledge_pipeline.config.settings import LanguageModelSettings
from knowledge_pipeline.errors import ConfigError, LanguageModelUnavailable, ModelError
from knowledge_pipeline.llm.model import LanguageModel
from knowledge_pipeline.llm.model_calls import Completion, Message, ModelCall, UsageAccount, on_behalf_of
from knowledge_pipeline_tests.counted import audited
from knowledge_pipeline_tests.fakes.chat_server import ChatServer
from knowledge_pipeline_tests.fakes.openai_server import Fault

HELLO = (Message("system", "be kind"), Message("user", "hello there"))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


def settings_of(server: ChatServer, **changes: Any) -> LanguageModelSettings:
    known = {"model": "fake", "base_url": server.url, "api_key": server.key}
    return LanguageModelSettings.model_validate(known | changes)


class Asked:
    """What came of several completions of one model, in order: completions or errors."""

    def __init__(self, settings: LanguageModelSettings, times: int = 1, **how: Any) -> None:
        self.calls: list[ModelCall] = []
        self.seconds: list[float] = []
        self.outcomes = asyncio.run(self._ask(LanguageModel(settings, record=self.calls.append), times, how))

    async def _ask(self, model: LanguageModel, times: int, how: dict) -> list[Completion | Exception]:
        outcomes = []
        for _ in range(times):
            began = time.monotonic()
            outcomes += await asyncio.gather(model.complete(HELLO, **how), return_exceptions=True)
            self.seconds.append(time.monotonic() - began)
        await model.aclose()
        return outcomes

    @property
    def completion(self) -> Completion:
        """The last one."""
        last = self.outcomes[-1]
        if isinstance(last, BaseException):
            raise last
        return last


def statuses(server: ChatServer) -> list[int]:
    return [request.status for request in server.requests]


def test_a_completion_is_the_text_with_its_tokens_and_cost(server):
    server.say("hello to you")
    prices = {"price_per_million_input_tokens": 2.0, "price_per_million_output_tokens": 10.0}
    asked = Asked(settings_of(server, **prices))
    completion = asked.completion
    assert (completion.text, completion.prompt_tokens, completion.completion_tokens) == ("hello to you", 4, 3)
    assert completion.cost == pytest.approx(38e-6)
    assert not completion.estimated and not completion.cut and 0 < completion.seconds < 60
    (call,) = asked.calls
    assert (call.model, call.requests, call.tokens, call.cost) == ("fake", 1, 7, completion.cost)


def test_a_request_names_model_messages_limit_and_key(server):
    Asked(settings_of(server, reasoning_effort="low"), max_tokens=70)
    (request,) = server.requests
    assert request.authorization == f"Bearer {server.key}"
    assert request.body == {
        "model": "fake",
        "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello there"}],
        "max_tokens": 70,
        "temperature": 0,
        "reasoning_effort": "low",
    }


def test_without_usage_the_tokens_are_estimated_and_marked_so():
    with ChatServer(usage=False, otherwise="four words are enough") as server:
        completion = Asked(settings_of(server, price_per_million_output_tokens=1e6)).completion
    assert completion.estimated
    assert 4 <= completion.completion_tokens <= 8 and 4 <= completion.prompt_tokens <= 20
    assert completion.cost == completion.completion_tokens


@pytest.mark.parametrize("usage", [b'"usage": null', b'"usage": {"prompt_tokens": "x"}', b'"usage": {}'])
def test_usage_that_makes_no_sense_is_estimated_too(server, usage):
    said = b'"choices": [{"message": {"content": "fine"}}]'
    server.fail_next(Fault(body=b"{%s, %s}" % (said, usage)))
    assert Asked(settings_of(server)).completion.estimated


def test_an_answer_that_ends_at_the_limit_says_so():
    with ChatServer(finish_reason="length") as server:
        assert Asked(settings_of(server)).completion.cut


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>well, [9]?</think>\n\n[1]", "[1]"),
        ("well, [9]?\n</think>\n[1]", "[1]"),
        ("<think>well, and then", ""),
        ("the tag <think> is odd", "the tag <think> is odd"),
        ("  \n ", ""),
    ],
)
def test_thinking_is_no_part_of_the_text(server, said, text):
    server.say(said)
    assert Asked(settings_of(server)).completion.text == text


def test_a_message_in_parts_and_an_empty_one_are_texts(server):
    server.fail_next(
        Fault(body=b'{"choices": [{"message": {"content": [{"text": "a"}, {"text": "b"}]}}]}'),
        Fault(body=b'{"choices": [{"message": {"content": null}}]}'),
    )
    assert [outcome.text for outcome in Asked(settings_of(server), times=2).outcomes] == ["ab", ""]


_PASSING_TROUBLE = [
    Fault(429, retry_after="0.1"),
    Fault(500),
    Fault(503, code="overloaded"),
    Fault(cut_off=True),
    Fault(body=b'{"choices": ['),
    Fault(body=b"[]"),
    Fault(body=b'{"choices": []}'),
    Fault(body=b'{"choices": [{}]}'),
    Fault(body=b'{"choices": [{"message": {"content": 7}}]}'),
    Fault(body=b'{"choices": {"message": "x"}}'),
    Fault(body=b'{"error": {"message": "provider failed"}}'),
]


def test_trouble_that_passes_is_tried_again():
    async def requests_despite(fault: Fault) -> tuple[int, list[ModelCall]]:
        with ChatServer() as server:
            server.fail_next(fault)
            calls: list[ModelCall] = []
            model = LanguageModel(settings_of(server), record=calls.append)
            assert (await model.complete(HELLO)).text == "so be it"
            await model.aclose()
            return len(server.requests), calls

    async def all_at_once():  # each waits for half a second
        return await asyncio.gather(*map(requests_despite, _PASSING_TROUBLE))

    for requests, calls in asyncio.run(all_at_once()):
        assert (requests, [call.requests for call in calls]) == (2, [2])


def test_a_slow_answer_is_not_waited_for_longer_than_configured(server):
    server.fail_next(Fault(wait_s=600))
    assert Asked(settings_of(server, timeout_s=1.0)).completion.text == "so be it"


def test_tries_are_bounded_and_the_message_names_the_endpoint(server):
    server.fail_next(*[Fault(500, code="server_error")] * 9)
    asked = Asked(settings_of(server, max_tries=2))
    with pytest.raises(LanguageModelUnavailable, match=r"/v1 answered 500 \(server_error\) \(try 2 of 2\)"):
        _ = asked.completion
    assert statuses(server) == [500, 500]
    assert [(call.requests, call.tokens, call.cost) for call in asked.calls] == [(2, 0, 0)]


def test_retry_after_is_waited_for_by_every_call(server):
    server.fail_next(Fault(429, retry_after="2"))

    async def two() -> None:
        model = LanguageModel(settings_of(server))
        first = asyncio.create_task(model.complete(HELLO))
        while not server.requests:
            await asyncio.sleep(0.01)
        limiter = model._endpoint._request_limiter
        while not limiter.estimate_wait_s() and not first.done():  # until the refusal has arrived
            await asyncio.sleep(0.01)
        await asyncio.gather(first, model.complete(HELLO))
        await model.aclose()

    asyncio.run(two())
    refused, *others = server.requests
    assert len(others) == 2 and all(request.at - refused.at > 1.9 for request in others)


def test_a_budget_ends_everything_and_closes_the_request(server):
    server.fail_next(Fault(wait_s=600))
    asked = Asked(settings_of(server), budget_s=2.0)
    assert asked.seconds[0] < 60
    with pytest.raises(LanguageModelUnavailable, match=r"took more than 2\.0 s: allow it more time"):
        _ = asked.completion
    assert [(call.requests, call.tokens) for call in asked.calls] == [(1, 0)]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(Fault(429, retry_after="30"), "asks to wait 30 s"), (Fault(429, retry_after="3600"), "3600 s")],
)
def test_what_cannot_come_within_the_budget_is_not_waited_for(server, fault, reason):
    server.fail_next(fault)
    asked = Asked(settings_of(server), times=2, budget_s=20)
    first, second = asked.outcomes
    assert isinstance(first, LanguageModelUnavailable) and reason in str(first)
    assert isinstance(second, LanguageModelUnavailable) and "rate limit" in str(second)
    assert statuses(server) == [429]


def test_requests_keep_to_the_rates_per_minute(server):
    fast = Asked(settings_of(server, requests_per_minute=300), times=4)
    assert sum(fast.seconds) > 0.59  # three gaps of 0.2 s
    several = Asked(settings_of(server, tokens_per_minute=3000), times=3)
    assert sum(several.seconds) > 0.3  # some 15 tokens each


def test_never_more_requests_at_once_than_configured():
    async def many(server: ChatServer) -> None:
        model = LanguageModel(settings_of(server, max_concurrent=2))
        await asyncio.gather(*(model.complete(HELLO) for _ in range(6)))
        await model.aclose()

    with ChatServer(wait_s=0.1, gathered=2) as server:
        asyncio.run(many(server))
        assert (server.most_at_once, len(server.requests)) == (2, 6)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(403), "403: the key may not use the model 'fake'"),
        (Fault(404), "404: check language_model.base_url"),
        (Fault(302), "302: it has moved"),
        (Fault(429, code="insufficient_quota"), "the account has no quota left"),
        (Fault(body=b"<html>", content_type="text/html"), "web page: check language_model.base_url"),
    ],
)
def test_a_refusal_for_good_says_what_to_fix_and_the_endpoint_is_left_alone_for_a_while(
    server, fault, message
):
    server.fail_next(fault)
    for outcome in Asked(settings_of(server), times=2).outcomes:
        assert isinstance(outcome, ModelError) and message in str(outcome)
    assert len(server.requests) == 1


def test_a_request_that_alone_is_refused_does_not_stop_the_next(server):
    server.fail_next(Fault(400, message="the prompt is odd"), Fault(413))
    first, second, third = Asked(settings_of(server), times=3).outcomes
    assert isinstance(first, ModelError) and "400: check language_model.model ('fake')" in str(first)
    assert isinstance(second, ModelError) and isinstance(third, Completion)


def test_an_endpoint_that_is_down_costs_the_next_question_nothing():
    with ChatServer() as server:
        settings = settings_of(server, max_tries=2)
    with audited("socket.connect") as connections:
        asked = Asked(settings, times=3, budget_s=60)
    assert all(isinstance(outcome, LanguageModelUnavailable) for outcome in asked.outcomes)
    assert "did not answer (ConnectError) (try 2 of 2)" in str(asked.outcomes[2])
    tried = [address for _, (_, address) in connections if address[1] == server.port]
    assert len(tried) == 2 and len(asked.calls) == 1


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        (("max_tokens",), {"max_completion_tokens", "temperature", "reasoning_effort"}),
        (("temperature",), {"max_tokens", "reasoning_effort"}),
        (("max_tokens", "temperature", "reasoning_effort"), {"max_completion_tokens"}),
    ],
)
def test_parameters_that_a_model_does_not_take_are_left_out_from_then_on(refused, left):
    with ChatServer(refused=refused) as server:
        asked = Asked(settings_of(server, reasoning_effort="low"), times=2)
        assert asked.completion.text == "so be it"
        assert statuses(server) == [*[400] * len(refused), 200, 200]
        assert server.requests[-1].body.keys() == {"model", "messages"} | left
        assert asked.calls[0].requests == len(refused) + 1


def test_neither_the_key_nor_the_texts_reach_a_message_or_a_log(server, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = "wrong" + "-key-5678"
    server.fail_next(Fault(400, message=f"cannot complete 'hello there' with {server.key}"))
    outcomes = [Asked(settings_of(server)).outcomes[0], Asked(settings_of(server, api_key=wrong)).outcomes[0]]
    assert [type(outcome) for outcome in outcomes] == [ModelError, ModelError]
    assert "set language_model.api_key" in str(outcomes[1])
    told = f"{outcomes} {caplog.text}"
    assert "chat/completions" in caplog.text  # httpx2 tells the URL
    for secret in (wrong, server.key, "hello there", "be kind"):
        assert secret not in told


def test_an_unpaired_surrogate_is_sent_as_a_question_mark(server):
    async def ask() -> None:
        model = LanguageModel(settings_of(server))
        await model.complete([Message("user", "caf\udce9")])
        await model.aclose()

    asyncio.run(ask())
    assert server.prompts == ["caf?"]


def test_a_model_can_be_asked_from_one_event_loop_after_another(server):
    model = LanguageModel(settings_of(server))

    async def ask() -> str:
        text = (await model.complete(HELLO)).text
        await model.aclose()
        return text

    assert [asyncio.run(ask()) for _ in range(2)] == ["so be it"] * 2


def test_a_call_goes_on_the_account_it_was_made_for(server):
    calls: list[ModelCall] = []

    async def ask() -> None:
        model = LanguageModel(settings_of(server), record=calls.append)
        with on_behalf_of(session="s-1", project="shop"):
            inner = asyncio.create_task(model.complete(HELLO))
        await asyncio.gather(inner, model.complete(HELLO))
        await model.aclose()

    asyncio.run(ask())
    assert {call.account for call in calls} == {UsageAccount("s-1", "shop"), UsageAccount()}


def test_wrong_settings_are_refused_before_anything_is_asked():
    with pytest.raises(ConfigError, match=r"language_model\.base_url is not a URL"):
        LanguageModel(LanguageModelSettings(model="m", base_url="api.example.com"))
    with pytest.raises(ConfigError, match=r"language_model\.api_key .*no header can carry") as refused:
        LanguageModel(LanguageModelSettings.model_validate({"model": "m", "api_key": "sec\nret"}))
    assert "sec" not in str(refused.value)


def test_without_the_variable_of_its_key_a_model_is_down():
    settings = LanguageModelSettings.model_validate(
        {"model": "m", "api_key": UnsetSecret("${K}", "K is not set")}
    )
    with pytest.raises(LanguageModelUnavailable, match="K is not set"):
        asyncio.run(LanguageModel(settings).complete([Message("user", "hi")]))
