import gc
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer, word_vector

_TEXTS = [f"text number {number}" for number in range(10)]


@pytest.fixture
def server():
    with OpenAIServer() as running:
        yield running


def embedder_of(server, **changes):
    settings = {"base_url": server.url, "api_key": server.key, "dimensions": server.dimensions} | changes
    return open_embedder(EmbeddingSettings(provider="openai", model="fake", **settings))


def expected(texts):
    return np.asarray([word_vector(text, 32) for text in texts], np.float32)


def statuses(server):
    return [request.status for request in server.requests]


def test_vectors_are_normalised_and_in_the_order_of_the_texts(server):
    vectors = embedder_of(server, batch_size=3).embed(_TEXTS)
    assert (vectors.dtype, len(server.requests)) == (np.float32, 4)
    np.testing.assert_allclose(vectors, expected(_TEXTS), atol=1e-6)
    assert sorted(server.texts) == sorted(_TEXTS)


def test_vectors_that_arrive_in_another_order_go_where_their_index_says():
    with OpenAIServer(shuffled=True) as server:
        np.testing.assert_allclose(embedder_of(server).embed(_TEXTS), expected(_TEXTS), atol=1e-6)


def test_a_query_gets_the_vector_of_the_same_text(server):
    embedder = embedder_of(server)
    np.testing.assert_array_equal(embedder.embed_query("read a file"), embedder.embed(["read a file"])[0])


def test_no_texts_ask_nothing(server):
    assert embedder_of(server).embed([]).shape == (0, 32)
    assert server.requests == []


def test_nothing_is_asked_before_the_first_text(server):
    embedder_of(server).tokenizer()("some text")
    assert server.requests == []


def test_every_request_names_the_model_its_dimensions_and_the_key(server):
    embedder_of(server).embed(["text"])
    (request,) = server.requests
    assert request.authorization == f"Bearer {server.key}"
    assert request.body == {"model": "fake", "input": ["text"], "encoding_format": "float", "dimensions": 32}


def test_usage_counts_texts_billed_tokens_requests_and_cost(server):
    embedder = embedder_of(server, batch_size=5, price_per_million_tokens=2.0)
    embedder.embed(_TEXTS)
    embedder.embed_query("one two")
    usage = embedder.usage
    assert (usage.texts, usage.tokens, usage.requests) == (11, 32, 3)
    assert usage.cost == pytest.approx(64e-6)


def test_a_failed_try_counts_as_a_request_but_not_its_texts(server):
    server.fail_next(Fault(500))
    embedder = embedder_of(server)
    embedder.embed(["one two"])
    assert (embedder.usage.texts, embedder.usage.tokens, embedder.usage.requests) == (1, 2, 2)


def test_requests_run_side_by_side_but_never_more_than_configured():
    with OpenAIServer(wait_s=0.1, gathered=3) as server:
        embedder_of(server, batch_size=1, max_concurrent=3).embed(_TEXTS)
        assert server.most_at_once == 3


_PASSING_TROUBLE = [
    Fault(429, retry_after="0.1"),
    Fault(500),
    Fault(503, code="overloaded"),
    Fault(cut_off=True),
    Fault(body=b'{"data": ['),
    Fault(body=b"[]"),
    Fault(body=b'{"data": []}'),
    Fault(body=b'{"data": [{"index": 7, "embedding": [1, 2]}]}'),
    Fault(body=b'{"data": [{"index": 0, "embedding": ["x"]}]}'),
    Fault(body=b'{"data": ["x"]}'),
    Fault(body=b'{"error": {"message": "provider failed"}}'),
    Fault(body=b'{"data": [{"index": 0, "embedding": [%s]}]}' % b", ".join([b"NaN"] * 32)),
    Fault(body=b'{"data": [{"index": 0, "embedding": [%s]}]}' % b", ".join([b"0"] * 32)),
]


def test_trouble_that_passes_is_tried_again():
    def requests_despite(fault):
        with OpenAIServer() as server:
            server.fail_next(fault)
            vectors = embedder_of(server).embed(["text"])
            np.testing.assert_allclose(vectors, expected(["text"]), atol=1e-6)
            return len(server.requests)

    with ThreadPoolExecutor(len(_PASSING_TROUBLE)) as pool:  # all at once: each waits for half a second
        assert list(pool.map(requests_despite, _PASSING_TROUBLE)) == [2] * len(_PASSING_TROUBLE)


