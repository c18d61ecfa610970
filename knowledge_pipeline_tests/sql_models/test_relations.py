"""The models over documents of many sources that name each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.sql_models import run
from knowledge_pipeline.sql_models.files import load_models
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.sql_models.test_run import schemas_batch
from knowledge_pipeline_tests.stages.test_relations import git

LOADED = load_models()


def of(project: Project, name: str) -> list[dict[str, Any]]:
    return run.query_model(project.lake, LOADED, name, limit=None).rows.to_pylist()


def links_of(project: Project, source: str) -> set[tuple[str, str, str, str | None]]:
    """Kind, target, what it leads to, and the document, of all links of a source."""
    rows = [row for row in of(project, "document_links") if row["source"] == source]
    named = [row["target_uri"] and f"{row['target_source']}:{row['target_uri']}" for row in rows]
    found = [
        (row["kind"], row["target"], row["leads_to"], name) for row, name in zip(rows, named, strict=True)
    ]
    assert len(found) == len(set(found))
    return set(found)


def test_a_ticket_a_commit_a_pull_request_and_a_page_of_different_sources_meet(
    project: Project, tmp_path: Path
) -> None:
    with JiraServer() as jira, GithubServer(repository="ann/app") as github:
        ticket = jira.create(
            "Sessions outlive their key", "An old session stays valid. See PROJ-77, in UTF-8."
        )
        issue = github.repository.issue("People are logged out", "Since the rotation.")
        number = issue.rpartition("/")[2]
        pull = github.repository.pull("Retire old keys", f"Implements PROJ-1. Fixes #{number}, closes #999.")
        repo = tmp_path / "app"
        (repo / "docs").mkdir(parents=True)
        (repo / "keys.py").write_text("def rotate():\n    '''Rotate keys: PROJ-1.'''\n")
        (repo / "docs" / "keys.md").write_text(
            "---\nimplements: PROJ-1\nsupersedes: PROJ-5\n---\n# Keys\n\nSee [the code](../keys.py), "
            f"[why](https://github.com/ann/app/issues/{number}), [gone](gone.md), "
            f"[site](https://x.example/y). Fixes https://github.com/ann/app/pull/{pull.rpartition('/')[2]}.\n"
        )
        git(repo, "init", "-q")
        git(repo, "add", ".")
        git(repo, "commit", "-qm", "Rotate keys weekly\n\nCloses PROJ-1")
        for id_, type_ in (("code", "code"), ("docs", "markdown"), ("history", "git_history")):
            project.declare(id_, type_, repo)
        for id_, type_, connection in (
            ("tickets", "jira", jira.connection()),
            ("pulls", "github_pr", github.connection()),
            ("issues", "github_issues", github.connection()),
        ):
            project.sources[id_] = {"id": id_, "type": type_, "connection": connection}
        assert not project.refresh().failures
        commit = git(repo, "rev-parse", "HEAD")
    ticket, pull, issue = f"tickets:{ticket}", f"pulls:{pull}", f"issues:{issue}"
    assert {each for each in links_of(project, "history") if each[0] != "links"} == {
        ("closes", "PROJ-1", "document", ticket),
        ("changes", "keys.py", "document", "code:keys.py"),
        ("changes", "docs/keys.md", "document", "docs:docs/keys.md"),
    }
    assert links_of(project, "pulls") >= {
        ("implements", "PROJ-1", "document", ticket),
        ("closes", f"#{number}", "document", issue),
        ("closes", "#999", "outside", None),
    }
    assert links_of(project, "code") == {("references", "PROJ-1", "document", ticket)}
    assert links_of(project, "docs") == {
        ("implements", "PROJ-1", "document", ticket),
        ("supersedes", "PROJ-5", "unknown", None),
        ("links", "../keys.py", "document", "code:keys.py"),
        ("links", f"https://github.com/ann/app/issues/{number}", "document", issue),
        ("closes", f"https://github.com/ann/app/pull/{pull.rpartition('/')[2]}", "document", pull),
        ("links", "gone.md", "unknown", None),
        ("links", "https://x.example/y", "outside", None),
    }
    assert links_of(project, "tickets") == set()  # what looks like a key may be none
    broken = {row["target"] for row in of(project, "broken_links") if row["source"] == "docs"}
    assert broken == {"gone.md", "PROJ-5"}
    central = {row["uri"]: row for row in of(project, "most_linked_documents")}
    assert central[ticket.partition(":")[2]]["documents"] == 4
    assert central["keys.py"]["changes"] == 1
    assert f"commit/{commit}" in {row["uri"] for row in of(project, "document_links")}
    assert all(not of(project, model.name) for model in LOADED if model.layer == "tests")


@pytest.mark.parametrize(
    "metadata",
    [
        {"mentions": "x", "names": "y", "leads": True},
        {"mentions": [1, None, "x", [], {}], "names": [1, None, {}], "leads": True},
        {"mentions": [{"kind": "closes"}, {"target": "x"}, {"kind": "unheard", "target": "x", "name": "y"}]},
        {"mentions": [{"kind": 1, "target": {"a": 1}, "name": []}], "leads": "true"},
    ],
)
def test_mentions_of_an_unforeseen_shape_are_no_error(project: Project, metadata: dict[str, Any]) -> None:
    chunks = project.lake.chunks("code", "s")
    of_type = {"string": "", "large_string": "", "bool": False}
    base = {field.name: of_type.get(str(field.type), 0) for field in chunks.schema if not field.nullable}
    row = {**base, "id": "1", "uri": "u", "metadata": json.dumps(metadata)}
    chunks.append([schemas_batch([row], chunks.schema)])
    project.lake.snapshot("code", "s").append([])
    assert of(project, "document_links") == []


def test_of_documents_with_one_name_that_of_the_same_source_is_meant(
    project: Project, tmp_path: Path
) -> None:
    for id_ in ("a", "b", "c"):
        folder = tmp_path / id_
        folder.mkdir()
        (folder / "PROJ-1.md").write_text(f"# The ticket in {id_}\n")
        if id_ != "a":
            (folder / "plan.md").write_text("Implements PROJ-1, as PROJ-1 says.\n")
        project.declare(id_, "markdown", folder)
    (tmp_path / "c" / "PROJ-1.md").unlink()
    project.refresh()
    assert links_of(project, "b") == {("implements", "PROJ-1", "document", "b:PROJ-1.md")}
    assert links_of(project, "c") == {("implements", "PROJ-1", "document", "a:PROJ-1.md")}
