"""Questions to an endpoint: those that wait share a request, and none answers for another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding import query_embedder
from knowledge_pipeline.embedding.base import BatchEmbedder
from knowledge_pipeline.embedding.query_embedder import QueryBatches, QueryEmbedder, VectorUnavailable
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
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