def test_a_slow_answer_is_not_waited_for_longer_than_configured(server):
    server.fail_next(Fault(wait_s=600))
    np.testing.assert_allclose(
        embedder_of(server, timeout_s=1.0).embed(["text"]), expected(["text"]), atol=1e-6
    )


def test_tries_are_bounded_and_the_message_names_the_endpoint(server):
    server.fail_next(*[Fault(500, code="server_error")] * 9)
    with pytest.raises(EmbeddingUnavailable, match=r"/v1 answered 500 \(server_error\) \(try 2 of 2\)"):
        embedder_of(server, max_tries=2).embed(["text"])
    assert statuses(server) == [500, 500]


def test_an_endpoint_that_is_down_is_unavailable():
    with OpenAIServer() as server:
        embedder = embedder_of(server, max_tries=1)
    with pytest.raises(EmbeddingUnavailable, match="did not answer"):
        embedder.embed(["text"])


def test_retry_after_in_seconds_is_waited_for(server):
    server.fail_next(Fault(429, retry_after="1"))
    started = time.monotonic()
    embedder_of(server).embed(["text"])
    assert 1 <= time.monotonic() - started < 60
    assert statuses(server) == [429, 200]


def test_retry_after_as_a_date_is_waited_for(server):
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    server.fail_next(Fault(429, retry_after=format_datetime(date, usegmt=True)))
    embedder_of(server).embed(["text"])
    assert date <= datetime.now(UTC) < date + timedelta(seconds=60)
    assert statuses(server) == [429, 200]


def test_a_busy_endpoint_holds_back_every_thread(server):
    server.fail_next(Fault(429, retry_after="2"))
    embedder = embedder_of(server, batch_size=1, max_concurrent=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(embedder.embed, ["one"])
        limiter = embedder._endpoint._request_limiter
        while not limiter.estimate_wait_s() and not first.done():  # until the refusal has arrived
            time.sleep(0.01)
        embedder.embed(["two"])
        first.result()
    refused, *others = server.requests
    assert [request.at - refused.at > 1.9 for request in others] == [True, True]


def test_an_endpoint_that_asks_for_an_hour_is_unavailable_at_once(server):
    server.fail_next(Fault(429, retry_after="3600"))
    with pytest.raises(EmbeddingUnavailable, match="asks to wait 3600 s"):
        embedder_of(server).embed(["text"])
    assert statuses(server) == [429]


def test_a_query_is_given_up_after_two_tries_and_never_waits_long(server):
    server.fail_next(*[Fault(500)] * 5)
    with pytest.raises(EmbeddingUnavailable, match="try 2 of 2"):
        embedder_of(server).embed_query("text")
    assert statuses(server) == [500, 500]

    with OpenAIServer() as healthy:
        slow = embedder_of(healthy, requests_per_minute=1)
        slow.embed_query("first")
        for text in ("second", "third"):  # a refused query takes no place in the queue
            with pytest.raises(EmbeddingUnavailable, match=r"at its rate limit: ask again in (60|[345]\d) s"):
                slow.embed_query(text)


def test_requests_keep_to_the_rate_per_minute(server):
    started = time.monotonic()
    embedder_of(server, batch_size=1, requests_per_minute=300, max_concurrent=4).embed(_TEXTS[:4])
    assert time.monotonic() - started > 0.59  # three gaps of 0.2 s
    assert len(server.requests) == 4


def test_tokens_keep_to_the_rate_per_minute(server):
    started = time.monotonic()
    embedder_of(server, batch_size=1, tokens_per_minute=6000, max_concurrent=4).embed(["word " * 30] * 3)
    assert time.monotonic() - started > 0.59  # 30 tokens each: 0.3 s apart
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(403), "403: the key may not use the model 'fake'"),
        (Fault(404), "404: check embedding.base_url"),
        (Fault(400), "400: check embedding.model"),
        (Fault(302), "302: it has moved"),
        (Fault(429, code="insufficient_quota"), r"429 \(insufficient_quota\): the account has no quota left"),
        (
            Fault(body=b"<html>", content_type="text/html"),
            "answers with a web page: check embedding.base_url",
        ),
    ],
)
def test_a_refusal_for_good_fails_at_once_and_says_what_to_fix(server, fault, message):
    server.fail_next(fault)
    with pytest.raises(ModelError, match=message):
        embedder_of(server).embed(["text"])
    assert len(server.requests) == 1


def test_other_dimensions_than_configured_name_the_right_number(server):
    with pytest.raises(ModelError, match=r"32 dimensions, not 64: set embedding.dimensions to 32"):
        embedder_of(server, dimensions=64).embed(["text"])


