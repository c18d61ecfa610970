"""Repositories are asked where they stand: real ones, over paths, file:// and HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.git import remote_heads
from knowledge_pipeline.connectors.git.remote_heads import (
    RemoteHeadResults,
    RemoteHeads,
    WatchedBranch,
    build_queries,
    find_watched_branch,
    group_by_watched_branch,
    poll_remote_heads,
)
from knowledge_pipeline.errors import ConfigError, SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.connectors.repositories import Repository, over_folder, over_git
from knowledge_pipeline_tests.fakes.git_server import GitServer

TOKEN = "tok" + "en-for-tests"


def ask(*sources: SourceConfig, **limits: float) -> RemoteHeadResults:
    return poll_remote_heads(list(build_queries(group_by_watched_branch(sources)).values()), **limits)


def standing(*sources: SourceConfig) -> RemoteHeads:
    (said,) = ask(*sources).values()
    assert isinstance(said, RemoteHeads)
    return said


@contextmanager
def silent_server() -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"git://127.0.0.1:{server.getsockname()[1]}/repository"


def test_one_question_tells_head_and_every_wanted_branch(repository: Repository) -> None:
    first = repository.commit()
    repository.git("branch", "stable")
    repository.git("tag", "v1")
    second = repository.commit()
    url = repository.root.as_uri()
    said = standing(over_git("code", url), over_git("markdown", url, branch="stable"))
    assert said == RemoteHeads(second, {"stable": first}, "main")
    assert (said.commit_of(None), said.commit_of("stable"), said.commit_of("gone")) == (second, first, None)


def test_an_empty_repository_stands_nowhere(repository: Repository) -> None:
    assert standing(over_git("code", repository.root)).commit_of(None) is None


def test_a_branch_that_ends_like_another_is_not_taken_for_it(repository: Repository) -> None:
    repository.commit()
    repository.git("branch", "feature/main")
    repository.git("branch", "-m", "main", "trunk")
    assert standing(over_git("code", repository.root, branch="main")).commit_of("main") is None


def test_sources_and_branches_of_a_repository_are_one_question(repository: Repository) -> None:
    repository.commit()
    url = repository.root.as_uri()
    sources = [
        over_git("code", url),
        over_git("markdown", url, branch="main"),
        over_git("openapi", url, branch="x"),
    ]
    (one,) = build_queries(group_by_watched_branch(sources)).values()
    assert one.branches == {None, "main", "x"}
    assert len(one.connections) == 1


def test_where_head_is_known_only_branches_are_listed(repository: Repository) -> None:
    first = repository.commit()
    (one,) = build_queries(group_by_watched_branch([over_git("code", repository.root)])).values()
    one.head_branch = "main"
    assert poll_remote_heads([one])[one.repository] == RemoteHeads(first, {"main": first}, "main")
    repository.git("branch", "-m", "main", "trunk")
    assert poll_remote_heads([one])[one.repository] == RemoteHeads(first, {}, "trunk"), (
        "the branch it named is gone"
    )


def test_an_unreachable_repository_is_an_error_and_hides_no_other(
    repository: Repository, tmp_path: Path
) -> None:
    tip = repository.commit()
    said = ask(over_git("code", repository.root), over_git("code", tmp_path / "nothing"))
    refused = said[str(tmp_path / "nothing")]
    assert isinstance(refused, SourceRefused)
    assert "refuses us or does not exist" in str(refused)
    assert said[str(repository.root)].commit_of(None) == tip


def test_a_server_that_says_nothing_is_unavailable_after_the_timeout() -> None:
    with silent_server() as url:
        began = time.monotonic()
        (said,) = ask(over_git("code", url), budget_s=600, timeout_s=0.5).values()
        assert time.monotonic() - began < 60
    assert isinstance(said, SourceUnavailable)
    assert "no answer in 0.5 seconds" in str(said)


def test_who_was_asked_too_late_to_be_judged_is_missing(repository: Repository) -> None:
    repository.commit()
    with silent_server() as url:
        assert ask(over_git("code", url), budget_s=0.3, timeout_s=600) == {}
    assert ask(over_git("code", repository.root), budget_s=0.0) == {}


def test_slow_repositories_do_not_hold_up_the_others(repository: Repository) -> None:
    """One after the other, six of them would take more than the budget."""
    tip = repository.commit()
    with silent_server() as url:
        slow = [over_git("code", f"{url}-{number}") for number in range(6)]
        said = ask(*slow, over_git("code", repository.root), budget_s=25, timeout_s=5)
    assert said[str(repository.root)].commit_of(None) == tip
    assert sum(isinstance(one, SourceUnavailable) for one in said.values()) == 6


def test_a_token_is_sent_and_never_part_of_a_name(repository: Repository, tmp_path: Path) -> None:
    tip = repository.commit()
    with GitServer(tmp_path, token=TOKEN) as server:
        url = f"{server.url}/origin/.git"
        said = ask(over_git("code", url, token=TOKEN))
        assert said == {url: RemoteHeads(tip, {}, "main")}
        refused = ask(over_git("code", url, token="wrong-" + TOKEN))[url]
    assert isinstance(refused, SourceRefused)
    assert TOKEN not in str(refused)


def test_credentials_in_an_address_are_not_part_of_a_name() -> None:
    with_password = f"https://ada:{TOKEN}@example.com/team/shop.git"
    with_query = f"https://example.com/team/shop.git?access_token={TOKEN}"
    over_ssh = f"ssh://git:{TOKEN}@example.com/team/shop.git"
    names = [
        what.repository
        for what in group_by_watched_branch(over_git("code", url) for url in (with_password, over_ssh))
    ]
    assert names == ["https://example.com/team/shop.git", "ssh://example.com/team/shop.git"]
    (queried,) = group_by_watched_branch([over_git("code", with_query)])
    assert queried.repository.startswith("https://example.com/team/shop.git?")
    assert TOKEN not in queried.repository


def test_a_working_token_answers_for_sources_with_a_wrong_one(repository: Repository, tmp_path: Path) -> None:
    tip = repository.commit()
    with GitServer(tmp_path, token=TOKEN) as server:
        url = f"{server.url}/origin/.git"
        wrong, right = over_git("code", url, token="old-" + TOKEN), over_git("markdown", url, token=TOKEN)
        assert ask(wrong, right)[url].commit_of(None) == tip


def test_an_address_that_is_not_allowed_is_an_error_of_that_repository() -> None:
    (said,) = ask(over_git("code", "ext::sh -c true")).values()
    assert isinstance(said, ConfigError)


def test_a_folder_waits_for_commits_of_the_repository_around_it(repository: Repository) -> None:
    assert ask(over_folder("code", repository.root)) == {str(repository.root): RemoteHeads(None, {})}
    tip = repository.write({"docs/a.md": "a"}).commit()
    source = over_folder("markdown", repository.root / "docs")
    assert find_watched_branch(source) == WatchedBranch(str(repository.root), None)
    assert standing(source).commit_of(None) == tip
    assert not (repository.root / ".git" / "FETCH_HEAD").exists()


def test_a_work_tree_and_a_bare_repository_are_repositories(repository: Repository, tmp_path: Path) -> None:
    tip = repository.commit()
    repository.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert standing(over_folder("code", tmp_path / "tree")).commit_of(None) == tip
    bare = Repository(repository.root / "bare", bare=True)  # whatever lies around it
    assert find_watched_branch(over_folder("code", bare.root)) == WatchedBranch(str(bare.root), None)


def test_a_broken_repository_says_so(repository: Repository) -> None:
    repository.commit()
    (repository.root / ".git" / "HEAD").write_text("nonsense\n")
    (said,) = ask(over_folder("code", repository.root)).values()
    assert isinstance(said, SourceRefused)
    assert "cannot be read" in str(said)


@pytest.mark.parametrize(
    ("trigger", "over_git_waits", "over_folder_waits"),
    [("on_commit", True, True), ("realtime", True, False), ("hourly", False, False), ("daily", False, False)],
)
def test_what_waits_for_commits_is_up_to_the_trigger(
    repository: Repository, trigger: str, over_git_waits: bool, over_folder_waits: bool
) -> None:
    refresh = {"trigger": trigger}
    assert (
        find_watched_branch(over_git("code", repository.root, refresh=refresh)) is not None
    ) is over_git_waits
    assert (
        find_watched_branch(over_folder("code", repository.root, refresh=refresh)) is not None
    ) is over_folder_waits


def test_a_folder_outside_of_any_repository_waits_for_nothing(tmp_path: Path) -> None:
    assert find_watched_branch(over_folder("code", tmp_path)) is None


def test_the_times_fit_into_a_tick() -> None:
    assert remote_heads.TIMEOUT_S < remote_heads.BUDGET_S < 10


def test_a_commit_of_a_further_branch_is_a_change_too(repository: Repository) -> None:
    first = repository.commit()
    source = over_git("code", repository.root, branches=["next/*"])
    watch = find_watched_branch(source)
    assert watch == WatchedBranch(str(repository.root), None, ("next/*",))

    def commit() -> str | None:
        return standing(source, over_git("markdown", repository.root)).commit_of(watch.branch, watch.further)

    before = commit()
    repository.git("branch", "next/1")
    repository.git("branch", "other")
    begun = commit()
    moved = repository.git("commit-tree", "HEAD^{tree}", "-m", "on")
    repository.git("update-ref", "refs/heads/next/1", moved)
    after = commit()
    repository.git("branch", "-D", "next/1")
    assert len({before, begun, after}) == 3 and before != first
    assert commit() == before
