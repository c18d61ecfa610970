"""Whoever may not see a source any more sees nothing of it at once, by any interface, before any refresh."""

from __future__ import annotations

import json

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline_tests.serve.isolation import Doors, Watch, secrets_of
from knowledge_pipeline_tests.serve.isolation_attempts import Intruder
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.test_http_search import API
from knowledge_pipeline_tests.serve.world import SOURCES
from knowledge_pipeline_tests.thoroughness import examples

REVOKED = next(source for source in SOURCES if source.id == "shop-docs")  # public as it was indexed
PRIVATE = {"visibility": "private", "tenant": "acme", "principals": ["ann"]}


@pytest.fixture
def revoke(own_world):
    def write() -> None:
        declared = json.loads(own_world.config.read_text())
        entry = next(each for each in declared["sources"] if each["id"] == REVOKED.id)
        entry["access"] = PRIVATE
        own_world.config.write_text(json.dumps(declared))

    return write


def find_leaks(doors: Doors, secrets, *, seed: int) -> list:
    count = examples(80, few=50)
    attempts = Intruder(seed, [secrets[REVOKED.id]]).attempts(count, ("http", "mcp", "page", "python"))
    watch = Watch(secrets, [REVOKED])
    return [attempt for attempt in attempts if watch.found(attempt, doors.send(attempt).text)]


def test_a_source_made_private_is_seen_by_nobody_else_before_it_is_refreshed(own_world, revoke):
    secrets = secrets_of(own_world)
    with Running(own_world.settings, config=own_world.config) as server:
        public = Doors(server, own_world.tokens["public"], Access.public())
        seen_before = find_leaks(public, secrets, seed=1)
        assert {attempt.door for attempt in seen_before} == {"http", "mcp", "page", "python"}
        revoke()  # nothing is refreshed: the source may be down, or its release refused
        assert find_leaks(public, secrets, seed=1) == []


def remove_entry(world):
    declared = json.loads(world.config.read_text())
    declared["sources"] = [each for each in declared["sources"] if each["id"] != REVOKED.id]
    world.config.write_text(json.dumps(declared))


def test_an_entry_that_is_removed_withholds_its_source_and_reopens_nothing(own_world, revoke):
    """Its rows say that they are public: who may see it was said by the entry alone."""
    secrets = secrets_of(own_world)
    with Running(own_world.settings, config=own_world.config) as server:
        public = Doors(server, own_world.tokens["public"], Access.public())
        revoke()
        assert find_leaks(public, secrets, seed=3) == []
        remove_entry(own_world)
        assert find_leaks(public, secrets, seed=3) == []
        operator = server.client(own_world.tokens["operator"])
        assert REVOKED.canary in operator.post(f"{API}/search", json={"query": REVOKED.canary}).text
        for client in (server.client(), server.client(own_world.tokens["acme"])):
            listed = client.get(f"{API}/collections").json()["collections"]
            assert REVOKED.id not in {each["id"] for each in listed} and listed
    with Running(own_world.settings, config=own_world.config) as server:  # which never knew of the entry
        assert find_leaks(Doors(server, own_world.tokens["public"], Access.public()), secrets, seed=3) == []


def test_a_rollback_does_not_widen_access(own_world, revoke):
    secrets = secrets_of(own_world)
    revoke()
    lake = Lake(own_world.settings.store)
    roll_back_release(lake, own_world.settings, min(each.release for each in list_releases(lake)))
    with Running(own_world.settings, config=own_world.config) as server:
        assert find_leaks(Doors(server, own_world.tokens["globex"], Access.public()), secrets, seed=2) == []


def test_whom_the_configuration_names_still_needs_the_rows_consent(own_world, revoke):
    """Access that is widened takes effect with the next refresh, for whom the row is meant."""
    revoke()
    with KnowledgeBase.open(own_world.root, access=Access("acme", frozenset({"ann"}))) as base:
        found = base.search(REVOKED.canary).results
        assert {result.metadata["source"] for result in found} >= {REVOKED.id}
    with KnowledgeBase.open(own_world.root, access=Access("globex", frozenset({"ann"}))) as base:
        assert REVOKED.id not in {r.metadata["source"] for r in base.search(REVOKED.canary).results}


def test_a_configuration_that_cannot_be_read_leaves_access_as_it_was_last_read(own_world, revoke, caplog):
    with KnowledgeBase.open(own_world.root, access=Access.public()) as base:
        revoke()
        assert REVOKED.id not in {r.metadata["source"] for r in base.search(REVOKED.canary).results}
        own_world.config.write_text("sources: [")
        assert REVOKED.id not in {r.metadata["source"] for r in base.search(REVOKED.canary).results}
    assert "as it was last read" in caplog.text
