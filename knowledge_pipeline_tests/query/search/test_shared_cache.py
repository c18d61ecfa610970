"""Processes that share a state share answers: of one release, to callers who may see the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import CacheSettings
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.serve.shared_answers import SharedAnswerCache, parse_response, serialize_response
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.local_state import ANSWERS, SharedState
from knowledge_pipeline.store.release import Release
from knowledge_pipeline_tests.query.search.rows import publish, row, write

RELEASE = Release(1, datetime(2026, 1, 1, tzinfo=UTC), {"space": 3}, 2)
ANN = Access("acme", frozenset({"ann", "bob", "cid"}))


@pytest.fixture
def response(base: KnowledgeBase, lake: Lake, space: str):
    mentions = {"mentions": [{"kind": "references", "target": "CORE-1", "name": "ticket:CORE-1"}]}
    ticket = row("alpha done", "CORE-1", source="tickets", source_type="jira", names=["ticket:CORE-1"])
    mentioning = row("alpha", "a.py", mentions=["ticket:CORE-1"], metadata=json.dumps(mentions))
    write(lake, space, [mentioning, ticket, row("alpha beta", "b.md", source="docs")])
    publish(lake)
    return base.search("alpha", explain=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def open_state(folder: Path) -> Iterator[Callable[[], SharedState]]:
    """Opens the state as another process would."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(SharedState(folder, server="8321"))


@pytest.fixture
def open_cache(open_state: Callable[[], SharedState]) -> Callable[..., SharedAnswerCache]:
    def open_one(**settings: float) -> SharedAnswerCache:
        return SharedAnswerCache(CacheSettings.model_validate(settings), open_state())

    return open_one


def test_a_response_comes_back_whole(response):
    assert parse_response(serialize_response(response)).as_json() == response.as_json()
    assert parse_response(serialize_response(response)).results == response.results != ()
    assert any(each.related for each in response.results)


def test_another_process_finds_it_for_equal_access_alone(open_cache, response):
    one, other = open_cache(), open_cache()
    assert one.get(RELEASE, ("search", "alpha", ANN)) is None
    one.put(RELEASE, ("search", "alpha", ANN), response)
    same = Access("acme", frozenset({"cid", "bob", "ann"}), caller=Caller("mcp", "another"))
    found = other.get(RELEASE, ("search", "alpha", same))
    assert found and found.cached and found.results == response.results
    for key in (
        ("search", "alpha", Access("acme", frozenset({"ann"}))),
        ("search", "alpha", Access("globex", ANN.principals)),
        ("search", "alpha", replace(ANN, withheld_sources=frozenset({"docs"}))),
        ("search", "alpha ", ANN),
        ("similar", "alpha", ANN),
        ("search", "alpha", Access.operator()),
    ):
        assert other.get(RELEASE, key) is None


def test_a_release_forgets_the_answers_of_the_one_before(open_cache, open_state, response):
    one, other, key = open_cache(), open_cache(), ("search", "alpha", ANN)
    one.get(RELEASE, key)
    one.put(RELEASE, key, response)
    newer = replace(RELEASE, release=2)
    assert other.get(newer, key) is None
    assert open_state().list_values(ANSWERS) == []


def test_degraded_answers_and_those_of_a_cache_that_is_off_are_not_kept(open_cache, open_state, response):
    key = ("search", "alpha", ANN)
    one = open_cache()
    one.get(RELEASE, key)
    one.put(RELEASE, key, replace(response, degraded=("vector",)))
    off = open_cache(ttl_minutes=0)
    off.get(RELEASE, key)
    off.put(RELEASE, key, response)
    assert open_state().list_values(ANSWERS) == []


def test_what_is_erased_is_in_no_file_of_a_server(folder, open_cache, response):
    one, key = open_cache(), ("search", "alpha", ANN)
    one.get(RELEASE, key)
    one.put(RELEASE, key, response)
    assert any(b"alpha" in path.read_bytes() for path in folder.glob("*.sqlite*"))
    with SharedState(folder) as state:
        state.erase(ANSWERS)
    assert not any(b"alpha" in path.read_bytes() for path in folder.glob("*.sqlite*"))


def test_answers_beyond_the_size_make_room(open_state):
    state = open_state()
    for at in range(100):
        state.put(ANSWERS, f"now{at}", b"x" * 1_000, ttl_s=60 + at)
    state.put(ANSWERS, "old", b"x", ttl_s=1_000)
    state.keep_newest(ANSWERS, beginning="now", max_bytes=50_000)
    assert state.get(ANSWERS, "old") is None
    assert len(state.list_values(ANSWERS)) <= 50
    assert state.get(ANSWERS, "now99")
