"""Permissions that are read alone: what is taken away is gone without a refresh, and few requests find it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.registry import list_members, open_source
from knowledge_pipeline.errors import SourceUnavailable
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.records import Document
from knowledge_pipeline.serve.metrics import Metrics
from knowledge_pipeline.stages.permissions import (
    PermissionsRead,
    list_guarded,
    refresh_all_permissions,
)
from knowledge_pipeline.stages.snapshot import build_row
from knowledge_pipeline.store.access import lock_permissions, read_permissions_time, write_permissions_time
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.organisation import Organisation
from knowledge_pipeline_tests.serve import test_source_permissions
from knowledge_pipeline_tests.serve.test_source_permissions import (
    ADA,
    AUDITOR,
    BEN,
    CANARY,
    WikiProject,
)

project = test_source_permissions.project


def read_alone(wiki: WikiProject) -> PermissionsRead:
    settings = wiki.settings
    [result] = refresh_all_permissions(wiki.lake, settings, list_guarded(settings))
    return result


def age_permissions(wiki: WikiProject, age: timedelta) -> None:
    write_permissions_time(wiki.lake.audiences("confluence", "wiki"), datetime.now(UTC) - age)


def read_time(wiki: WikiProject) -> datetime:
    at = read_permissions_time(wiki.lake.audiences("confluence", "wiki"))
    assert at
    return at


def test_who_leaves_a_group_finds_nothing_after_the_pass_and_no_content_is_read(project: WikiProject):
    with KnowledgeBase.open(project.root, access=BEN) as base:
        assert base.search("payment retried").results
        project.wiki.group("everybody", "ada")
        before, asked = read_time(project), len(project.wiki.requests)
        result = read_alone(project)
        assert result.error is None and result.notes["audiences changed"] and not result.moved
        assert base.search("payment retried").results == ()  # of the same release
    assert read_time(project) > before
    paths = [request.path for request in project.wiki.requests[asked:]]
    assert not [each for each in project.wiki.requests[asked:] if "storage" in json.dumps(each.query)]
    assert 0 < len(paths) < 12


def test_a_pass_that_finds_nothing_new_says_so_by_its_time(project: WikiProject):
    release = project.refresh().release
    before = read_time(project)
    assert not read_alone(project).notes["audiences changed"]
    assert read_time(project) > before
    assert release and project.refresh().release.version == release.version  # type: ignore[union-attr]


def test_a_document_that_is_restricted_further_is_gone_and_returns_to_who_may_read_it(project: WikiProject):
    assert (project.sees(ADA), project.sees(BEN)) == (True, False)
    project.wiki.restrict(project.open_page, "ada")
    with KnowledgeBase.open(project.root, access=BEN) as base:
        assert base.search("payment").results
        result = read_alone(project)
        assert list(result.moved) == [project.open_page]
        assert base.search("payment").results == ()
    documents = tuple(f"wiki/{uri}" for uri in result.moved)
    assert result.can_refresh(project.lake)
    project.refresh(documents=documents)
    with KnowledgeBase.open(project.root, access=ADA) as base:
        assert "Payments" in {each.citation.title for each in base.search("payment").results}
    with KnowledgeBase.open(project.root, access=BEN) as base:
        assert base.search("payment").results == ()


def test_a_refresh_that_embeds_for_hours_does_not_hold_the_pass_up(project: WikiProject):
    project.wiki.group("everybody", "ada")
    with project.lake.lock_source("wiki"):
        result = read_alone(project)
        assert result.error is None and result.notes["audiences changed"]
        assert not result.can_refresh(project.lake)
    with lock_permissions(project.lake, "wiki"):
        assert refresh_all_permissions(project.lake, project.settings, project.settings.sources) == []


def explain_age(base: KnowledgeBase) -> list[str]:
    return [note for note in base.search(CANARY).notes if "access.max_age" in note]


def test_permissions_that_are_too_old_withhold_what_is_read_by_them_alone(project: WikiProject):
    with KnowledgeBase.open(project.root, access=ADA) as base:
        assert base.search(CANARY).results and not explain_age(base)
        age_permissions(project, timedelta(hours=25))
        assert base.search(CANARY).results
        age_permissions(project, timedelta(hours=27))
        answer = base.search(CANARY)
        assert answer.results == ()
        assert [note.partition(":")[0] for note in explain_age(base)] == ["wiki"]
        with KnowledgeBase.open(project.root, access=AUDITOR) as others:
            assert others.search(CANARY).results and not explain_age(others)
        with KnowledgeBase.open(project.root, access=Access("acme", frozenset({"eve"}))) as others:
            assert not explain_age(others)  # reads nothing there, and is told nothing
        project.declare(max_age="2 days")
        assert base.search(CANARY).results
        project.declare(max_age="1 hour")
        assert base.search(CANARY).results == ()
        read_alone(project)
        assert base.search(CANARY).results


def test_permissions_of_an_unknown_age_are_too_old_where_an_age_is_set(project: WikiProject):
    project.lake.audiences("confluence", "wiki").write_notes(permissions_read_at=None)
    assert project.sees(ADA)
    project.declare(max_age="30 days")
    assert not project.sees(ADA) and project.sees(AUDITOR)
    read_alone(project)
    assert project.sees(ADA)


def test_what_cannot_be_read_stays_as_old_as_it_is(project: WikiProject, monkeypatch):
    monkeypatch.setattr("knowledge_pipeline.connectors.http_retry.MAX_ATTEMPTS", 1)
    before = read_time(project)
    project.wiki.fail_next(20, status=503)
    result = read_alone(project)
    assert isinstance(result.error, SourceUnavailable)
    assert read_time(project) == before and project.sees(ADA)


def test_a_refresh_of_named_documents_does_not_make_all_permissions_new(project: WikiProject):
    age_permissions(project, timedelta(hours=3))
    before = read_time(project)
    project.refresh(documents=(f"wiki/{project.open_page}",))
    assert read_time(project) == before
    project.refresh()
    assert read_time(project) > before


def test_their_age_is_a_metric(project: WikiProject):
    def read_metric() -> float:
        text = Metrics(project.settings).render("text/plain")[0].decode()
        name = 'knowledge_oldest_permissions_timestamp_seconds{source_type="confluence"} '
        [line] = [line for line in text.splitlines() if line.startswith(name)]
        return float(line.removeprefix(name))

    assert read_metric() == pytest.approx(read_time(project).timestamp())
    project.lake.audiences("confluence", "wiki").write_notes(permissions_read_at=None)
    assert read_metric() == 0


KINDS = {"repository": "github", "project": "jira", "space": "confluence", "channel": "slack"}


@pytest.fixture
def acme(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Organisation, Settings]]:
    sizes = dict.fromkeys(KINDS, request.param)
    items = {"file": 1, "pull": 1, "issue": 1, "ticket": 2, "page": 2, "message": 2}
    with Organisation(tmp_path / "services", sizes=sizes, items=items) as acme:  # type: ignore[arg-type]
        declared = acme.declare(access={"visibility": "from_source", "tenant": "acme"})
        for entry in declared:  # code is read by git
            entry["sources"] = [each for each in entry["sources"] if each["type"] != "code"]
        organisations = Settings.model_validate({"organisations": declared}).organisations
        members = [
            (it, member) for it in organisations for member in list_members(it.connection) if it.takes(member)
        ]
        sources = [source for it, member in members for source in it.build_sources(member)]
        yield acme, Settings(store=tmp_path / "store").model_copy(update={"sources": tuple(sources)})


def store_listing(lake: Lake, source: SourceConfig) -> None:
    """A snapshot of what a source lists, without its texts."""
    table = lake.snapshot(source.type, source.id)
    with open_source(source, cache=lake.cache) as opened:
        rows = [build_row(it, Document(it.uri, text="", path=it.uri)) for it in opened.discover()]
    batch = [row | {"audience": None} for row in rows]
    table.append([pa.RecordBatch.from_pylist(batch, schema=table.schema)])


@pytest.mark.parametrize("acme", [5, pytest.param(200, marks=pytest.mark.slow)], indirect=True)
def test_requests_of_a_pass_by_service(acme: tuple[Organisation, Settings]):
    services, settings = acme
    lake = Lake(settings.store)
    for source in settings.sources:
        store_listing(lake, source)

    def count_requests() -> dict[str, int]:
        started = {name: len(getattr(services, name).requests) for name in KINDS.values()}
        unchanged = services.github.unchanged
        results = refresh_all_permissions(lake, settings, settings.sources)
        assert not [result.error for result in results if result.error]
        asked = {name: len(getattr(services, name).requests) - at for name, at in started.items()}
        return {**asked, "github, counted": asked["github"] - (services.github.unchanged - unchanged)}

    first, second = count_requests(), count_requests()
    members = Counter(source.type for source in settings.sources)
    print(json.dumps({"sources": members, "first": first, "second": second}, indent=1))
    repositories = members["github_issues"]
    assert members["github_pr"] == repositories  # both ask once: three lists, and addresses at most
    assert second["github"] <= 4 * repositories and second["github, counted"] <= repositories
    assert second["jira"] <= 4 * members["jira"] and second["slack"] <= 2 * members["slack"] + 2
    assert second["confluence"] <= 5 * members["confluence"] + 20
    member = services.members["repository"][0]
    services.github.of(member).collaborate("ada")
    count_requests()
    repository = [it for it in settings.sources if it.connection.location.endswith(f"/{member}")]
    assert len(repository) == 2
    for source in repository:
        [row] = lake.audiences(source.type, source.id).read_rows(["requires"]).to_pylist()
        assert row["requires"] == [["ada@acme.example"]]
