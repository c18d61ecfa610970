"""Documents of many sources that name each other: a commit a ticket, a pull request an issue."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.contract.responses import RelationsResponse
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    ran = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@dataclass
class Organisation:
    """Services and a repository whose documents name each other."""

    project: Project
    jira: JiraServer
    wiki: ConfluenceServer
    github: GithubServer
    repo: Path
    commit: str
    ticket: str  # uris
    page: str
    pull: str
    issue: str

    def related(self, target: str, **options: Any) -> RelationsResponse:
        with KnowledgeBase(self.project.settings) as knowledge:
            return knowledge.related(target, **options)

    def told(self, target: str, **options: Any) -> set[tuple[str, str, str]]:
        found = self.related(target, **options).relations
        return {(each.kind, each.direction, f"{each.document.source}:{each.document.uri}") for each in found}


@pytest.fixture
def organisation(project: Project, tmp_path: Path) -> Iterator[Organisation]:
    with ExitStack() as stack:
        jira, wiki = stack.enter_context(JiraServer()), stack.enter_context(ConfluenceServer())
        github = stack.enter_context(GithubServer(repository="ann/app"))
        ticket = jira.create("Sessions outlive their key", "An old session stays valid.")
        issue = github.repository.issue("People are logged out", "Since the rotation.")
        pull = github.repository.pull(
            "Retire old keys", f"Implements PROJ-1. Fixes #{issue.rpartition('/')[2]}"
        )
        wiki.create("Rotation", "How keys are rotated, for PROJ-1.")
        link = '<ac:link><ri:page ri:content-title="Rotation"/></ac:link>'
        page = wiki.create("Runbook", storage=f"<p>First read {link}, then wait.</p>")
        repo = tmp_path / "app"
        (repo / "docs").mkdir(parents=True)
        (repo / "keys.py").write_text("def rotate():\n    '''Rotate keys: PROJ-1.'''\n")
        (repo / "docs" / "keys.md").write_text("# Keys\n\nSee [the code](../keys.py).\n")
        git(repo, "init", "-q")
        git(repo, "add", ".")
        git(repo, "commit", "-qm", "Rotate keys weekly\n\nCloses PROJ-1")
        for id_, type_ in (("code", "code"), ("docs", "markdown"), ("history", "git_history")):
            project.declare(id_, type_, repo)
        for id_, type_, connection in (
            ("tickets", "jira", jira.connection()),
            ("wiki", "confluence", wiki.connection),
            ("pulls", "github_pr", github.connection()),
            ("issues", "github_issues", github.connection()),
        ):
            project.sources[id_] = {"id": id_, "type": type_, "connection": connection}
        commit = git(repo, "rev-parse", "HEAD")
        made = Organisation(project, jira, wiki, github, repo, commit, ticket, page, pull, issue)
        outcome = project.refresh()
        assert not outcome.failures
        yield made


def test_a_ticket_is_told_of_by_the_commit_the_pull_request_the_page_and_the_code(
    organisation: Organisation,
) -> None:
    rotation = next(
        each.document.uri
        for each in organisation.related("PROJ-1").relations
        if each.document.source == "wiki"
    )
    assert organisation.told("PROJ-1") == {
        ("closes", "from", f"history:commit/{organisation.commit}"),
        ("implements", "from", f"pulls:{organisation.pull}"),
        ("references", "from", f"wiki:{rotation}"),
        ("references", "from", "code:keys.py"),
    }
    assert organisation.told(f"tickets:{organisation.ticket}") == organisation.told("PROJ-1")
    with KnowledgeBase(organisation.project.settings) as knowledge:
        by_key, by_url = knowledge.get("PROJ-1"), knowledge.get(f"{organisation.jira.url}/browse/PROJ-1")
        assert {each.citation.source for each in by_key.results} == {"tickets"}
        assert by_url.results == by_key.results


def test_records_are_related_by_the_ids_that_they_give_themselves(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    (folder / "sessions").mkdir(parents=True)
    session, plan = folder / "sessions" / "first.md", folder / "plan.md"
    session.write_text("---\nid: SESSION_001\nreferences: PLAN_2\n---\n# Signing\n\nWe sign sessions.\n")
    plan.write_text("---\nid: PLAN_2\n---\n# Storing\n\nThen we store them.\n")
    access = {"visibility": "private", "tenant": "red", "principals": ["ann"]}
    project.declare("records", "archive", folder, access=access)
    project.refresh()
    plan.unlink()
    session.rename(folder / "sessions" / "moved.md")

    def find_relations(target: str) -> list[tuple[str, str, bool]]:
        relations = knowledge.related(target).relations
        return [(it.direction, it.document.path, it.document.archived) for it in relations]

    with KnowledgeBase(project.settings) as knowledge:
        assert find_relations("session_001") == [("to", "plan.md", False)]
        assert knowledge.get("SESSION_001").results[0].citation.path == "sessions/first.md"
        with pytest.raises(NotFound, match="give a ticket's key"):
            knowledge.related("SESSION_00")
    project.refresh()
    with KnowledgeBase(project.settings) as knowledge:
        assert find_relations("SESSION_001") == [("to", "plan.md", True)]
        both = {("from", "sessions/first.md", True), ("from", "sessions/moved.md", False)}
        assert set(find_relations("PLAN_2")) == set(find_relations("Storing")) == both
        assert knowledge.get("PLAN_2").results[0].metadata["archived"] is True
        assert knowledge.search("store them").results[0].citation.path != "plan.md"
        with pytest.raises(NotFound):
            knowledge.related("PLAN_2", access=Access.public())


@pytest.mark.slow
def test_a_pull_request_closes_an_issue_of_another_source(organisation: Organisation) -> None:
    number = organisation.pull.rpartition("/")[2]
    closes = ("closes", "to", f"issues:{organisation.issue}")
    assert closes in organisation.told(f"ann/app#{number}")
    assert closes in organisation.told(f"https://github.com/ann/app/pull/{number}")
    issue = organisation.issue.rpartition("/")[2]
    assert ("closes", "from", f"pulls:{organisation.pull}") in organisation.told(f"ann/app#{issue}")


@pytest.mark.slow
def test_a_page_links_to_a_page_and_a_document_to_code(organisation: Organisation) -> None:
    linked = organisation.related(f"wiki:{organisation.page}").relations
    assert [(each.kind, each.direction, each.document.title) for each in linked] == [
        ("references", "to", "Rotation")
    ]
    assert organisation.told("docs/keys.md") == {
        ("references", "to", "code:keys.py"),
        ("changes", "from", f"history:commit/{organisation.commit}"),
    }
    changed = {uri for kind, way, uri in organisation.told(organisation.commit[:10]) if kind == "changes"}
    assert changed == {"code:keys.py", "docs:docs/keys.md"}


@pytest.mark.slow
def test_results_name_what_they_are_related_to(organisation: Organisation) -> None:
    with KnowledgeBase(organisation.project.settings) as knowledge:
        answer = knowledge.search("sessions outlive their key", limit=20)
        got = knowledge.get(f"tickets:{organisation.ticket}")
    of_ticket = next(each for each in answer.results if each.citation.source == "tickets")
    assert [each.kind for each in of_ticket.related] == ["closes", "implements", "references"]
    assert got.results[0].related == of_ticket.related
    told = json.loads(json.dumps(answer.as_json()))["results"][answer.results.index(of_ticket)]
    assert told["related"][0]["document"]["uri"] == f"commit/{organisation.commit}"
    assert not {"names", "mentions", "leads"} & set(told["metadata"])


@pytest.mark.slow
def test_an_edit_and_a_deletion_change_what_is_told(organisation: Organisation) -> None:
    organisation.github.edit(organisation.pull, "Nothing to do with any ticket.")
    organisation.jira.delete(organisation.ticket)
    organisation.project.refresh(full=False)
    organisation.project.sources["tickets"]["metadata"] = {"tags": ["x"]}
    organisation.project.refresh()
    still = organisation.told("PROJ-1")
    assert ("implements", "from", f"pulls:{organisation.pull}") not in still
    assert ("closes", "from", f"history:commit/{organisation.commit}") in still
    kept = tables(organisation.project)
    organisation.project.refresh(full=True)
    assert tables(organisation.project) == kept


@pytest.mark.slow
def test_nobody_is_told_of_what_they_may_not_see(organisation: Organisation) -> None:
    private = {"visibility": "private", "tenant": "red", "principals": ["ann"]}
    organisation.project.sources["history"]["access"] = private
    organisation.project.sources["tickets"]["access"] = private
    organisation.project.refresh()
    ann = Access("red", frozenset({"ann"}))
    assert ("closes", "from", f"history:commit/{organisation.commit}") in organisation.told(
        "PROJ-1", access=ann
    )
    for access in (Access.public(), Access("red", frozenset({"bob"})), Access("blue", frozenset({"ann"}))):
        told = organisation.told("PROJ-1", access=access)
        assert told
        assert not any(uri.startswith(("history:", "tickets:")) for _, _, uri in told)
        assert not organisation.related("PROJ-1", access=access).documents
        with pytest.raises(NotFound):
            organisation.related(organisation.commit, access=access)
        pull = organisation.related(f"pulls:{organisation.pull}", access=access)
        assert "PROJ-1" in {each.target for each in pull.unresolved_mentions}  # as its own text says


@pytest.mark.slow
def test_what_nobody_has_heard_of_is_said_to_be_unknown(organisation: Organisation) -> None:
    for target in ("PROJ-999", "x' OR true --", "", "no/such/file.md", "https://example.org/nothing"):
        with pytest.raises(NotFound, match="give a ticket's key"):
            organisation.related(target)


@pytest.mark.slow
def test_what_was_asked_is_in_the_log(organisation: Organisation) -> None:
    found = organisation.related("PROJ-1")
    (row,) = (
        organisation.project.lake.log_table("queries")
        .read_rows(["query_id", "type", "text", "results"])
        .to_pylist()
    )
    assert row == {"query_id": found.query_id, "type": "related", "text": "PROJ-1", "results": 4}