def test_neither_the_key_nor_the_texts_reach_a_message_or_a_log(server, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = "wrong" + "-key-5678"
    with pytest.raises(ModelError, match=r"401 .*set embedding\.api_key") as refused:
        embedder_of(server, api_key=wrong).embed(["a private text"])
    server.fail_next(Fault(400, message=f"cannot embed 'a private text' with {server.key}"))
    with pytest.raises(ModelError) as unclear:
        embedder_of(server).embed(["a private text"])
    told = f"{refused.value} {unclear.value} {caplog.text}"
    assert "embeddings" in caplog.text  # httpx2 tells the URL
    for secret in (wrong, server.key, "private text"):
        assert secret not in told


def test_an_endpoint_that_refuses_dimensions_is_asked_without_them():
    with OpenAIServer(knows_dimensions=False) as server:
        embedder = embedder_of(server, batch_size=2)
        np.testing.assert_allclose(embedder.embed(_TEXTS), expected(_TEXTS), atol=1e-6)
        embedder.embed(["later"])
        assert "dimensions" not in server.requests[-1].body
        assert statuses(server).count(200) == 6


def test_a_text_is_cut_at_a_token_and_an_empty_one_sent_as_a_space(server):
    embedder_of(server, max_input_tokens=16).embed(["word " * 50, "", "\n"])
    assert server.texts == ["word " * 16, " ", " "]


def test_a_text_that_the_endpoint_finds_too_long_is_halved_and_its_neighbours_left_alone():
    long, short = "tok " * 100, "a short one"
    with OpenAIServer(max_words=30) as server:
        vectors = embedder_of(server).embed([short, long, short])
    np.testing.assert_allclose(vectors, expected([short, "tok " * 25, short]), atol=1e-6)


def test_an_endpoint_that_finds_everything_too_long_is_a_refusal(server):
    server.fail_next(*[Fault(413)] * 20)
    with pytest.raises(ModelError, match="413"):
        embedder_of(server).embed(["some text of a few words"])


def test_an_error_in_one_batch_stops_the_others():
    with OpenAIServer() as server:
        server.fail_next(Fault(404))
        started = time.monotonic()
        with pytest.raises(ModelError):
            embedder_of(server, batch_size=1, requests_per_minute=1, max_concurrent=4).embed(_TEXTS)
        assert time.monotonic() - started < 60  # not the nine minutes that the rate alone would take
        assert len(server.requests) == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPool")]


def test_an_unpaired_surrogate_is_embedded_as_a_question_mark(server):
    embedder_of(server).embed(["caf\udce9"])
    assert server.texts == ["caf?"]


def test_connections_are_closed_with_the_embedder(server):
    embedder = embedder_of(server)
    embedder.embed(["text"])
    client = embedder._get_client()
    del embedder
    gc.collect()
    assert client.is_closed


def test_a_space_is_told_without_asking_and_changes_with_endpoint_model_dimensions_and_cut():
    settings = EmbeddingSettings(
        provider="openai", model="owner/Text-Large", dimensions=8, base_url="http://nowhere.invalid/v1"
    )
    space = resolve_space(settings)
    assert space.name.startswith("text-large-")
    assert (space.model, space.dimensions, space.max_tokens) == ("owner/Text-Large", 8, 8191)

    changes = [
        {},
        {"model": "b"},
        {"dimensions": 9},
        {"base_url": "http://x.invalid/v1"},
        {"max_input_tokens": 99},
    ]
    assert len({resolve_space(settings.model_copy(update=change)).name for change in changes}) == 5
    same = {"api_key": "k", "batch_size": 7, "base_url": "http://me:pass@nowhere.invalid/v1/"}
    assert resolve_space(settings.model_copy(update=same)) == space


def test_incomplete_settings_are_refused_before_anything_is_asked():
    with pytest.raises(ConfigError, match=r"embedding\.dimensions is missing"):
        open_embedder(EmbeddingSettings(provider="openai"))
    for url in ("api.openai.com/v1", "ftp://x/v1", "http://", "https:///v1", ""):
        with pytest.raises(ConfigError, match=r"embedding\.base_url is not a URL"):
            resolve_space(EmbeddingSettings(provider="openai", dimensions=8, base_url=url))
    with pytest.raises(ConfigError, match="no header can carry") as refused:
        open_embedder(EmbeddingSettings(provider="openai", dimensions=8, api_key="sec\nret"))
    assert "sec" not in str(refused.value)
