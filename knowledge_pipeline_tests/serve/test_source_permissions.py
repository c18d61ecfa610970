"""Permissions of a source, by document: who may not read a page sees nothing of it, by any interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import pytest

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.config import file
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.maintenance import purge_source
from knowledge_pipeline.query import access as audiences
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshContext, RefreshOptions
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.access import write_audiences
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.identity_server import IdentityServer
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.refreshed import refresh_source
from knowledge_pipeline_tests.serve.isolation import EVERY_DOOR, Doors, list_leaking_doors
from knowledge_pipeline_tests.serve.isolation_attempts import Attempt, Intruder, Secret
from knowledge_pipeline_tests.serve.oidc_world import AUDIENCE, trusting
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import Held

CANARY = "canarywiki"
SOURCE = {"id": "wiki", "type": "confluence", "refresh": {"trigger": "daily"}}
ADA, BEN = Access("acme", frozenset({"Ada@Example.org"})), Access("acme", frozenset({"ben@example.org"}))
AUDITOR = Access("acme", frozenset({"auditor"}))
FOREIGN = Access("globex", frozenset({"ada@example.org", "auditor"}))


@dataclass
class WikiProject:
    """A wiki with pages for everybody and two for Ada alone, and the project that indexes it."""

    root: Path
    wiki: ConfluenceServer
    embedding: OpenAIServer
    open_page: str = ""
    secret_page: str = ""
    secret_child: str = ""

    @property
    def config(self) -> Path:
        return self.root / "knowledge.yaml"

    @property
    def settings(self):
        return file.load_settings(self.config)

    @property
    def lake(self) -> Lake:
        return Lake(self.root / ".knowledge")

    def declare(self, **access) -> None:
        connection = self.wiki.connection
        shown = {"type": "confluence", "url": connection.url, "token": "${TEST_WIKI_TOKEN}"}
        shown |= {"email": connection.email} if connection.email else {}
        access = {"visibility": "from_source", "tenant": "acme", "principals": ["auditor"], **access}
        embedding = {"provider": "openai", "model": "fake", "base_url": self.embedding.url}
        embedding |= {"dimensions": self.embedding.dimensions, "api_key": "${TEST_EMBEDDING_KEY}"}
        declared = {"embedding": embedding, "sources": [{**SOURCE, "connection": shown, "access": access}]}
        self.config.write_text(json.dumps(declared))

    def refresh(self, **options: bool) -> pipeline.RefreshOutcome:
        settings = self.settings
        outcome = pipeline.refresh(self.lake, settings, settings.sources, RefreshOptions(**options))
        assert not outcome.failures, outcome.failures
        return outcome

    def sees(self, access: Access) -> bool:
        """Whether a caller finds the secret page."""
        with KnowledgeBase.open(self.root, access=access) as base:
            found = base.search(CANARY, limit=100, filters=Filters(include_archived=True))
        return CANARY in json.dumps(found.as_json()).replace(f'"{CANARY}"', "")

    def secret(self) -> Secret:
        with KnowledgeBase.open(self.root) as base:
            answer = base.search(CANARY, limit=100)
        hidden = [each for each in answer.results if CANARY in (each.citation.title or "")]
        assert len(hidden) >= 2
        return Secret(
            Held("wiki", "confluence", "acme", ("ada",)),
            chunks=tuple(each.id for each in hidden),
            uris=tuple(each.span.uri for each in hidden),
            paths=tuple(each.citation.path for each in hidden),
            titles=tuple(each.citation.title or "" for each in hidden),
            urls=tuple(each.citation.url or "" for each in hidden),
            queries=(answer.query_id,),
        )


BOTH_EDITIONS = pytest.mark.parametrize(
    "project", ["cloud", pytest.param("server", marks=pytest.mark.slow)], indirect=True
)
"""For what a wiki is asked; what a store does with its answers is the same."""


@pytest.fixture
def project(request, tmp_path: Path, embedding_server, monkeypatch) -> Iterator[WikiProject]:
    edition = getattr(request, "param", "cloud")
    with ConfluenceServer(edition) as wiki:
        monkeypatch.setenv("TEST_WIKI_TOKEN", wiki.token)
        monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
        for name in ("ada", "ben"):
            wiki.person(name, name.title(), f"{name}@example.org")
        wiki.group("everybody", "ada", "ben")
        made = WikiProject(tmp_path, wiki, embedding_server)
        made.open_page = wiki.create("Payments", "How a payment is retried when the bank does not answer.")
        text = f"{CANARY}: a payment is retried by layoffs of sessions."
        made.secret_page = wiki.create(f"{CANARY} plan", text)
        text = f"Names for {CANARY}: see Payments, customers charged twice."
        made.secret_child = wiki.create(f"{CANARY} list", text, under=made.secret_page)
        wiki.restrict(made.secret_page, "ada")
        made.declare(**({} if edition == "cloud" else {"mapping": {"*": "*@example.org"}}))
        made.refresh()
        yield made


def iter_leaks(doors: Doors, secret: Secret, seed: int, count: int = 60) -> Iterator[Attempt]:
    """Attempts whose answer has a marker of the secret that they did not send."""
    for attempt in Intruder(seed, [secret]).attempts(count, ("http", "mcp", "page", "python")):
        sent = json.dumps([attempt.name, attempt.given, attempt.headers], ensure_ascii=False).lower()
        answer = doors.send(attempt).text.lower()
        if any(each in answer and each not in sent for each in (CANARY, *secret.chunks)):
            yield attempt


@BOTH_EDITIONS
def test_each_caller_finds_what_the_wiki_lets_them_read(project):
    assert {who: project.sees(who) for who in (ADA, BEN, AUDITOR, FOREIGN, Access.public())} == {
        ADA: True, BEN: False, AUDITOR: True, FOREIGN: False, Access.public(): False
    }  # fmt: skip
    with KnowledgeBase.open(project.root, access=BEN) as base:
        assert [each.citation.title for each in base.search("payment retried").results] == ["Payments"]
        assert base.status().rows == 1
        assert CANARY not in json.dumps(base.related("Payments").as_json())
    with KnowledgeBase.open(project.root, access=FOREIGN) as base:
        assert base.search("payment").results == ()


@pytest.mark.slow
def test_who_signed_in_by_a_verified_address_reads_what_the_wiki_lets_them(project):
    secret = project.secret()
    with IdentityServer() as identity:
        trust = trusting(identity, claims={}, tenant="acme")
        with Running(project.settings, config=project.config, anonymous="off", oidc=trust) as server:

            def token(name: str, **claims: bool) -> str:
                return identity.issue(aud=AUDIENCE, sub=name, email=f"{name}@example.org", **claims)

            for refused in (
                token("ben", email_verified=True),
                token("ada"),
                token("ada", email_verified=False),
            ):
                assert list(iter_leaks(Doors(server, refused, BEN), secret, seed=2, count=30)) == []
            entitled = Doors(server, token("ada", email_verified=True), ADA)
            assert len({attempt.name for attempt in iter_leaks(entitled, secret, seed=2)}) > 3


def test_who_may_not_read_a_page_sees_nothing_of_it_by_any_interface(project):
    secret, tokens = project.secret(), TokenStore(project.lake)
    _, ben = tokens.create("ben", tenant="acme", principals=["ben@example.org"])
    _, ada = tokens.create("ada", tenant="acme", principals=["ada@example.org"])
    with Running(project.settings, config=project.config) as server:
        assert list(iter_leaks(Doors(server, ben, BEN), secret, seed=1)) == []
        assert list_leaking_doors(iter_leaks(Doors(server, ada, ADA), secret, seed=1)) == EVERY_DOOR


@BOTH_EDITIONS
def test_what_is_revoked_is_gone_with_the_next_refresh_and_nothing_is_embedded(project):
    assert project.sees(ADA)
    before = len(project.embedding.requests)
    project.wiki.restrict(project.secret_page, "ben")
    outcome = project.refresh()
    assert len(project.embedding.requests) == before
    assert (project.sees(ADA), project.sees(BEN)) == (False, True)
    embedded = next(each for each in outcome.stats if each.stage == "embeddings")
    assert (embedded.added, embedded.tokens) == (0, 0)


@BOTH_EDITIONS
def test_a_page_that_is_newly_restricted_or_opened_moves_its_rows_alone(project):
    project.wiki.restrict(project.open_page, "ada")
    project.wiki.restrict(project.secret_page)
    before = len(project.embedding.requests)
    outcome = project.refresh()
    assert len(project.embedding.requests) == before
    assert project.sees(BEN)
    with KnowledgeBase.open(project.root, access=BEN) as base:
        assert "Payments" not in {each.citation.title for each in base.search("payment retried").results}
    chunks = next(each for each in outcome.stats if each.stage == "chunks")
    assert not chunks.has_changes, "permissions cut nothing again"


@BOTH_EDITIONS
def test_a_membership_that_ends_is_gone_though_no_row_changes(project):
    project.wiki.group("everybody", "ada")
    outcome = project.refresh()
    with KnowledgeBase.open(project.root, access=BEN) as base:
        assert base.search("payment").results == ()
    assert not next(each for each in outcome.stats if each.stage == "index").has_changes


@BOTH_EDITIONS
def test_permissions_that_cannot_be_read_close_the_documents_and_the_report_says_so(project):
    end = "/restriction/byOperation/read"
    project.wiki.forget(project.secret_page)
    project.wiki.forbid(f"{project.secret_page.partition('/')[2]}{end}")
    notes = project.refresh().stats[0].notes
    assert (project.sees(ADA), project.sees(BEN), project.sees(AUDITOR)) == (False, False, True)
    assert notes["documents without readable permissions are closed"] == 2
    assert any("are not shown (403)" in note for note in notes)
    project.wiki.forbid(f"{project.secret_page.partition('/')[2]}{end}", None)
    project.refresh()
    assert project.sees(ADA)


def test_a_source_that_fails_keeps_what_was_read_and_widens_nothing(project):
    project.wiki.fail_next(200, status=403)
    settings = project.settings
    outcome = pipeline.refresh(project.lake, settings, settings.sources)
    assert "wiki" in outcome.failures
    assert (project.sees(ADA), project.sees(BEN)) == (True, False)


def test_a_rollback_does_not_bring_back_what_was_revoked(project):
    project.wiki.restrict(project.secret_page, "ben")
    project.wiki.restrict(project.open_page, "ada")
    project.refresh()
    oldest = min(each.release for each in list_releases(project.lake))
    roll_back_release(project.lake, project.settings, oldest)
    assert not project.sees(ADA)
    with KnowledgeBase.open(project.root, access=BEN) as base:
        assert "Payments" not in {each.citation.title for each in base.search("payment retried").results}


def test_a_restriction_holds_before_its_release_in_a_process_that_goes_on(project):
    """As where the release is refused, or minutes away: the rows of the live one are those of before."""
    with KnowledgeBase.open(project.root, access=ADA) as base:
        assert CANARY in json.dumps(base.search("layoffs of sessions").as_json())
        project.wiki.restrict(project.secret_page, "ben")
        project.wiki.restrict(project.secret_child, "ben")
        settings = project.settings
        refresh_source(RefreshContext(project.lake, settings, settings.sources[0]))
        assert CANARY not in json.dumps(base.search("layoffs of sessions").as_json())
        assert base.status().rows == 1
    assert project.sees(AUDITOR)


@pytest.mark.parametrize("way", ["not released", "rolled back"])
def test_a_page_that_leaves_its_audience_is_withheld_where_a_row_still_names_it(project, way):
    """Ben stays a reader of the space, which the live row of the page names."""
    project.wiki.create("Lunch", "Payments of lunch are retried at noon.")
    project.refresh()
    with KnowledgeBase.open(project.root, access=BEN) as base:

        def titles() -> set[str | None]:
            return {each.citation.title for each in base.search("payment retried").results}

        assert titles() == {"Payments", "Lunch"}
        released = max(each.release for each in list_releases(project.lake))
        project.wiki.restrict(project.open_page, "ada")
        if way == "not released":
            settings = project.settings
            refresh_source(RefreshContext(project.lake, settings, settings.sources[0]))
        else:
            project.refresh()
            roll_back_release(project.lake, project.settings, released)
        assert titles() == {"Lunch"}
        assert base.status().rows == 1


@pytest.mark.parametrize(("short_look_s", "looks"), [(60.0, 2), (0.0, 1)])
def test_many_sources_are_not_looked_at_for_each_question(project, monkeypatch, short_look_s, looks):
    looked = list[Lake]()
    list_stamps = Lake.list_audience_stamps
    monkeypatch.setattr(Lake, "list_audience_stamps", lambda lake: looked.append(lake) or list_stamps(lake))
    monkeypatch.setattr(audiences, "_SHORT_LOOK_S", short_look_s)
    monkeypatch.setattr(audiences, "_PAUSE", 1e9)
    monkeypatch.setattr(audiences, "_MAX_PAUSE_S", 3_600.0)
    with KnowledgeBase.open(project.root, access=ADA) as base:
        for question in ("payment", "layoffs"):
            assert CANARY in json.dumps(base.search(f"{question} of sessions").as_json())
    assert len(looked) == looks


def test_more_documents_than_a_condition_holds_withhold_their_source(project, monkeypatch):
    monkeypatch.setattr(audiences, "_MAX_WITHHELD", 1)
    project.wiki.restrict(project.secret_page)
    settings = project.settings
    refresh_source(RefreshContext(project.lake, settings, settings.sources[0]))
    with KnowledgeBase.open(project.root, access=ADA) as base:
        assert base.search("payment").results == ()
    project.refresh()
    assert project.sees(ADA)


def test_permissions_of_the_store_that_cannot_be_read_admit_nobody(project, monkeypatch, caplog):
    def fail(*_):
        raise StoreError("the disk is gone")

    monkeypatch.setattr(audiences, "read_audiences", fail)
    assert not project.sees(ADA)
    assert "nobody sees anything by a source's permissions" in caplog.text


def test_a_store_of_before_is_opened_and_nothing_is_indexed_anew(project):
    project.declare(visibility="tenant", principals=[])
    project.refresh()
    path = project.lake.snapshot("confluence", "wiki").path
    lance.dataset(str(path)).drop_columns(["audience"])
    before = len(project.embedding.requests)
    stats = project.refresh().stats
    assert not any(each.has_changes for each in stats)
    project.declare(mapping={"*": "*@example.org"})
    project.refresh()
    assert len(project.embedding.requests) == before
    assert (project.sees(ADA), project.sees(BEN)) == (True, False)


def test_audiences_of_a_former_type_of_the_source_admit_nobody(project):
    """A source that had another type before has that one's table until it is purged."""
    current = project.lake.audiences("confluence", "wiki").read_rows(["audience"]).to_pydict()["audience"]
    everybody = [frozenset({"ben@example.org"})]
    write_audiences(project.lake.audiences("slack", "wiki"), dict.fromkeys(current, everybody))
    assert (project.sees(ADA), project.sees(BEN)) == (True, False)


