"""What is expensive is computed in a process of its own, so that nobody else waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Iterator
from typing import Any

import anyio
import pytest

from knowledge_pipeline.background import BackgroundProcess
from knowledge_pipeline.background_worker import NICENESS
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.errors import NotFound, ResponseTimeout, TransientError
from knowledge_pipeline.query.limits import is_expensive
from knowledge_pipeline.serve.service import Identity, Origin, RecentCallers, Service
from knowledge_pipeline_tests.serve.world import World

LOCAL = Origin("http", "127.0.0.1", host="127.0.0.1")


def with_timeout(world: World, seconds: float) -> Settings:
    serve = world.settings.serve.model_copy(update={"timeout_s": seconds})
    return world.settings.model_copy(update={"serve": serve})


@pytest.fixture
def service(world: World) -> Iterator[Service]:
    made = Service(with_timeout(world, 600), config=world.config)  # other tests leave a nice process little
    yield made
    made.close()


@pytest.fixture
def acme(service: Service, world: World) -> Identity:
    return service.identify(world.tokens["acme"], LOCAL)


@pytest.fixture
def globex(service: Service, world: World) -> Identity:
    return service.identify(world.tokens["globex"], LOCAL)


def pid_of(service: Service) -> int | None:
    return service.base._background.pid


def search(service: Service, caller: Identity, text: str = "retry payments") -> Awaitable[Any]:
    return service.execute(caller, lambda: service.base.search(text, access=caller.access))


def build_context(service: Service, caller: Identity, task: str = "retry payments") -> Awaitable[Any]:
    return service.execute(caller, lambda: service.base.context(task, access=caller.access))


def find_usages(service: Service, caller: Identity, target: str) -> Awaitable[Any]:
    return service.execute(caller, lambda: service.base.graph.find_usages(target, access=caller.access))


def get_document(service: Service, caller: Identity) -> Awaitable[Any]:
    return service.execute(caller, lambda: service.base.get("acme-docs:README.md", access=caller.access))


def test_who_asks_alone_is_answered_by_the_server_itself(service, acme):
    async def ask() -> None:
        await search(service, acme)
        await build_context(service, acme)

    anyio.run(ask)
    assert pid_of(service) is None


def test_the_answers_of_both_processes_are_the_same(service, acme, globex):
    async def ask() -> list[dict[str, Any]]:
        similar = service.base.similar(text="def retry(payment)", access=acme.access)
        long = service.base.search("how are payments retried " * 30, type=None, access=acme.access)
        document = await get_document(service, acme)
        answers = [await build_context(service, acme), await similar, await long, document]
        return [untimed(each.as_json()) for each in (*answers, await find_usages(service, acme, "Store"))]

    async def ask_twice() -> tuple[list[Any], list[Any]]:
        _, here = await ask(), await ask()  # the first ones read vectors from the index, not from memory
        await search(service, globex)
        _, there = await ask(), await ask()
        return here, there

    here, there = anyio.run(ask_twice)
    assert here == there
    own, other = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, pid_of(service) or 0))
    assert other == min(own + NICENESS, 19)


def untimed(answer: Any) -> Any:
    """An answer as JSON, without what differs from one to the next."""
    if isinstance(answer, list):
        return [untimed(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    left_out = ("took_ms", "timings_ms", "steps", "query_id")
    return {name: untimed(value) for name, value in answer.items() if name not in left_out}


def test_nobody_waits_for_the_process_that_computes_what_is_expensive(service, acme, globex):
    async def ask() -> tuple[bool, Any]:
        await search(service, globex)
        await build_context(service, acme)
        os.kill(pid_of(service) or 0, signal.SIGSTOP)
        asked = (get_document(service, acme), *(build_context(service, acme, f"task {n}") for n in range(2)))
        waiting = [asyncio.ensure_future(each) for each in asked]
        for number in range(5):
            await search(service, globex, f"payment {number}")
        waited = not any(each.done() for each in waiting)
        os.kill(pid_of(service) or 0, signal.SIGCONT)
        return waited, await asyncio.gather(*waiting)

    waited, (document, *contexts) = anyio.run(ask)
    assert waited and document.results and all(each.text for each in contexts)


def test_errors_of_the_process_are_raised_where_the_query_came_from(service, acme, globex):
    async def ask() -> None:
        await search(service, globex)
        with pytest.raises(NotFound, match="no_such_name"):
            await find_usages(service, acme, "no_such_name")

    anyio.run(ask)


def test_a_process_that_is_killed_fails_its_queries_and_the_next_one_starts_another(service, acme, globex):
    async def ask() -> tuple[int | None, Any]:
        await search(service, globex)
        await build_context(service, acme)
        killed = pid_of(service)
        os.kill(killed or 0, signal.SIGSTOP)
        waiting = asyncio.ensure_future(build_context(service, acme, "another task"))
        await search(service, globex)
        os.kill(killed or 0, signal.SIGKILL)
        with pytest.raises(TransientError, match="ended unexpectedly: try again"):
            await waiting
        return killed, await build_context(service, acme, "another task")

    killed, answer = anyio.run(ask)
    assert answer.text and pid_of(service) not in (None, killed)


def test_a_query_that_takes_too_long_is_given_up_in_both_processes(world):
    service = Service(with_timeout(world, 0.5), config=world.config)
    acme, globex = (service.identify(world.tokens[name], LOCAL) for name in ("acme", "globex"))

    async def ask() -> None:
        def note_callers() -> None:
            service._callers.note(acme.rate_limit_key)
            service._callers.note(globex.rate_limit_key)

        note_callers()
        await service.base.context("retry payments", access=acme.access)  # which has no time-out
        pid = pid_of(service) or 0
        os.kill(pid, signal.SIGSTOP)
        note_callers()  # the process may have taken long to start
        with pytest.raises(ResponseTimeout):
            await build_context(service, acme, "another task")
        while service.base._background._pending:
            await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGCONT)
        assert (await service.base.context("a third task", access=acme.access)).text
        assert pid_of(service) == pid

    try:
        anyio.run(ask)
    finally:
        service.close()


def test_a_process_that_nobody_needs_ends(world):
    async def ask() -> tuple[bool, int | None]:
        background = BackgroundProcess(world.settings, is_wanted=lambda: True, idle_s=0)
        assert await background.compute(os.getpid) != os.getpid()
        while background.pid:
            await asyncio.sleep(0.01)
        other = await background.compute(os.getpid)
        await background.aclose()
        return other != os.getpid(), background.pid

    assert anyio.run(ask) == (True, None)


@pytest.mark.parametrize(
    ("text", "filters", "expensive"),
    [
        ("how are payments retried", Filters(), False),
        ("how are payments retried path:src lang:python", Filters(authors=("jane",)), False),
        ("payments " * 60, Filters(), True),
        ("payments", Filters(paths=("a", "b", "c", "d")), True),
        ("payments path:a,b", Filters(paths=("c", "d")), True),
        ("payments", Filters(tags=tuple(map(str, range(21)))), True),
    ],
)
def test_a_search_is_expensive_by_its_length_and_its_filters(text, filters, expensive):
    assert is_expensive(text, filters) is expensive


def test_callers_are_several_while_two_have_asked_within_the_window():
    at_s = [0.0]
    callers = RecentCallers(window_s=60, clock=lambda: at_s[0])
    assert not callers.are_several
    for _ in range(3):
        callers.note("a")
    assert not callers.are_several
    callers.note("b")
    assert callers.are_several
    at_s[0] += 61
    assert not callers.are_several
    callers.note("c")
    assert list(callers._asked_s) == ["c"]
