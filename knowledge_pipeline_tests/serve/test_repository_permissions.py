"""Permissions of a repository that git reads: who may read it at its host finds its code, nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.sources import http_retry
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.stages.release import roll_back_release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.isolation import Doors
from knowledge_pipeline_tests.serve.isolation_attempts import Attempt, Intruder, Secret
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import CODE, GUIDE, STORE, Held
from knowledge_pipeline_tests.sources.repositories import Repository

CANARY = "canarysecretcode"
CLOSED = "documents without readable permissions are closed"
TYPES = ("code", "markdown", "git_history")
ADA, BEN = Access("acme", frozenset({"ada@example.org"})), Access("acme", frozenset({"ben@example.org"}))
AUDITOR, ANYBODY = Access("acme", frozenset({"auditor"})), Access("acme", frozenset())


@dataclass
class Host:
    """A service with one private repository, which Ada may read."""

    connection: dict[str, Any]
    token: str
    admit: Callable[..., None]  # these people and nobody else
    hide: Callable[[], object]  # who may read is not shown any more
    show: Callable[[], object]
    publish: Callable[[], object]
    privatize: Callable[[], object]
    remove: Callable[[], object]


def open_github(stack: ExitStack, folder: Path) -> Host:
    server = stack.enter_context(GithubServer(enterprise=True))
    server.repositories, repository = folder, server.repository

    def admit(*names: str) -> None:
        repository.collaborate(*names)

    return Host(
        {"type": "github", "repository": repository.full_name, "url": server.url},
        server.token,
        admit,
        lambda: server.forbidden.update({"/collaborators": 403}),
        server.forbidden.clear,
        lambda: setattr(repository, "private", False),
        lambda: setattr(repository, "private", True),
        lambda: setattr(server.answerer, "hidden", True),
    )


def open_gitlab(stack: ExitStack, folder: Path) -> Host:
    server = stack.enter_context(GitlabServer(project="octo/engine"))
    server.repositories, project = folder, server.project

    def admit(*names: str) -> None:
        project.members.clear()
        for name in names:
            project.join(name)

    return Host(
        {"type": "gitlab", "project": project.full_path, "url": server.url},
        server.token,
        admit,
        lambda: server.forbidden.update({"members/all": 403}),
        server.forbidden.clear,
        lambda: project.facts.update(visibility="public"),
        lambda: project.facts.update(visibility="private"),
        lambda: server.forbidden.update({"": 404}),
    )


class Indexed:
    """A project whose sources are the repository's code, documents and history."""

    def __init__(self, root: Path, host: Host, repository: Repository, embedding: OpenAIServer) -> None:
        self.root, self.host, self.repository, self.embedding = root, host, repository, embedding
        self.lake = Lake(root / ".knowledge")

    @property
    def config(self) -> Path:
        return self.root / "knowledge.yaml"

    @property
    def settings(self) -> Settings:
        return file.load_settings(self.config)

    def declare(self, types: tuple[str, ...], **access: Any) -> None:
        access = {"visibility": "from_source", "tenant": "acme", "principals": ["auditor"], **access}
        if access["visibility"] == "from_source":
            access["mapping"] = {"*": "*@example.org"}
        connection = {**self.host.connection, "token": "${TEST_HOST_TOKEN}"}
        model = {"provider": "openai", "model": "fake", "base_url": self.embedding.url}
        model |= {"dimensions": self.embedding.dimensions, "api_key": "${TEST_EMBEDDING_KEY}"}
        sources = [{"id": each, "type": each, "connection": connection, "access": access} for each in types]
        self.config.write_text(json.dumps({"embedding": model, "sources": sources}))

    def refresh(self) -> dict[str, Stats]:
        """The statistics by stage, of the first source."""
        settings = self.settings
        outcome = pipeline.refresh(self.lake, settings, settings.sources)
        assert not outcome.failures, outcome.failures
        return {each.stage: each for each in reversed(outcome.stats)}

    def sees(self, access: Access) -> set[str]:
        """The sources of which a caller finds something, also by the code graph."""
        with KnowledgeBase.open(self.root, access=access) as base:
            found = base.search(CANARY, limit=100, filters=Filters(include_archived=True)).results
            seen = {str(each.metadata["source"]) for each in found}
            with suppress(NotFound):
                usages = base.graph.find_usages("Store.get_payment")
                assert CANARY in json.dumps(usages.as_json())
                seen.add("graph")
            assert bool(base.status().rows) == bool(seen)
        return seen

    def secret(self) -> Secret:
        with KnowledgeBase.open(self.root) as base:
            found = base.search(CANARY, limit=100)
            nodes = base.graph.find_usages("Store.get_payment").nodes
        return Secret(
            Held("code", "code", "acme", ("ada",)),
            chunks=tuple(each.id for each in found.results),
            uris=tuple(each.span.uri for each in found.results),
            paths=tuple(each.citation.path for each in found.results),
            titles=tuple(each.citation.title or "untitled" for each in found.results),
            urls=tuple(each.citation.url for each in found.results if each.citation.url),
            nodes=tuple(each.id for each in nodes),
            queries=(found.query_id,),
        )


HOSTS = {"github": open_github, "gitlab": open_gitlab}


@pytest.fixture(params=HOSTS)
def indexed(request, tmp_path: Path, embedding_server, monkeypatch) -> Iterator[Indexed]:
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    monkeypatch.setattr(http_retry, "_MAX_BACKOFF_S", 0.002)
    repository = Repository(tmp_path / "served/octo/engine.git")
    texts = {"shop/store.py": STORE, f"shop/{CANARY}.py": CODE, "docs/guide.md": GUIDE}
    repository.write({path: text.replace("CANARY", CANARY) for path, text in texts.items()})
    repository.commit(f"Add {CANARY}")
    with ExitStack() as stack:
        host = HOSTS[request.param](stack, tmp_path / "served")
        host.admit("ada")
        monkeypatch.setenv("TEST_HOST_TOKEN", host.token)
        monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
        root = tmp_path / "project"
        root.mkdir()
        made = Indexed(root, host, repository, embedding_server)
        made.declare(("code",))
        made.refresh()
        yield made


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


def find_leaks(doors: Doors, secret: Secret) -> list[Attempt]:
    leaks: list[Attempt] = []
    for attempt in Intruder(1, [secret]).attempts(90):
        sent = json.dumps([attempt.name, attempt.given, attempt.headers], ensure_ascii=False).lower()
        answer = doors.send(attempt).text.lower()
        markers = (CANARY, *secret.chunks, *secret.nodes)
        leaks += [attempt for each in markers if each in answer and each not in sent]
    return leaks


def test_who_may_not_read_it_sees_nothing_of_it_by_any_interface(indexed):
    secret, tokens = indexed.secret(), TokenStore(indexed.lake)
    _, ben = tokens.create("ben", tenant="acme", principals=["ben@example.org"])
    _, ada = tokens.create("ada", tenant="acme", principals=["ada@example.org"])
    with Running(indexed.settings, config=indexed.config) as server:
        assert find_leaks(Doors(server, ben, BEN), secret) == []
        seen = find_leaks(Doors(server, ada, ADA), secret)
        assert {attempt.door for attempt in seen} == {"http", "mcp", "page", "python"}


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
    assert "shows no" in str(outcome.failures["code"])
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
