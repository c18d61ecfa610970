"""Nobody gets at what they may not see: by any door, any parameter, any error, any count.

Three tenants with public, tenant-wide and private sources; every caller sends generated attempts.
The suite is tried itself: with a leak planted anywhere it must find it.
"""

from __future__ import annotations

import json
import uuid

import pytest

from knowledge_pipeline_tests.serve.isolation import (
    CALLERS,
    REFUSED,
    Doors,
    Reply,
    Siege,
    Watch,
    hidden_from,
    secrets_of,
)
from knowledge_pipeline_tests.serve.isolation_attempts import PREFIX, Attempt
from knowledge_pipeline_tests.serve.isolation_plants import QUICK, SLOW, Plant, judged_by_all
from knowledge_pipeline_tests.serve.test_mcp_stdio import started
from knowledge_pipeline_tests.serve.world import SOURCES

BY_NETWORK = ("http", "mcp", "page")
FOR_ANYBODY = ("/health", "/ready", "/openapi.json", "/docs")


@pytest.fixture(scope="module")
def secrets(world):
    return secrets_of(world)


@pytest.fixture(scope="module")
def siege(world, secrets, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        for name, value in world.environment.items():
            patched.setenv(name, value)
        with Siege(world, tmp_path_factory.mktemp("siege"), secrets) as made:
            yield made


@pytest.fixture
def own_siege(world, secrets, tmp_path, monkeypatch):
    """Servers of its own: what a planted leak leaves in caches leaks nowhere else.

    They answer all by themselves: another process of theirs would have no leak.
    """
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    with Siege(world, tmp_path, secrets, background=False) as made:
        yield made


def test_no_attempt_gets_at_what_a_caller_may_not_see(siege):
    assert list(siege.leaks("acme", 14, compared=False)) == []


@pytest.mark.slow
@pytest.mark.parametrize("caller", sorted(CALLERS, key=lambda caller: len(hidden_from(caller))))
def test_none_of_many_attempts_gets_at_what_a_caller_may_not_see(siege, caller):
    assert list(siege.leaks(caller, 20, seed=100 + CALLERS.index(caller))) == []


@pytest.mark.parametrize("caller", REFUSED)
def test_who_is_not_known_is_told_nothing_by_any_door(siege, caller):
    assert told_to_who_is_refused(siege, caller, 24) == []


def test_who_may_only_manage_one_tenants_sources_sees_no_content_and_no_others_sources(siege):
    assert list(siege.leaks("admin", 44, seed=3, doors=BY_NETWORK, compared=False)) == []
    doors = siege.doors("admin")
    for attempt in siege.attempts("admin", 14, seed=4, doors=("http",)):
        is_of_api = attempt.method == "POST" and not attempt.name.startswith("/webhooks/")
        if is_of_api and not attempt.name.endswith(("sync", "feedback", "model-calls")):
            assert doors.send(attempt).status in (403, 422), attempt


def test_the_questions_of_others_are_judged_as_questions_that_never_were(siege):
    assert judged_otherwise(siege) == []


@pytest.mark.slow
def test_that_others_questions_can_be_judged_is_noticed(own_siege, monkeypatch):
    judged_by_all(monkeypatch)
    assert judged_otherwise(own_siege)


def test_no_label_of_a_metric_names_a_source_or_a_document(siege):
    told = siege.doors("operator").send(Attempt("http", "/metrics", method="GET"))
    assert told.status == 200 and "knowledge_queries_total" in told.text
    assert Watch(siege.secrets, SOURCES).found(Attempt("http", "/metrics"), told.text) is None


@pytest.mark.slow
def test_the_attempts_get_answers_and_find_what_may_be_seen(siege):
    """An empty answer to everything would leak nothing, too."""
    doors = siege.doors("gil")
    watch = Watch(siege.secrets, [source for source in SOURCES if source not in hidden_from("gil")])
    attempts = list(siege.attempts("gil", 51, seed=5, doors=("http", "mcp", "page", "python")))
    replies = [(attempt, doors.send(attempt)) for attempt in attempts]
    found = {attempt.door for attempt, reply in replies if watch.found(attempt, reply.text)}
    assert found == {"http", "mcp", "page", "python"}
    assert sum(reply.status == 200 for _, reply in replies) > 20
    assert sum(reply.status == 422 for _, reply in replies) < 8


@pytest.mark.sampled
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_leak_is_found(own_siege, name, monkeypatch):
    assert found(own_siege, QUICK[name], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_leak_planted_anywhere_is_found(own_siege, name, monkeypatch):
    assert found(own_siege, SLOW[name], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("caller", ["public", "gil"])
def test_a_process_that_speaks_mcp_with_a_token_tells_nothing_hidden(siege, world, caller):
    watch, expected = Watch(siege.secrets, hidden_from(caller)), siege.doors(caller)
    with started(world, KNOWLEDGE_TOKEN=world.tokens[caller]) as pipe:
        pipe.open()
        for number, attempt in enumerate(siege.attempts(caller, 40, seed=9, doors=("mcp",)), 1):
            params = {"name": attempt.name, "arguments": attempt.given}
            pipe.send({"id": number, "method": "tools/call", "params": params})
            told = pipe.answer(number)
            assert watch.found(attempt, json.dumps(told)) is None, (attempt, told)
            refused = told["result"].get("isError", False)
            assert refused == expected.send(attempt).told["result"].get("isError", False), attempt


def found(siege: Siege, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> object:
    """The first leak that attempts at a plant show."""
    plant.make(monkeypatch)
    if plant.caller in REFUSED:
        return told_to_who_is_refused(siege, plant.caller, 9)
    how = {"doors": (plant.door,), "compared": plant.compared, "seed": 1}
    return next(siege.leaks(plant.caller, 120, **how), None)


def told_to_who_is_refused(siege: Siege, caller: str, count: int) -> list[tuple[Attempt, Reply]]:
    """Attempts that got more than a refusal."""
    doors, watch = siege.doors(caller), Watch(siege.secrets, SOURCES)
    told = [
        (attempt, doors.send(attempt)) for attempt in siege.attempts(caller, count, seed=2, doors=BY_NETWORK)
    ]
    return [
        (attempt, reply)
        for attempt, reply in told
        if watch.found(attempt, reply.text) or not (_is_refused(reply) or _is_for_anybody(attempt))
    ]


def _is_refused(reply: Reply) -> bool:
    """Also where an address is none of the server's: what is no id is no document's either."""
    return reply.status == 401 or (reply.status == 404 and '"code":"HTTPError"' in reply.text)


def _is_for_anybody(attempt: Attempt) -> bool:
    return attempt.name.partition("?")[0] in FOR_ANYBODY


def judged_otherwise(siege: Siege) -> list[tuple[str, Reply]]:
    """Answers to judgements of others' questions that differ from those of questions that never were."""
    asked = {
        caller: _query_id(siege.doors(caller)) for caller in ("acme", "globex", "gil", "initech")
    }  # of tenants
    differing: list[tuple[str, Reply]] = []
    for caller, others in (
        ("acme", ("globex", "initech")),
        ("ida", ("acme", "gil")),
        ("public", tuple(asked)),
    ):
        for other in others:
            never, theirs = str(uuid.uuid4()), asked[other]
            expected, reply = (_judged(siege.doors(caller), id_) for id_ in (never, theirs))
            same = expected.told["detail"].replace(never, theirs) == (reply.told or {}).get("detail")
            if reply.status != expected.status or not same:
                differing.append((caller, reply))
    return differing


def _query_id(doors: Doors) -> str:
    return doors.send(Attempt("http", f"{PREFIX}/search", {"query": "payments"})).told["query_id"]


def _judged(doors: Doors, query_id: str) -> Reply:
    body = {"query_id": query_id, "result_id": "0" * 32, "judgement": "useful"}
    return doors.send(Attempt("http", f"{PREFIX}/feedback", body))
