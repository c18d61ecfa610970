"""Snippets of a small GitLab on a real socket, and who may read them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors.gitlab.documents import GitlabSnippets, read_snippet_permissions
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.connectors.forge_sources import read
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer


@pytest.fixture
def server() -> Iterator[GitlabServer]:
    with GitlabServer(kind="snippet") as server:
        yield server


def test_a_snippet_is_its_description_and_its_files(server):
    uri = server.project.snippet(
        "Rotate logs/harbour", "def rotate():\n    pass\n", path="rotate.py", description="For #12."
    )
    server.project.records[uri]["blobs"] += [
        {"path": "logo.png", "rawPlainData": None},
        {"path": "big.txt", "rawPlainData": "x" * 2000},
        {"path": "empty.txt", "rawPlainData": ""},
    ]
    for number in range(45):
        server.project.snippet(f"s{number}", "text", path="a.txt")
    with GitlabSnippets(server.connection(), 1000) as source:
        items = {item.uri: item for item in source.discover()}
        found = read(source)
    assert len(found) == 47
    about, file = found[uri], found[f"{uri}/rotate.py"]
    assert (
        about.text == "# Rotate logs harbour\n\nFor #12.\n\n- rotate.py\n- logo.png\n- big.txt\n- empty.txt"
    )
    assert (file.path, file.language, file.title) == (
        "Rotate logs harbour/rotate.py",
        "python",
        "Rotate logs/harbour",
    )
    assert file.metadata["visibility"] == "private" and file.author == "Ada Lovelace"
    skipped = [items[f"{uri}/{name}"].skip for name in ("logo.png", "big.txt", "empty.txt")]
    assert skipped[::2] == ["binary file", "empty"] and "2000" in skipped[1].replace(",", "")


def test_files_that_cannot_be_shown_are_no_deletion(server):
    uri = server.project.snippet("One", "text")
    with GitlabSnippets(server.connection()) as source:
        server.project.records[uri]["unretrievable"] = True
        with pytest.raises(SourceUnavailable, match="does not show the files of snippet 1"):
            read(source)
        server.answerer.disabled = {"snippets"}
        with pytest.raises(SourceRefused, match=r"does not show the snippets of octo/core/engine"):
            read(source)


@pytest.mark.parametrize(
    ("project", "feature", "readers"),
    [
        ("private", "enabled", {"private": {"gus"}, "internal": {"gus"}, "public": {"gus"}}),
        ("public", "private", {"private": {"gus"}, "internal": {"gus"}, "public": {"gus"}}),
        (
            "public",
            "enabled",
            {"private": {"gus"}, "internal": {"gus", "group:visibility:internal"}, "public": {"*"}},
        ),
    ],
)
def test_a_snippet_is_for_whom_it_and_its_project_are(server, project, feature, readers):
    server.project.join("gus", 10)
    server.project.facts |= {"visibility": project, "snippets_access_level": feature}
    by_visibility = {each: server.project.snippet(each, visibilityLevel=each) for each in readers}
    uris = [f"{uri}/snippet.md" for uri in by_visibility.values()]
    found = read_snippet_permissions(server.connection(), [*uris, "snippet/99/gone.md"])
    told = {
        visibility: {
            member.account for member in found.audiences[found.audience_by_uri[f"{uri}/snippet.md"]][0]
        }
        for visibility, uri in by_visibility.items()
    }
    assert told == readers
    assert found.count_closed(["snippet/99/gone.md"]) == 1
    server.forbidden["members/all"] = 403
    closed = read_snippet_permissions(server.connection(), uris)
    assert closed.count_closed(uris) == closed.problems.total() == 3
