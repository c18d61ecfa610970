"""Discussions, through PyGithub, from a small GitHub on a real socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors.github.documents import GithubDiscussions
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.relations import DocumentContext, list_names
from knowledge_pipeline_tests.connectors.forge_sources import Open, opened, read, read_one, uris
from knowledge_pipeline_tests.fakes.github.server import GithubServer


@pytest.fixture
def server() -> Iterator[GithubServer]:
    with GithubServer() as server:
        yield server


@pytest.fixture
def discussions(server: GithubServer) -> Iterator[Open]:
    yield from opened(GithubDiscussions, server, [])


def test_a_discussion_has_its_comments_their_replies_and_the_answer(
    server: GithubServer, discussions: Open
) -> None:
    repository = server.repository
    uri = repository.discussion("Which port?", "See #7.", upvoteCount=4)
    repository.label(uri, "ops")
    first = repository.discuss(uri, "Try 8080.")
    for number in range(12):  # more than come with the comment
        repository.discuss(uri, f"reply {number}", to=first)
    repository.discuss(uri, "buy now", isMinimized=True)
    repository.answer(uri, repository.discuss(uri, "It is 9090.", to=first))
    for number in range(40):
        repository.discuss(uri, f"late {number}")
    found = read_one(discussions(), uri)
    assert found.title == "Which port? (#1)"
    assert "Comment by Ada Lovelace" in found.text
    assert found.text.index("reply 11") < found.text.index("It is 9090.") < found.text.index("late 0")
    assert "late 39" in found.text and "buy now" not in found.text
    kinds = [each["kind"] for each in found.metadata["segments"]]
    assert (kinds.count("reply"), kinds.count("answer"), kinds.count("comment")) == (12, 1, 41)
    known = {"state": "open", "status": "answered", "category": "Q&A", "upvotes": 4, "labels": ["Q&A", "ops"]}
    assert found.metadata | known == found.metadata
    context = DocumentContext("talk", "discussions", uri, "octo/engine")
    names = list_names(context, uri, url=found.url, title=found.title, metadata=found.metadata)
    assert "issue:octo/engine#1" in names


def test_state_label_category_and_number_choose(server: GithubServer, discussions: Open) -> None:
    repository = server.repository
    repository.issue("not a discussion")
    repository.discussion("idea", category="Ideas")
    repository.label(repository.discussion("labelled"), "ops")
    repository.close(repository.discussion("closed"))
    assert uris(discussions().discover()) == ["discussion/2", "discussion/3", "discussion/4"]
    assert uris(discussions(state="closed").discover()) == ["discussion/4"]
    assert uris(discussions(state="open").discover()) == ["discussion/2", "discussion/3"]
    assert uris(discussions(labels=("Ideas", "ops")).discover()) == ["discussion/2", "discussion/3"]
    assert uris(discussions(max_results=1).discover()) == ["discussion/4"]
    [item] = discussions(labels=("ops",)).discover()
    repository.discuss("discussion/3", "more")
    [changed] = discussions(labels=("ops",)).discover()
    assert item.revision != changed.revision


def test_discussions_that_are_off_or_forbidden_are_told(server: GithubServer, discussions: Open) -> None:
    server.repository.discussion("there")
    source = discussions()
    server.repository.has_discussions = False
    with pytest.raises(SourceRefused, match="octo/engine has its discussions switched off: switch them on"):
        read(source)
    server.repository.has_discussions = True
    server.answerer.unreadable = {"Repository.discussions"}
    with pytest.raises(SourceRefused, match="forbids the token to read this of octo/engine"):
        read(source)
