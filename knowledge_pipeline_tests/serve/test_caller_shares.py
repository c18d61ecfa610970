"""One caller's requests wait for each other, and nobody else's wait for them."""

from __future__ import annotations

import asyncio
import gc

import anyio
import pytest

from knowledge_pipeline.config import file
from knowledge_pipeline.errors import Overloaded, ResponseTimeout
from knowledge_pipeline.serve.service import CallerShares, Origin, Service
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.test_http_search import API

LOCAL = Origin("http", "127.0.0.1", host="127.0.0.1")


@pytest.fixture
def service(world):
    serve = world.settings.serve.model_copy(update={"max_concurrent_per_caller": 2})
    made = Service(world.settings.model_copy(update={"serve": serve}), config=world.config)
    yield made
    made.close()


def test_a_caller_who_asks_all_at_once_holds_up_nobody_else(service, world):
    async def ask() -> tuple[int, str]:
        running, most, release = 0, 0, asyncio.Event()

        async def work() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await release.wait()
            running -= 1

        async def answer() -> str:
            return "answered"

        greedy = service.identify(world.tokens["acme"], LOCAL)
        other = service.identify(world.tokens["globex"], LOCAL)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(service.execute(greedy, work))
            while running < 2:
                await asyncio.sleep(0)
            answered = await service.execute(other, answer)
            release.set()
        return most, answered

    assert anyio.run(ask) == (2, "answered")


def test_a_request_that_fails_or_gives_up_gives_its_slot_back():
    async def ask() -> int:
        shares = CallerShares(1)
        with pytest.raises(ZeroDivisionError):
            async with shares.hold("a"):
                raise ZeroDivisionError
        async with shares.hold("a"):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), shares.hold("a"):
                    pass
        async with shares.hold("a"):
            return 1

    assert anyio.run(ask) == 1


def test_of_one_caller_no_more_wait_than_may_and_who_waits_in_vain_is_told_when_to_come_back(world):
    serve = world.settings.serve.model_copy(
        update={"max_concurrent_per_caller": 1, "max_concurrent": 3, "timeout_s": 0.5}
    )
    service = Service(world.settings.model_copy(update={"serve": serve}), config=world.config)

    async def ask() -> list[BaseException | None]:
        identity = service.identify(world.tokens["acme"], LOCAL)
        tasks = [service.execute(identity, asyncio.Event().wait) for _ in range(6)]
        return await asyncio.gather(*tasks, return_exceptions=True)

    try:
        first, *others = anyio.run(ask)
    finally:
        service.close()
    assert isinstance(first, ResponseTimeout)  # which ran
    assert all(isinstance(other, Overloaded) and other.retry_after_s > 0 for other in others)
    sentences = [str(other) for other in others]
    assert ["wait already" in sentence for sentence in sentences] == [False] * 3 + [True] * 2
    assert all("its turn did not come" in sentence for sentence in sentences[:3])


def test_a_turn_that_does_not_come_is_503_over_http(world):
    with Running(world.settings, config=world.config, max_concurrent_per_caller=1, timeout_s=1.0) as running:
        client = running.client(world.tokens["acme"])
        key = f"token {running.service.identify(world.tokens['acme'], LOCAL).access.caller.token}"
        held = running.service._shares._slots[key] = asyncio.Semaphore(0)  # as by a request that lasts
        assert held.locked()
        answer = client.post(f"{API}/search", json={"query": "payments"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "turn did not come" in answer.json()["detail"]


def test_callers_who_no_longer_ask_are_forgotten():
    async def ask() -> int:
        shares = CallerShares(1)
        for number in range(100):
            async with shares.hold(f"address {number}"):
                pass
        gc.collect()
        return len(shares._slots)

    assert anyio.run(ask) == 0


def test_the_share_is_a_setting(tmp_path):
    path = tmp_path / "knowledge.yaml"
    path.write_text("serve: {max_concurrent_per_caller: 3}\n")
    assert file.load_settings(path).serve.max_concurrent_per_caller == 3
