"""A source and its index are compared: what was changed behind its back is told, and mended by a refresh."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sql_models.files import load_models
from knowledge_pipeline.sql_models.run import query_model
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.verify_sources import SourceVerification, check_sources, verify_source
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import publish_release
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer

DAY = date(2026, 3, 1)
PAGES = {
    f"{name}.md": f"# {name.title()}\n\nHow {name} is done, in a few words.\n"
    for name in ("build", "deploy", "test")
}


@dataclass
class Project:
    settings: Settings

    @property
    def lake(self) -> Lake:
        return Lake(self.settings.store)

    def refresh(self) -> None:
        outcome = pipeline.refresh(self.lake, self.settings, self.settings.sources)
        assert not outcome.failures, outcome.failures

    def verify(self, source: str = "docs", day: date = DAY) -> SourceVerification:
        [config] = self.settings.select_sources([source])
        found = verify_source(RefreshContext(self.lake, self.settings, config), day=day)
        assert found.problem is None, found.problem
        return found

    def tables(self) -> tuple[Table, Table, Table, Table]:
        [config] = self.settings.select_sources(["docs"])
        space = resolve_space(self.settings.resolve_embedding(config))
        lake = self.lake
        return (
            lake.snapshot(config.type, "docs"),
            lake.chunks(config.type, "docs"),
            lake.embeddings(space.name, "docs", space.dimensions),
            lake.index(space.name, space.dimensions),
        )

    def contents(self) -> list[list[dict[str, Any]]]:
        """Every row of every table, but for times of writing."""
        return [
            sorted(
                (
                    {k: v for k, v in row.items() if k not in ("indexed_at", "updated_at")}
                    for row in table.read_rows(table.schema.names).to_pylist()
                ),
                key=lambda row: row[table.key],
            )
            for table in self.tables()
        ]


def open_project(folder: Path, sources: list[dict[str, Any]]) -> Project:
    project = Project(Settings.model_validate({"store": folder / "store", "sources": sources}))
    project.refresh()
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name, text in PAGES.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    connection = {"type": "local", "path": str(tmp_path / "docs")}
    return open_project(tmp_path, [{"id": "docs", "type": "markdown", "connection": connection}])


def rewrite(table: Table, uri: str, **values: Any) -> None:
    """Change columns of a row, and nothing that is computed of them."""
    where = eq("uri", uri) & eq("source", "docs") if "source" in table.schema.names else eq("uri", uri)
    [row, *_] = table.read_rows(table.schema.names, where).to_pylist()
    table.upsert([pa.RecordBatch.from_pylist([row | values], schema=table.schema)])


def change_document(project: Project) -> None:
    rewrite(project.tables()[0], "build.md", text="# Build\n\nHow nothing is done.\n")


def change_chunk(project: Project) -> None:
    rewrite(project.tables()[1], "build.md", text="How nothing is done.")


def drop_chunks(project: Project) -> None:
    project.tables()[1].delete_where(eq("uri", "build.md"))


def change_row(project: Project) -> None:
    rewrite(project.tables()[3], "build.md", text="How nothing is done.")


def drop_rows(project: Project) -> None:
    project.tables()[3].delete_where(eq("uri", "build.md"))


def drop_document(project: Project) -> None:
    project.tables()[0].delete_where(eq("uri", "build.md"))


def drop_everywhere(project: Project) -> None:
    for table in (*project.tables()[:2], project.tables()[3]):
        table.delete_where(eq("uri", "build.md"))


def add_document(project: Project) -> None:
    table = project.tables()[0]
    [row] = table.read_rows(table.schema.names, eq("uri", "build.md")).to_pylist()
    table.append([pa.RecordBatch.from_pylist([row | {"uri": "extra.md"}], schema=table.schema)])


def add_row(project: Project) -> None:
    table = project.tables()[3]
    [row] = table.read_rows(table.schema.names, eq("uri", "build.md")).to_pylist()
    row |= {"uri": "extra.md", "id": hash_strings("extra")}
    table.append([pa.RecordBatch.from_pylist([row], schema=table.schema)])


def replace_everywhere(project: Project) -> None:
    """As many documents as before, in each table, of which one is not there and another one is."""
    for table in (*project.tables()[:2], project.tables()[3]):
        rows = table.read_rows(table.schema.names, eq("uri", "build.md")).to_pylist()
        table.delete_where(eq("uri", "build.md"))
        rows = [row | {"uri": "extra.md"} | ({"id": row["id"] + "x"} if "id" in row else {}) for row in rows]
        table.append([pa.RecordBatch.from_pylist(rows, schema=table.schema)])


def change_vectors(project: Project) -> None:
    """In both places: the vector of another text."""
    _, _, vectors, index = project.tables()
    [mine, *_] = index.read_rows(["text_key"], eq("uri", "build.md"))["text_key"].to_pylist()
    [other, *_] = index.read_rows(["vector"], eq("uri", "test.md"))["vector"].to_pylist()
    vectors.upsert([pa.RecordBatch.from_pylist([{"text_key": mine, "vector": other}], schema=vectors.schema)])
    rewrite(index, "build.md", vector=other)


def change_indexed_vector(project: Project) -> None:
    [other] = project.tables()[3].read_rows(["vector"], eq("uri", "test.md"))["vector"].to_pylist()
    rewrite(project.tables()[3], "build.md", vector=other)


CHANGES: dict[Callable[[Project], None], tuple[str, str]] = {
    change_document: ("build.md", "stored with another text"),
    change_chunk: ("build.md", "cut into other chunks"),
    drop_chunks: ("build.md", "cut into other chunks"),
    change_row: ("build.md", "indexed with other chunks"),
    drop_rows: ("build.md", "stored, but not indexed"),
    drop_document: ("build.md", "listed, but not stored"),
    drop_everywhere: ("build.md", "listed, but not stored"),
    add_document: ("extra.md", "stored, but not listed"),
    add_row: ("extra.md", "indexed, but not stored"),
    change_vectors: ("build.md", "has a vector of another text"),
    change_indexed_vector: ("build.md", "has a vector of another text"),
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_was_changed_behind_its_back_is_told_and_mended(
    project: Project, change: Callable[[Project], None]
):
    sound = project.contents()
    assert project.verify().differences == {}
    change(project)
    uri, told = CHANGES[change]
    found = project.verify()
    assert set(found.differences) == {uri} and told in found.differences[uri]
    project.refresh()
    assert project.verify().differences == {}
    after = project.contents()
    if change in (add_document,):  # what a source no longer has is archived, not deleted
        assert [row["uri"] for row in after[0] if row["archived_at"]] == ["extra.md"]
    else:
        assert after == sound


@pytest.mark.parametrize("is_released", [False, True])
def test_a_document_in_place_of_another_one_is_told_and_mended(project: Project, is_released: bool):
    sound = project.contents()
    project.refresh()  # without a change
    replace_everywhere(project)
    if is_released:
        with project.lake.lock_index():
            assert publish_release(project.lake, keep=5)
    expected = {"build.md": "listed, but not stored", "extra.md": "stored, but not listed"}
    result = check_sources(project.lake, project.settings, "markdown")
    assert not result.passed
    assert {row["document"]: row["difference"] for row in result.sample_rows.to_pylist()} == expected
    project.refresh()
    assert project.verify().differences == {}
    live = [[row for row in rows if row.get("uri") != "extra.md"] for rows in project.contents()]
    assert live == sound


def test_a_wrong_vector_does_not_come_back_from_another_source(project: Project):
    """A text without a vector gets that of any row in the index."""
    [docs] = project.settings.sources
    twin = docs.model_copy(update={"id": "twin"})
    project.settings = project.settings.model_copy(update={"sources": (docs, twin)})
    project.refresh()
    index = project.tables()[3]
    change_vectors(project)
    [row] = index.read_rows(index.schema.names, eq("uri", "build.md") & eq("source", "twin")).to_pylist()
    [wrong] = index.read_rows(["vector"], eq("uri", "build.md") & eq("source", "docs"))["vector"].to_pylist()
    index.upsert([pa.RecordBatch.from_pylist([row | {"vector": wrong}], schema=index.schema)])
    assert set(project.verify().differences) == {"build.md"}
    project.refresh()
    assert project.verify().differences == {} == project.verify("twin").differences


def test_what_changes_at_the_source_is_no_difference(project: Project, tmp_path: Path):
    folder = tmp_path / "docs"
    (folder / "build.md").write_text("# Build\n\nAnother way.\n")
    (folder / "test.md").unlink()
    (folder / "new.md").write_text("# New\n")
    found = project.verify()
    assert (found.differences, found.counts["changed_since"], found.counts["documents"]) == ({}, 3, 1)
    project.refresh()
    assert project.verify().counts["changed_since"] == 0


def test_other_days_read_other_documents(tmp_path: Path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nText {number}.\n")
    connection = {"type": "local", "path": str(folder)}
    project = open_project(tmp_path, [{"id": "docs", "type": "markdown", "connection": connection}])
    checks = project.settings.checks.model_copy(update={"verified_documents": 5})
    project.settings = project.settings.model_copy(update={"checks": checks})
    for number in range(60):
        rewrite(project.tables()[0], f"{number}.md", text="other")
    first, again = project.verify(), project.verify()
    assert first.counts["documents"] == 5 and len(first.differences) == 5
    assert set(again.differences).isdisjoint(first.differences)  # those are marked
    assert project.verify(day=date(2026, 3, 2)).differences.keys() != first.differences.keys()


def test_a_source_that_cannot_be_compared_says_why(project: Project, tmp_path: Path):
    (tmp_path / "docs").rename(tmp_path / "moved")
    [config] = project.settings.sources
    ctx = RefreshContext(project.lake, project.settings, config)
    assert "docs" in (verify_source(ctx).problem or "")
    with project.lake.lock_source("docs"):
        assert "source 'docs'" in (verify_source(ctx).problem or "")
    assert pipeline.refresh(project.lake, project.settings, [config]).failures
    assert "did not finish" in (verify_source(ctx).problem or "")


def test_the_check_and_the_models_tell_it_over_time(project: Project):
    assert check_sources(project.lake, project.settings, "markdown").passed
    change_document(project)
    result = check_sources(project.lake, project.settings, "markdown")
    assert not result.passed and result.sample_rows["document"].to_pylist() == ["build.md"]

    def rows(name: str) -> list[dict[str, Any]]:
        return query_model(project.lake, load_models(), name, limit=None).rows.to_pylist()

    told = [(row["source"], row["listed"], row["differences"]) for row in rows("verifications")]
    assert told == [("docs", 3, 0), ("docs", 3, 1)]
    [stale] = rows("stale_sources")
    assert stale["state"] == "stale" and "1 documents differ from the source" in stale["reason"]
    project.refresh()
    [fresh] = rows("stale_sources")
    assert fresh["state"] == "fresh"


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    repository = tmp_path / "repository"
    repository.mkdir()
    for name, text in {
        "main.py": "def main():\n    return 1\n",
        "README.md": "# Shop\n\nSells.\n",
        "empty.py": "",
    }.items():
        (repository / name).write_text(text)
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "First"],
    ):
        subprocess.run(["git", "-C", repository, *command], check=True)
    git = {"type": "git", "url": repository.as_uri()}
    files = tmp_path / "files"
    files.mkdir()
    (files / "notes.html").write_text("<h1>Notes</h1><p>Some.</p>")
    (files / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    with JiraServer() as jira, ConfluenceServer("cloud") as wiki:
        for number in range(5):
            jira.site.create(f"Ticket {number}", f"Text of ticket {number}.")
            wiki.create(f"Page {number}", f"Text of page {number}.")
        sources: list[dict[str, Any]] = [
            {"id": "code", "type": "code", "connection": git},
            {"id": "history", "type": "git_history", "connection": git},
            {"id": "docs", "type": "markdown", "connection": git},
            {"id": "files", "type": "files", "connection": {"type": "local", "path": str(files)}},
            {"id": "tickets", "type": "jira", "connection": jira.connection(), "attachments": {}},
            {"id": "wiki", "type": "confluence", "connection": wiki.connection},
        ]
        yield open_project(tmp_path, sources)


def test_sources_of_several_types_give_no_false_alarm(several: Project):
    found = {source.id: several.verify(source.id) for source in several.settings.sources}
    assert {id_: it.differences for id_, it in found.items()} == {key: {} for key in found}
    assert {id_: it.counts["changed_since"] for id_, it in found.items()} == dict.fromkeys(found, 0)
    assert all(it.counts[name] for it in found.values() for name in ("documents", "chunks", "vectors")), found
    assert json.dumps([it.to_rows() for it in found.values()]) == "[[], [], [], [], [], []]"


def test_a_service_that_is_listed_by_updates_is_mended_too(several: Project):
    table = several.lake.snapshot("confluence", "wiki")
    uri = table.read_rows(["uri"])["uri"].to_pylist()[0]
    table.delete_where(eq("uri", uri))
    rewritten = table.read_rows(["uri"])["uri"].to_pylist()[0]
    rewrite(table, rewritten, text="other")
    assert set(several.verify("wiki").differences) == {uri, rewritten}
    several.refresh()
    assert several.verify("wiki").differences == {}
    assert uri in table.read_rows(["uri"])["uri"].to_pylist()