def test_a_purge_takes_the_audiences_along(project):
    assert project.lake.list_audience_stamps()
    purge_source(project.lake, project.settings, "wiki")
    assert not project.lake.list_audience_stamps()


@BOTH_EDITIONS
def test_a_page_that_was_deleted_is_for_those_that_the_configuration_names(project):
    project.wiki.delete(project.secret_page)
    project.wiki.delete(project.secret_child)
    project.refresh()
    assert (project.sees(ADA), project.sees(AUDITOR)) == (False, True)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "former",
    [
        {"visibility": "public", "principals": []},
        {"visibility": "tenant", "principals": []},
        {"visibility": "private", "principals": ["ben@example.org"]},
    ],
)
def test_rows_of_a_wider_configuration_are_closed_before_the_first_refresh(project, former):
    project.declare(**former)
    project.refresh()
    assert project.sees(BEN)
    project.declare(mapping={"*": "*@example.org"})
    assert not project.sees(BEN)
    assert not project.sees(ADA), "until a refresh has read who may"
    project.refresh()
    assert (project.sees(ADA), project.sees(BEN)) == (True, False)


@BOTH_EDITIONS
def test_a_refresh_of_any_history_equals_a_full_one(project):
    project.wiki.restrict(project.secret_page, "group:everybody")
    project.refresh()
    project.wiki.restrict(project.open_page, "ben")
    new = project.wiki.create("New", "page", under=project.open_page)
    project.refresh()
    project.wiki.restrict(project.secret_page, "ada")
    project.wiki.move(new, project.secret_page)
    project.refresh()
    [(space, dimensions)] = project.lake.list_spaces().items()
    columns = ["id", "uri", "visibility", "tenant", "principals", "fingerprint"]

    def tables():
        index, audiences = project.lake.index(space, dimensions), project.lake.audiences("confluence", "wiki")
        rows = index.read_rows(columns).to_pylist(), audiences.read_rows(["audience", "requires"]).to_pylist()
        return [sorted(each, key=str) for each in rows]

    before = tables()
    project.refresh(full=True)
    assert tables() == before


@BOTH_EDITIONS
def test_groups_of_the_site_become_principals_as_the_mapping_says(project):
    project.wiki.group("ops")
    project.wiki.restrict(project.secret_page, "group:ops")
    project.wiki.admit("OPS", "*")
    project.refresh()
    by_name = Access("acme", frozenset({"group:ops"}))
    assert project.sees(by_name)
    project.declare(mapping={"group:ops": "operations"})
    project.refresh()
    assert (project.sees(by_name), project.sees(Access("acme", frozenset({"operations"})))) == (False, True)


@BOTH_EDITIONS
def test_addresses_that_are_not_trusted_admit_nobody(project):
    project.declare(trust_emails=False, mapping={"ben": "ben@example.org"})
    notes = project.refresh().stats[0].notes
    assert not project.sees(ADA)
    assert notes["accounts without an e-mail see nothing: name them in access.mapping"] == 1
    with KnowledgeBase.open(project.root, access=BEN) as base:
        assert [each.citation.title for each in base.search("payment").results] == ["Payments"]


def test_no_caller_can_claim_an_audience():
    with pytest.raises(ValueError, match="cannot name"):
        Access("acme", frozenset({"audience:confluence/wiki/space/OPS"}))
