"""Diffs of pull requests and merge requests: read where they are wanted, by hunk, from both services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.connectors.conversations import (
    MAX_DIFF_CHARS,
    MAX_FILES,
    MAX_HUNK_LINES,
    FileDiff,
    iter_diff_turns,
)
from knowledge_pipeline.connectors.github.documents import GithubPullRequests
from knowledge_pipeline.connectors.gitlab.documents import GitlabMergeRequests
from knowledge_pipeline.errors import ConfigError, SourceRefused
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.forge_sources import Open, changed_paths, opened, read_one, text_of
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer

ALL = ("description", "comments", "reviews", "diff")
PATCH = (
    "@@ -10,3 +10,3 @@ def pay(order):\n total = 0\n-    charge(order)\n+    charge_twice(order)\n"
    "@@ -40 +40,2 @@\n done\n+    tell_lighthouse(order)"
)


@pytest.fixture(params=[GithubServer, GitlabServer])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param() as server:
        yield server


@pytest.fixture
def requests_of(server: Any) -> Iterator[Open]:
    yield from opened(
        GithubPullRequests if isinstance(server, GithubServer) else GitlabMergeRequests, server, []
    )


def change(server: Any, uri: str, path: str, patch: str | None) -> None:
    (server.repository if isinstance(server, GithubServer) else server.project).diff(uri, path, patch)


def say(server: Any, uri: str) -> None:
    """A comment, and a remark on a line."""
    if isinstance(server, GithubServer):
        server.repository.comment(uri, "Said below.")
        server.repository.thread(uri, "src/auth.py", 3, "Said on a line.")
    else:
        server.project.note(uri, "Said below.")
        server.project.remark(uri, "src/auth.py", 3, "Said on a line.")


def diff_calls(server: Any) -> list[str]:
    return [each.path for each in server.requests if each.path.endswith(("/files", "/diffs"))]


def forbid(server: Any, status: int) -> None:
    below = "/pulls/1/files" if isinstance(server, GithubServer) else "merge_requests/1/diffs"
    server.forbidden[below] = status


def test_a_diff_is_not_asked_for_unless_it_is_wanted(server: Any, requests_of: Open) -> None:
    uri = server.create("Faster", "It was slow.")
    change(server, uri, "src/auth.py", PATCH)
    usual, spelled = requests_of(), requests_of(parts=("reviews", "comments", "description"))
    assert "charge_twice" not in text_of(usual, uri) and "src/auth.py" in text_of(usual, uri)
    assert [item.revision for item in usual.discover()] == [item.revision for item in spelled.discover()]
    assert diff_calls(server) == []


def test_each_hunk_is_a_turn_with_its_lines_and_its_function(server: Any, requests_of: Open) -> None:
    uri = server.create("Faster", "It was slow.")
    change(server, uri, "src/auth.py", PATCH)
    change(server, uri, "logo.png", None)
    document = read_one(requests_of(parts=ALL), uri)
    day = document.text.rpartition(" on src/auth.py line")[2].split(", ")[1].split(":")[0]
    assert (
        f"Diff by Ada Lovelace on src/auth.py lines 10-12 in def pay(order), {day}:\n"
        "```diff\n@@ -10,3 +10,3 @@ def pay(order):\n total = 0\n"
        "-    charge(order)\n+    charge_twice(order)\n```"
    ) in document.text
    assert f"Diff by Ada Lovelace on src/auth.py lines 40-41, {day}:\n```diff\n@@ -40 +40,2" in document.text
    assert "- logo.png" in document.text and " on logo.png" not in document.text
    diffs = [each for each in document.metadata["segments"] if each["kind"] == "diff"]
    assert len(diffs) == 2 and all("#" in each["url"] for each in diffs)


@pytest.mark.parametrize(
    ("parts", "kept", "dropped"),
    [
        (("comments",), {"Said below."}, {"It was slow.", "Said on a line.", "charge_twice"}),
        (("reviews",), {"Said on a line."}, {"It was slow.", "Said below.", "charge_twice"}),
        (("diff",), {"charge_twice"}, {"It was slow.", "Said below.", "Said on a line."}),
    ],
)
def test_only_the_wanted_parts_are_written(
    server: Any, requests_of: Open, parts: tuple[str, ...], kept: set[str], dropped: set[str]
) -> None:
    uri = server.create("Faster", "It was slow.")
    say(server, uri)
    change(server, uri, "src/auth.py", PATCH)
    text = text_of(requests_of(parts=parts), uri)
    assert text.startswith("Faster (") and "src/auth.py (+1 -1)" in text
    assert all(each in text for each in kept) and not any(each in text for each in dropped)


def test_files_come_by_pages_and_stop_at_the_bound(server: Any, requests_of: Open) -> None:
    uri = server.create("Large", "")
    for number in range(MAX_FILES + 1):
        change(server, uri, f"file{number}.py", f"@@ -1 +1 @@\n-a\n+number{number}x")
    text = text_of(requests_of(parts=ALL), uri)
    assert f"+number{MAX_FILES - 1}x" in text and f"+number{MAX_FILES}x" not in text
    assert len(diff_calls(server)) == 2


def test_the_diff_of_an_excluded_file_is_left_out(server: Any, requests_of: Open) -> None:
    uri = server.create("Faster", "")
    change(server, uri, "src/auth.py", PATCH)
    change(server, uri, "vendor/x.py", "@@ -1 +1 @@\n-a\n+vendored")
    text = text_of(requests_of(parts=ALL, changed_paths=changed_paths(exclude=["vendor/"])), uri)
    assert "charge_twice" in text and "+vendored" not in text


@pytest.mark.parametrize("status", [403, 404])
def test_a_diff_that_is_not_shown_is_a_refusal(server: Any, requests_of: Open, status: int) -> None:
    uri = server.create("Faster", "")
    forbid(server, status)
    with pytest.raises(SourceRefused, match=f"does not show the diff of {uri}: give the identity the right"):
        text_of(requests_of(parts=ALL), uri)


def test_a_short_failure_at_a_diff_is_tried_again(server: Any, requests_of: Open) -> None:
    uri = server.create("Faster", "")
    change(server, uri, "src/auth.py", PATCH)
    source = requests_of(parts=ALL)
    items = list(source.discover())
    batch = source.fetch_batch(items)
    server.fail_next(status=502)
    [(_, document)] = batch
    assert "charge_twice" in document.text and document.uri == uri


def test_a_search_finds_a_changed_line_and_a_refresh_its_newest_form(server: Any, project: Project) -> None:
    uri = server.create("Faster", "It was slow.")
    change(server, uri, "src/auth.py", PATCH)
    told = {"id": "pulls", "type": "github_pr", "connection": server.connection()}
    project.sources["pulls"] = told
    refresh(project)
    assert found(project, "tell_lighthouse") == []
    project.sources["pulls"] = {**told, "parts": ALL}
    refresh(project)
    [content] = found(project, "tell_lighthouse")
    assert " on src/auth.py lines 40-41" in content
    assert "charge_twice" not in content and "It was slow" not in content
    change(server, uri, "src/harbour.py", "@@ -1 +1 @@\n-sleep()\n+wake_pilot()")
    refresh(project)
    assert len(found(project, "wake_pilot")) == len(found(project, "tell_lighthouse")) == 1
    project.sources["pulls"] = told
    refresh(project)
    assert found(project, "wake_pilot") == []


def refresh(project: Project) -> None:
    for failure in project.refresh().failures.values():
        raise failure


def found(project: Project, word: str) -> list[str]:
    with KnowledgeBase(project.settings) as knowledge:
        contents = [each.content for each in knowledge.search(word, limit=20).results]
        return [content for content in contents if word in content]


def test_a_wrong_part_is_named_with_the_right_ones(tmp_path: Path) -> None:
    place = "connection: {type: github, repository: ann/app, token: t}"
    file = tmp_path / "knowledge.yaml"
    file.write_text(f"sources:\n  - {{id: a, type: github_pr, {place}, parts: [diffs]}}\n")
    with pytest.raises(
        ConfigError, match=r"parts\[0\]: found 'diffs'; allowed: title, description, comments, .*diff"
    ):
        load_settings(file)
    file.write_text(f"sources:\n  - {{id: a, type: github_pr, {place}, parts: []}}\n")
    with pytest.raises(ConfigError, match="parts"):
        load_settings(file)


def turns(patch: str, path: str = "a.py") -> list[tuple[str | None, str]]:
    return [(turn.location, turn.text) for turn in iter_diff_turns([FileDiff(path, patch, "u")])]


@pytest.mark.parametrize(
    ("heading", "location"),
    [
        ("@@ -1,2 +3,4 @@ class A {", "a.py lines 3-6 in class A"),
        ("@@ -5,3 +4,0 @@", "a.py lines 5-7"),
        ("@@ -0,0 +1 @@", "a.py line 1"),
    ],
)
def test_a_location_names_the_lines_that_are_there(heading: str, location: str) -> None:
    assert turns(f"{heading}\n+x")[0][0] == location


def test_long_paths_and_functions_are_shortened() -> None:
    [(location, _)] = turns(f"@@ -1 +1 @@ {'f' * 500}\n+x", "a/" * 400 + "end.py")
    assert location is not None and "end.py line 1 in f" in location and len(location) <= 300


def test_a_long_hunk_says_how_many_lines_are_left_out() -> None:
    lines = "".join(f"\n+line{number}" for number in range(MAX_HUNK_LINES + 7))
    [(_, text)] = turns(f"@@ -0,0 +1,207 @@{lines}")
    assert text.endswith(f"+line{MAX_HUNK_LINES - 1}\n```\n7 more lines are left out.")


def test_a_long_diff_says_how_many_hunks_are_left_out() -> None:
    hunk = "\n".join(["@@ -1,99 +1,99 @@", *["+" + "x" * 199] * 99])
    *kept, last = turns("\n".join([hunk] * 9))
    assert sum(len(text) for _, text in kept) <= MAX_DIFF_CHARS and len(kept) == 5
    assert last == (
        None,
        f"{9 - len(kept)} more hunks are left out: all have over {MAX_DIFF_CHARS:,} characters.",
    )


def test_a_file_without_hunks_has_no_turn() -> None:
    assert turns("") == turns("Binary files a/x and b/x differ\n") == []


def test_a_fence_within_a_hunk_does_not_end_it() -> None:
    [(_, text)] = turns("@@ -1 +1 @@\n ```\n+x")
    assert text.startswith("````````diff") and text.endswith("````````")
