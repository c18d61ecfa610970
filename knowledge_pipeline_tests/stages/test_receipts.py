"""Receipts of deletion: where something stood, that it is gone, and that a later look finds it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.extensions import publish
from knowledge_pipeline.receipts import Receipt, check_receipt, purge_with_receipt
from knowledge_pipeline.store.local_state import ANSWERS, SharedState
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.stages.publish.conftest import Query, dsn, pgvector_server, query  # noqa: F401

SECRET = "Zanzibarquux"


@pytest.fixture(scope="module")
def released(template: Project) -> Project:
    """Two sources in two releases, and a document that changed in between."""
    repo, docs = template.root / "repo", template.root / "docs"
    for folder in (repo, docs):
        folder.mkdir()
    (repo / "a.py").write_text("import secret\n\nfirst = secret.Zanzibar()\n")
    (repo / "secret.py").write_text(f"class Zanzibar:\n    '''{SECRET}'''\n")
    (repo / "twin.py").write_text("same = 1\n")
    (docs / "secret.py.md").write_text("# Other\n\nText.\n")
    template.declare("main", "code", repo)
    template.declare("docs", "markdown", docs)
    template.refresh()
    (repo / "secret.py").write_text(
        f"class Zanzibar:\n    '''{SECRET} again'''\n\n\nclass Other:\n    pass\n"
    )
    template.refresh()
    return template


@pytest.fixture
def repo(project: Project, released: Project) -> Path:
    """The source `main` of a copy of it, with a question for the document, feedback, an answer and a mart."""
    project.copy_all(released)
    with KnowledgeBase(project.settings) as base:
        answer = base.get("main:secret.py")
        base.feedback(answer.query_id, answer.results[0].id, "useful")
        base.search("Zanzibar", mode="words")
    with SharedState(project.lake.folder) as state:
        state.put(ANSWERS, "1", SECRET.encode())
    marts = project.lake.folder / "marts"
    marts.mkdir(exist_ok=True)
    pq.write_table(pa.table({"source": ["main"], "uri": ["secret.py"]}), marts / "names_it.parquet")
    return project.root / "repo"


def purge(project: Project, **options: Any) -> Receipt:
    return purge_with_receipt(project.lake, project.settings, "main", **{"scope": "document", **options})


def rows(receipt: Receipt) -> dict[str, tuple[int, int]]:
    return {it.place: (it.rows, it.versions) for it in receipt.places}


def found_again(project: Project, receipt: Receipt) -> dict[str, int]:
    return {it.place: it.rows for it in check_receipt(project.lake, receipt.receipt)[1]}


def test_a_receipt_says_where_a_document_stood_and_that_it_is_gone(project: Project, repo: Path) -> None:
    (space,) = project.lake.list_spaces()
    (repo / "secret.py").unlink()
    receipt = purge(project, uri="secret.py")
    assert (receipt.source, receipt.scope, receipt.documents, receipt.releases) == (
        "main",
        "document",
        1,
        (1, 2),
    )
    stood = rows(receipt)
    tables = ("snapshot/code/main", "chunks/code/main", "facts/code/main", f"embeddings/{space}/main")
    shared = (f"index/{space}", "graph/symbols", "graph/edges", "logs/queries", "logs/feedback")
    others = ("results of SQL models", "answers in the local state")
    assert stood.keys() == {*tables, *shared, *others}
    assert stood["logs/queries"] == (1, 1) and stood["logs/feedback"] == (1, 1)
    assert all(it.rows >= 1 and it.versions >= 1 and it.erased_at for it in receipt.places)
    assert stood[f"index/{space}"][1] >= 2  # versions: those of both releases
    assert found_again(project, receipt) == {}
    assert not list((project.lake.folder / "marts").iterdir())
    assert open_log(project.lake, "queries").count_rows() == 1
    assert any("backups" in sentence for sentence in receipt.out_of_reach)


def test_a_receipt_holds_no_content_and_no_name_of_a_document(project: Project, repo: Path) -> None:
    receipt = purge(project, uri="secret.py")
    stored = project.lake.receipts().read_rows(["receipt", "source", "content"]).to_pylist()
    assert [row["receipt"] for row in stored] == [receipt.receipt]
    assert "secret.py" not in stored[0]["content"] and SECRET not in stored[0]["content"]
    files = [path for path in project.lake.root.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.lower().encode() in path.read_bytes().lower()] == []
    assert json.loads(stored[0]["content"]) == json.loads(json.dumps(receipt.as_json()))


def test_a_later_look_finds_what_came_back_and_where(project: Project, repo: Path) -> None:
    receipt = purge(project, uri="secret.py")
    project.refresh()  # the source still has it
    (space,) = project.lake.list_spaces()
    again = found_again(project, receipt)
    assert {"snapshot/code/main", "chunks/code/main", f"index/{space}", "graph/symbols"} <= again.keys()
    (repo / "secret.py").unlink()
    second = purge(project, uri="secret.py")
    assert found_again(project, receipt) == found_again(project, second) == {}


def test_texts_that_other_documents_have_too_are_not_found_again(project: Project, repo: Path) -> None:
    (repo / "twin2.py").write_text("same = 1\n")
    project.refresh()
    receipt = purge(project, uri="twin.py")
    assert found_again(project, receipt) == {}
    with KnowledgeBase(project.settings) as base:
        assert base.get("main:twin2.py").results


def test_archived_documents_and_a_whole_source_have_receipts_too(project: Project, repo: Path) -> None:
    (repo / "secret.py").unlink()
    project.refresh()
    archived = purge(project, scope="archived")
    assert archived.documents == 1 and rows(archived)["snapshot/code/main"][0] == 1
    whole = purge(project, scope="source")
    assert whole.documents == 2 and rows(whole)["snapshot/code/main"][0] == 2
    assert len(whole.hashes) < 5
    assert found_again(project, archived) == found_again(project, whole) == {}
    project.refresh("main")
    assert found_again(project, whole)["snapshot/code/main"] == 2
    assert found_again(project, archived) == {}


def test_a_name_that_nothing_has_is_refused_and_leaves_no_receipt(project: Project, repo: Path) -> None:
    with pytest.raises(NotFound, match=r"source 'main' holds no document 'no\.py'"):
        purge(project, uri="no.py")
    with pytest.raises(NotFound, match="nothing of a source 'other' is stored"):
        purge_with_receipt(project.lake, project.settings, "other", scope="source")
    with pytest.raises(NotFound, match="there is no receipt 'x'; stored: none"):
        check_receipt(project.lake, "x")
    assert open_log(project.lake, "feedback").count_rows() == 1


def test_a_published_copy_is_named_until_the_next_publication(project: Project, repo: Path, dsn: str) -> None:  # noqa: F811
    def publish_now() -> None:
        publish.refresh(project.lake, project.settings, publish.open_target())

    publish_now()
    (repo / "secret.py").unlink()
    receipt = purge(project, uri="secret.py")
    (published,) = (it for it in receipt.places if it.place.startswith("publication"))
    assert published.rows >= 1 and published.erased_at is None
    assert found_again(project, receipt).keys() == {published.place}
    publish_now()
    assert found_again(project, receipt) == {}


def test_a_database_that_cannot_be_reached_keeps_nothing_from_being_erased(
    project: Project, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(publish.DSN_VARIABLE, "postgresql://nobody@127.0.0.1:9/none")
    receipt = purge(project, uri="secret.py")
    assert receipt.documents == 1 and "cannot be reached" in receipt.out_of_reach[-1]
    assert "cannot be reached" in check_receipt(project.lake, receipt.receipt)[2][0]
