"""Permissions of a repository that git reads: who may read it at its host finds its code, nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline_tests.serve.isolation import EVERY_DOOR, Doors, list_leaking_doors
from knowledge_pipeline_tests.serve.isolation_attempts import Attempt, Intruder, Secret
from knowledge_pipeline_tests.serve.repository_world import (
    CANARY,
    HOSTS,
    TYPES,
    RepositoryProject,
    open_project,
)
from knowledge_pipeline_tests.serve.running import Running

pytestmark = pytest.mark.sampled  # what a store does with the answers of each host is the same

CLOSED = "documents without readable permissions are closed"
ADA, BEN = Access("acme", frozenset({"ada@example.org"})), Access("acme", frozenset({"ben@example.org"}))
AUDITOR, ANYBODY = Access("acme", frozenset({"auditor"})), Access("acme", frozenset())


@pytest.fixture(params=HOSTS)
def indexed(request, tmp_path: Path, embedding_server, monkeypatch) -> Iterator[RepositoryProject]:
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    monkeypatch.setattr(http_retry, "_MAX_BACKOFF_S", 0.002)
    with ExitStack() as stack:
        project = open_project(stack, request.param, tmp_path, embedding_server)
        for name, value in project.environment.items():
            monkeypatch.setenv(name, value)
        project.refresh()
        yield project


ALL = {"code", "graph"}


def test_who_may_read_a_repository_finds_its_code_and_nobody_else(indexed):
    assert indexed.sees(ADA) == indexed.sees(AUDITOR) == ALL
    others = (BEN, ANYBODY, Access.public(), Access("globex", ADA.principals))
    assert [indexed.sees(each) for each in others] == [set()] * 4


def test_documents_and_history_of_a_repository_are_for_the_same_readers(indexed):
    indexed.declare(TYPES)
    indexed.refresh()
    assert indexed.sees(ADA) == {*TYPES, "graph"}
    assert indexed.sees(BEN) == set()


def iter_leaks(doors: Doors, secret: Secret) -> Iterator[Attempt]:
    for attempt in Intruder(1, [secret]).attempts(90):
        sent = json.dumps([attempt.name, attempt.given, attempt.headers], ensure_ascii=False).lower()
        answer = doors.send(attempt).text.lower()
        markers = (CANARY, *secret.chunks, *secret.nodes)
        if any(each in answer and each not in sent for each in markers):
            yield attempt


def test_who_may_not_read_it_sees_nothing_of_it_by_any_interface(indexed):
    secret, tokens = indexed.secret(), TokenStore(indexed.lake)
    _, ben = tokens.create("ben", tenant="acme", principals=["ben@example.org"])
    _, ada = tokens.create("ada", tenant="acme", principals=["ada@example.org"])
    with Running(indexed.settings, config=indexed.config) as server:
        assert list(iter_leaks(Doors(server, ben, BEN), secret)) == []
        assert list_leaking_doors(iter_leaks(Doors(server, ada, ADA), secret)) == EVERY_DOOR


def test_a_membership_that_changes_holds_after_a_refresh_that_finds_no_new_file(indexed):
    before = len(indexed.embedding.requests)
    indexed.host.admit("ben")
    stats = indexed.refresh()
    assert len(indexed.embedding.requests) == before
    assert (indexed.sees(ADA), indexed.sees(BEN)) == (set(), ALL)
    assert not any(stats[stage].has_changes for stage in ("snapshot", "chunks", "graph", "index"))


def test_a_repository_that_turns_private_closes_with_the_next_refresh(indexed):
    indexed.host.publish()
    indexed.refresh()
    assert indexed.sees(BEN) == indexed.sees(ANYBODY) == ALL
    assert indexed.sees(Access.public()) == set(), "everybody is everybody of the tenant"
    indexed.host.privatize()
    indexed.refresh()
    assert (indexed.sees(ADA), indexed.sees(BEN), indexed.sees(ANYBODY)) == (ALL, set(), set())


def test_readers_that_are_not_shown_close_the_repository_and_change_no_row(indexed):
    indexed.host.hide()
    stats = indexed.refresh()
    assert (indexed.sees(ADA), indexed.sees(AUDITOR)) == (set(), ALL)
    assert stats["snapshot"].notes[CLOSED] == stats["snapshot"].seen == 2
    assert any("are not shown: give" in note for note in stats["snapshot"].notes)
    assert not any(stats[stage].has_changes for stage in ("graph", "index"))
    indexed.host.show()
    indexed.refresh()
    assert indexed.sees(ADA) == ALL


def test_a_repository_that_its_host_does_not_show_fails_the_refresh_and_widens_nothing(indexed):
    indexed.host.remove()
    settings = indexed.settings
    outcome = pipeline.refresh(indexed.lake, settings, settings.sources)
    assert "shows no" in str(outcome.failures["secretcode"])
    assert (indexed.sees(ADA), indexed.sees(BEN)) == (ALL, set())


def test_a_rollback_brings_back_no_reader(indexed):
    oldest = min(each.release for each in list_releases(indexed.lake))
    indexed.repository.write({"shop/more.py": f"def {CANARY}_more():\n    return 1\n"})
    indexed.repository.commit("More")
    indexed.host.admit("ben")
    indexed.refresh()
    roll_back_release(indexed.lake, indexed.settings, oldest)
    assert (indexed.sees(ADA), indexed.sees(BEN)) == (set(), ALL)


def test_rows_of_before_are_closed_until_the_permissions_are_read(indexed):
    indexed.declare(("code",), visibility="tenant", principals=[])
    indexed.refresh()
    assert indexed.sees(BEN) == ALL
    indexed.declare(("code",))
    assert (indexed.sees(ADA), indexed.sees(BEN)) == (set(), set())
    indexed.refresh()
    assert (indexed.sees(ADA), indexed.sees(BEN)) == (ALL, set())


def test_a_file_that_was_deleted_is_for_whom_the_configuration_names(indexed):
    """A history that was cleaned before the repository was opened must not open with it."""
    indexed.repository.git("rm", "-q", f"shop/{CANARY}.py")
    indexed.repository.commit("Delete")
    indexed.host.publish()
    indexed.refresh()
    with KnowledgeBase.open(indexed.root, access=BEN) as base:
        found = base.search(f"{CANARY}_total", limit=100, filters=Filters(include_archived=True)).results
        assert {each.citation.path for each in found} == {"shop/store.py"}
