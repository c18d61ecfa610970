"""Questions to an endpoint: those that wait share a request, and none answers for another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding import query_embedder
from knowledge_pipeline.embedding.base import BatchEmbedder, Usage
from knowledge_pipeline.embedding.query_embedder import QueryBatches, QueryEmbedder, VectorUnavailable
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.llm.model_calls import current_account, on_behalf_of
from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer, word_vector

FIRST, LATER = ["red apple", "green pear"], ["blue plum", "grey fig", "blue plum", "black olive"]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(wait_s=60) as server:
        yield server
        server.go_on()


def declare(server: OpenAIServer) -> Settings:
    return Settings.model_validate(
        {
            "embedding": {
                "provider": "openai",
                "model": "fake",
                "base_url": server.url,
                "api_key": server.key,
                "dimensions": server.dimensions,
                "max_tries": 1,
                "price_per_million_tokens": 1_000_000,
            }
        }
    )


async def ask(server: OpenAIServer, texts: Sequence[str]) -> list[np.ndarray | BaseException]:
    """The answers to `FIRST`, which the endpoint keeps waiting, and to texts that come meanwhile."""
    settings = declare(server)
    embedder, space = QueryEmbedder(settings), resolve_space(settings.embedding)

    def embed(text: str) -> asyncio.Task[np.ndarray]:
        return asyncio.create_task(embedder.embed(text, space=space.name, dimensions=space.dimensions))

    first: list[asyncio.Task[np.ndarray]] = []
    async with asyncio.timeout(60):
        for text in FIRST:  # one after another: two that come at the same moment may share a request
            first.append(embed(text))
            while server.at_once < len(first):
                await asyncio.sleep(0.005)
    later = [embed(text) for text in texts]
    await asyncio.sleep(0)
    server.wait_s = 0.0
    server.go_on()
    answers = await asyncio.gather(*first, *later, return_exceptions=True)
    embedder.close()
    return answers


def test_questions_that_come_while_requests_are_under_way_share_the_next_one(server: OpenAIServer) -> None:
    answers = asyncio.run(ask(server, LATER))
    expected = [word_vector(text, server.dimensions) for text in (*FIRST, *LATER)]
    assert np.array(answers) == pytest.approx(np.array(expected), abs=1e-6)
    assert sorted(request.texts for request in server.requests) == sorted(
        [(FIRST[0],), (FIRST[1],), ("blue plum", "grey fig", "black olive")]
    )


def test_each_asker_pays_for_a_share_of_what_a_request_costs(server: OpenAIServer) -> None:
    server.wait_s = 0.0
    settings, paid = declare(server), list[tuple[str | None, int, float]]()
    space = resolve_space(settings.embedding)

    def record(embedding: EmbeddingSettings, usage: Usage, seconds: float) -> None:
        assert embedding.model == "fake" and 0 < seconds < 60
        paid.append((current_account.get().session, usage.tokens, usage.cost))

    async def ask_all(embedder: QueryEmbedder) -> None:
        async def embed(session: str, text: str) -> None:
            with on_behalf_of(session=session):
                await embedder.embed(text, space=space.name, dimensions=space.dimensions)

        await embed("s-0", "red apple")
        async with asyncio.TaskGroup() as asking:
            for number, text in enumerate(["red apple", "green pear", *LATER], 1):
                asking.create_task(embed(f"s-{number}", text))

    with closing(QueryEmbedder(settings, record)) as embedder:
        asyncio.run(ask_all(embedder))
    assert {session for session, _, _ in paid} == {f"s-{number}" for number in range(7)}
    words = [len(text.split()) for request in server.requests for text in request.texts]
    assert sum(cost for _, _, cost in paid) == pytest.approx(sum(words)), "what the endpoint billed"
    assert all(cost == pytest.approx(tokens, abs=0.5) for _, tokens, cost in paid)


def test_a_question_that_is_refused_leaves_the_others_their_vectors(server: OpenAIServer) -> None:
    waiting = Fault(wait_s=60)
    server.fail_next(waiting, waiting, Fault(400), Fault(400))  # those under way, the shared one, its first
    *answered, refused, other = asyncio.run(ask(server, ["blue plum", "grey fig"]))
    assert len(answered) == 2 and isinstance(refused, VectorUnavailable) and "400" in str(refused)
    assert np.array(other) == pytest.approx(word_vector("grey fig", server.dimensions), abs=1e-6)


def test_a_question_that_comes_as_the_last_request_ends_is_sent(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_embedder, "_REQUESTS", 1)
    server.wait_s = 0.0
    embedder = open_embedder(declare(server).embedding)
    assert isinstance(embedder, BatchEmbedder)

    async def ask_in_turn(pool: ThreadPoolExecutor) -> list[np.ndarray]:
        batches = QueryBatches(embedder, pool)
        return [await batches.embed(text) for text in FIRST]

    with ThreadPoolExecutor(1) as pool:
        vectors = asyncio.run(asyncio.wait_for(ask_in_turn(pool), 20))
    assert np.array(vectors) == pytest.approx(
        np.array([word_vector(text, server.dimensions) for text in FIRST]), abs=1e-6
    )
