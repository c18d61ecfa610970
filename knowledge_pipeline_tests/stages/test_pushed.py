"""Pushed documents: each is kept until a refresh has it, and its source's snapshot is where it lives."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge_pipeline import pushed
from knowledge_pipeline.connectors.push import PushedDocuments
from knowledge_pipeline.contract.requests import PushRequest
from knowledge_pipeline.errors import InvalidQuery, NotFound, TooManyRequests
from knowledge_pipeline.maintenance import purge_documents, purge_source
from knowledge_pipeline.pushed import FILE, PushInbox
from knowledge_pipeline_tests.conftest import Project, tables

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"


@pytest.fixture
def notes(project: Project) -> Project:
    project.sources["notes"] = {"id": "notes", "type": "push", "connection": {"type": "push"}}
    return project


def push(notes: Project, uri: str, text: str, **fields: Any) -> None:
    [source] = notes.settings.select_sources(["notes"])
    pushed.push_document(notes.lake, source, PushRequest("notes", uri, text, **fields))


def delete(project: Project, uri: str) -> None:
    [source] = project.settings.select_sources(["notes"])
    pushed.delete_document(project.lake, source, uri)


def refresh(project: Project, **options: Any) -> tuple[int, int, int]:
    """Documents that the snapshot added, changed and archived."""
    outcome = project.refresh(**options)
    assert not outcome.failures, outcome.failures
    stats = next(stats for stats in outcome.stats if stats.stage == "snapshot")
    return stats.added, stats.changed, stats.removed


def texts(project: Project) -> dict[str, str]:
    """What is searched, by uri."""
    [name] = [name for name in tables(project) if name.startswith("index")]
    chunks = {row["id"]: row["text"] for row in tables(project, archived=False)["chunks notes"]}
    return {row["uri"]: chunks[row["id"]] for row in tables(project, archived=False)[name]}


def test_documents_are_added_replaced_and_deleted_and_the_last_push_wins(notes: Project) -> None:
    assert refresh(notes) == (0, 0, 0)
    push(notes, "a.md", "first")
    push(notes, "b.md", "other")
    push(notes, "a.md", "second")
    assert refresh(notes) == (2, 0, 0)
    assert texts(notes) == {"a.md": "second", "b.md": "other"}
    assert refresh(notes) == (0, 0, 0), "what is in the snapshot stays"
    push(notes, "a.md", "second")
    assert refresh(notes) == (0, 0, 0), "the same again changes nothing"
    push(notes, "a.md", "third")
    delete(notes, "b.md")
    assert refresh(notes) == (0, 1, 1)
    assert texts(notes) == {"a.md": "third"}
    push(notes, "b.md", "other")
    assert refresh(notes) == (0, 1, 0), "what was deleted may come back"
    assert texts(notes) == {"a.md": "third", "b.md": "other"}


def test_a_full_reindex_leaves_what_is_stored(notes: Project) -> None:
    push(notes, "a.md", "first")
    push(notes, "b.md", "second")
    refresh(notes)
    delete(notes, "b.md")
    refresh(notes)
    before = tables(notes)
    refresh(notes, full=True)
    assert tables(notes) == before
    push(notes, "a.md", "third")
    refresh(notes, full=True)
    assert texts(notes) == {"a.md": "third"}


def test_what_a_refresh_wrote_and_could_not_confirm_is_taken_again(
    notes: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_: PushedDocuments) -> None:
        raise KeyboardInterrupt

    push(notes, "a.md", "first")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PushedDocuments, "confirm", die)
        notes.refresh()
    assert [it.uri for it in PushInbox(notes.lake.folder).list_waiting("notes")] == ["a.md"]
    assert refresh(notes) == (0, 0, 0)
    assert texts(notes) == {"a.md": "first"} and not PushInbox(notes.lake.folder).list_waiting("notes")


def test_what_comes_while_it_is_read_waits_for_the_next_refresh(notes: Project) -> None:
    inbox = PushInbox(notes.lake.folder)
    push(notes, "a.md", "first")
    push(notes, "b.md", "first")
    source = PushedDocuments(inbox, "notes")
    items = list(source.discover())
    push(notes, "a.md", "second")
    assert [source.fetch(item).text for item in items] == ["second", "first"]
    source.confirm()
    assert [it.uri for it in inbox.list_waiting("notes")] == ["a.md"]
    assert refresh(notes) == (1, 0, 0)


def test_a_document_says_what_its_sender_said_and_secrets_leave(notes: Project) -> None:
    fields = {"labels": ("ops",), "project": "shop", "status": "open", "author": "Ada"}
    push(
        notes,
        "guides/deploy.md",
        f"# Deploy\n\nThe key is {TOKEN}.",
        metadata={"region": ("emea", "apac"), "level": 3},
        **fields,
    )
    push(notes, "tool.py", "def fly():\n    return 1\n", url="https://example.org/tool.py")
    refresh(notes)
    held = tables(notes)
    [name] = [name for name in held if name.startswith("index")]
    rows = {row["uri"]: row for row in held[name]}
    guide = rows["guides/deploy.md"]
    assert {"region:emea", "region:apac", "level:3"} <= set(guide["tags"])
    assert (guide["labels"], guide["project"], guide["status"]) == (["ops"], "shop", "open")
    chunks = {row["uri"]: row for row in held["chunks notes"]}
    assert (chunks["guides/deploy.md"]["title"], chunks["guides/deploy.md"]["author"]) == ("Deploy", "Ada")
    assert TOKEN not in chunks["guides/deploy.md"]["text"]
    assert (chunks["tool.py"]["language"], chunks["tool.py"]["symbol"]) == ("python", "fly")


def test_what_no_document_can_be_is_refused_in_a_sentence(notes: Project) -> None:
    notes.sources["notes"]["max_bytes"] = 10
    with pytest.raises(InvalidQuery, match="the text has 12 bytes, and source 'notes' takes 10"):
        push(notes, "a.md", "twelve bytes")
    for uri in ("", "/a", "a/", " a", "a%20b", "a\\b", "a\nb", "a" * 501):
        with pytest.raises(InvalidQuery, match="names no document"):
            push(notes, uri, "text")
    for text in ("", " \n"):
        with pytest.raises(InvalidQuery, match="the text is empty"):
            push(notes, "a", text)
    with pytest.raises(InvalidQuery, match="the language 'klingon' is not known"):
        push(notes, "a", "text", language="klingon")
    for key in ("title", "namespace", "in-branch", "1st", "a b", ""):
        with pytest.raises(InvalidQuery, match="metadata cannot have the key"):
            push(notes, "a", "text", metadata={key: "x"})
    with pytest.raises(InvalidQuery, match="metadata has 51 keys: give at most 50"):
        push(notes, "a", "text", metadata={f"k{number}": "x" for number in range(51)})
    assert not (notes.lake.folder / FILE).exists()


def test_a_document_that_is_not_there_cannot_be_deleted(notes: Project) -> None:
    with pytest.raises(NotFound, match=r"source 'notes' has no document 'a\.md'"):
        delete(notes, "a.md")
    push(notes, "a.md", "first")
    delete(notes, "a.md")  # before a refresh has it
    with pytest.raises(NotFound):
        delete(notes, "a.md")
    assert refresh(notes) == (0, 0, 0)


def test_too_many_that_wait_are_refused_and_what_waits_is_kept(
    notes: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushed, "MAX_WAITING", 1)
    push(notes, "a.md", "first")
    push(notes, "a.md", "second")
    with pytest.raises(TooManyRequests, match="wait for a refresh: try again later"):
        push(notes, "b.md", "other")
    refresh(notes)
    assert texts(notes) == {"a.md": "second"}


def test_a_purge_erases_what_waits_too(notes: Project) -> None:
    for uri in ("a.md", "b.md"):
        push(notes, uri, "first")
    refresh(notes)
    for uri in ("a.md", "b.md"):
        push(notes, uri, "purged words")
    purge_documents(notes.lake, notes.settings, "notes", uri="a.md")
    assert [it.uri for it in PushInbox(notes.lake.folder).list_waiting("notes")] == ["b.md"]
    purge_source(notes.lake, notes.settings, "notes")
    assert not PushInbox(notes.lake.folder).list_waiting("notes")
    assert b"purged words" not in (notes.lake.folder / FILE).read_bytes()
