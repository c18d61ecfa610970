"""Heads of pull requests as branches: which are fetched, what they are called, who says which are open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.connectors.git import mirror
from knowledge_pipeline.connectors.git.command import GitError, build_remote, resolve_commit
from knowledge_pipeline.connectors.git.mirror import Mirror
from knowledge_pipeline.connectors.registry import list_branches, open_source
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.records import strip_variant
from knowledge_pipeline_tests.connectors.repositories import Repository, listed, over_git, read
from knowledge_pipeline_tests.fakes.git_server import GitFault
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer


def push(repository: Repository, ref: str, files: dict[str, str], base: str = "main", **commit: Any) -> str:
    """Let a ref hold a commit that follows another one; no branch moves."""
    repository.git("checkout", "-q", "--detach", base)
    made = repository.write(dict(files)).commit(**commit)
    repository.git("update-ref", ref, made)
    repository.git("checkout", "-q", "main")
    return made


def propose(repository: Repository, number: int, **files: str) -> str:
    """The commit of a new pull request, which changes files of Python."""
    changed = {f"{name}.py": text for name, text in files.items()}
    return push(repository, f"refs/pull/{number}/head", changed, author=f"Of {number}")


def names(source: SourceConfig, cache: Path) -> tuple[str, ...]:
    with open_source(source, cache=cache) as opened:
        assert list(opened.discover())
        return list_branches(opened)


def holds(source: SourceConfig, cache: Path, commit: str) -> bool:
    """Whether the mirror has a commit."""
    try:
        resolve_commit(commit, Mirror(build_remote(source.connection), cache).repository)
    except GitError:
        return False
    return True


def test_heads_come_after_branches_and_by_number(repository: Repository, cache: Path) -> None:
    repository.write({"a.py": "1", "old.py": "1"}).commit(author="First")
    repository.git("branch", "release/1")
    propose(repository, 9, a="9")
    propose(repository, 10, a="10", b="10")
    push(repository, "refs/merge-requests/2/head", {"a.py": "9"})
    repository.write({"old.py": "2"}).commit()
    source = over_git("code", repository.root, branches=["release/*", "pull/*", "merge-requests/?"])
    assert names(source, cache) == ("release/1", "merge-requests/2", "pull/9", "pull/10")
    found = {
        (strip_variant(uri), each.text): (each.author, each.metadata.get("in_branches"))
        for uri, each in read(source, cache).items()
    }
    others = ["merge-requests/2", "pull/9", "pull/10"]
    assert found == {
        ("a.py", "1"): ("First", None),
        ("a.py", "9"): ("Ada Byron", ["merge-requests/2", "pull/9"]),
        ("a.py", "10"): ("Of 10", ["pull/10"]),
        ("b.py", "10"): ("Of 10", ["pull/10"]),
        ("old.py", "2"): ("Ada Byron", None),
        ("old.py", "1"): ("First", ["release/1", *others]),
    }


def test_what_main_has_changed_since_has_no_author_in_a_head(repository: Repository, cache: Path) -> None:
    repository.write({"a.py": "1", "old.py": "1"}).commit()
    propose(repository, 1, a="2")
    repository.write({"old.py": "2"}).commit()
    found = read(over_git("code", repository.root, branches=["pull/1"]), cache).values()
    authors = {each.text: each.author for each in found if "in_branches" in each.metadata}
    assert authors == {"2": "Of 1", "1": None}


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*"], ("pull",)),
        (["p*"], ("pull",)),
        (["pull"], ("pull",)),
        (["pull/*"], ("pull/1", "pull/12")),
        (["pull/1"], ("pull/1",)),
        (["pull/1?", "nothing/*"], ("pull/12",)),
        (["merge-requests/*"], ()),
    ],
)
def test_only_patterns_that_begin_so_name_heads(
    patterns: list[str], expected: tuple[str, ...], repository: Repository, cache: Path
) -> None:
    repository.write({"a.py": "1"}).commit()
    repository.git("branch", "pull")
    for number in (1, 12):
        propose(repository, number, a=str(number))
    push(repository, "refs/pull/3/merge", {"a.py": "merged"})
    assert names(over_git("code", repository.root, branch="main", branches=patterns), cache) == expected


def test_a_branch_of_the_same_name_goes_before_a_head(repository: Repository, cache: Path) -> None:
    repository.write({"a.py": "1"}).commit()
    propose(repository, 1, a="of the pull request")
    push(repository, "refs/heads/pull/1", {"a.py": "of the branch"})
    found = read(over_git("code", repository.root, branches=["pull/*"]), cache)
    assert {each.text for each in found.values()} == {"1", "of the branch"}


def test_the_newest_are_fetched_and_no_others(
    repository: Repository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "MAX_PULLS", 2)
    repository.write({"a.py": "1"}).commit()
    commits = {number: propose(repository, number, a=str(number)) for number in (2, 9, 10)}
    source = over_git("code", repository.root, branches=["pull/*"])
    assert names(source, cache) == ("pull/9", "pull/10")
    assert [number for number in commits if holds(source, cache, commits[number])] == [9, 10]
    last = propose(repository, 11, a="11")
    assert names(source, cache) == ("pull/10", "pull/11") and holds(source, cache, last)
    assert not holds(source, cache, "refs/pull/9/head")


def test_a_head_is_followed_until_it_is_merged_or_gone(repository: Repository, cache: Path) -> None:
    repository.write({"a.py": "1"}).commit()
    for number in (1, 2):
        propose(repository, number, a=f"{number} proposed")
    source = over_git("code", repository.root, branch="main", branches=["pull/*"])

    def texts() -> set[str]:
        return {each.text for each in read(source, cache).values()}

    assert texts() == {"1", "1 proposed", "2 proposed"}
    propose(repository, 1, a="1 corrected")  # by force: it does not follow the one before
    assert texts() == {"1", "1 corrected", "2 proposed"}
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "refs/pull/1/head")
    assert texts() == {"1 corrected", "2 proposed"} and names(source, cache) == ("pull/2",)
    repository.git("update-ref", "-d", "refs/pull/2/head")
    assert texts() == {"1 corrected"} and names(source, cache) == ()
    alone = over_git("code", repository.root, branch="main")
    assert listed(source, cache) == listed(alone, cache)


def test_sources_of_one_mirror_do_not_share_their_heads(repository: Repository, cache: Path) -> None:
    repository.write({"a.py": "1"}).commit()
    for number in (1, 2):
        propose(repository, number, a=str(number))
    one, all_ = (over_git("code", repository.root, branches=[name]) for name in ("pull/1", "pull/*"))
    for _ in range(2):
        assert names(one, cache) == ("pull/1",)
        assert names(all_, cache) == ("pull/1", "pull/2")
        assert names(over_git("code", repository.root, branches=["*"]), cache) == ("main",)


@contextmanager
def hosted(
    kind: type[GithubServer] | type[GitlabServer], repository: Repository, **connection: Any
) -> Iterator[tuple[Any, SourceConfig]]:
    """A service that has the repository, and a source of its code over it, with all of its heads."""
    with kind() as server:
        name = server.repository.full_name if isinstance(server, GithubServer) else server.project.full_path
        served = repository.root.parent / f"served/{name}.git"
        served.parent.mkdir(parents=True)
        served.symlink_to(repository.root / ".git")
        server.repositories = repository.root.parent / "served"
        pattern = "pull/*" if isinstance(server, GithubServer) else "merge-requests/*"
        told = {"id": "code", "type": "code", "branches": [pattern]}
        yield server, SourceConfig.model_validate(told | {"connection": server.connection(**connection)})


@pytest.mark.parametrize("kind", [GithubServer, GitlabServer])
def test_a_service_says_which_are_open(
    kind: type[GithubServer] | type[GitlabServer],
    repository: Repository,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    repository.write({"a.py": "1"}).commit()
    with hosted(kind, repository) as (server, source):
        records: Any = server.repository if kind is GithubServer else server.project
        create = records.pull if kind is GithubServer else records.merge_request
        opened = [create(f"number {number}", merged=False) for number in range(5)]
        prefix = "pull" if kind is GithubServer else "merge-requests"
        heads = [f"{prefix}/{uri.rpartition('/')[2]}" for uri in opened]
        for head in heads[:4]:  # the last has no head yet
            push(repository, f"refs/{head}/head", {"a.py": head})
        repository.git("update-ref", f"refs/{heads[3]}/head", "main")  # it changes nothing, and is open
        assert names(source, cache) == tuple(heads[:4])
        records.close(opened[0])
        records.merge(opened[1])  # as one new commit: its own are in no branch
        assert names(source, cache) == tuple(heads[2:4])
        server.fail_next(8, status=502)
        with pytest.raises(SourceUnavailable):
            listed(source, cache)
        server.faults.clear()
        server.git_fault = GitFault(403)
        with pytest.raises(SourceRefused):
            listed(source, cache)
        server.git_fault = None
        server.answerer.hidden = True
        with pytest.raises(SourceRefused):
            listed(source, cache)
        server.answerer.hidden = False
        assert names(source, cache) == tuple(heads[2:4])


def test_nobody_asks_a_service_for_a_source_without_such_patterns(
    repository: Repository, cache: Path
) -> None:
    repository.write({"a.py": "1"}).commit()
    with hosted(GithubServer, repository) as (server, source):
        plain = source.model_copy(update={"branches": ("*",)})
        assert names(plain, cache) == ("main",)
        assert not server.requests
