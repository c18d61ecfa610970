"""The last commit of each file, carried on from fetch to fetch."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.connectors.files import CachedCommits
from knowledge_pipeline.connectors.git import newest_commits
from knowledge_pipeline.connectors.git.newest_commits import load_newest_commits
from knowledge_pipeline_tests.connectors.repositories import START, Repository
from knowledge_pipeline_tests.thoroughness import examples

paths = st.sampled_from(["a", "b", "d/c", "\nodd\n"])
steps = st.one_of(
    st.tuples(st.just("write"), paths, st.sampled_from("xyz"), st.integers(0, 5)),
    st.tuples(st.just("remove"), paths, st.integers(0, 5)),
    st.tuples(st.just("branch"), st.integers(0, 3)),
    st.tuples(st.just("merge"), st.integers(0, 5), st.sampled_from(["both", "ours", "theirs", "swapped"])),
    st.tuples(st.just("revert"), st.integers(0, 5)),
    st.tuples(st.just("force"), st.integers(1, 2)),
    st.tuples(st.just("look")),
    st.tuples(st.just("restart")),  # another process looks next
)


def act(repository: Repository, step: tuple) -> None:
    """One step of a history; the last number is the commit's time, often out of order."""
    match step:
        case ("write", path, content, when):
            repository.write({path: content}).commit(when=START + when)
        case ("remove", path, when):
            (repository.root / path).unlink(missing_ok=True)
            repository.commit(when=START + when)
        case ("branch", back):
            depth = int(repository.git("rev-list", "--count", "--first-parent", "HEAD"))
            repository.git("branch", "-f", "side", f"HEAD~{min(back, depth - 1)}")
        case ("merge", when, kept):
            merge(repository, when, kept)
        case ("revert", when):
            undo(repository, when)
        case ("force", back):
            depth = int(repository.git("rev-list", "--count", "--first-parent", "HEAD"))
            repository.git("reset", "-q", "--hard", f"HEAD~{min(back, depth - 1)}")


def merge(repository: Repository, when: int, kept: str) -> None:
    """Main becomes a merge of a commit on "side": with a content that neither had, or as one of them is.

    Or "side" goes on, and main takes the merge that it made: main is then the second parent.
    """
    tip = repository.git("rev-parse", "HEAD")
    if not repository.git("branch", "--list", "side"):
        return
    repository.git("checkout", "-q", "side")
    side = repository.write({"b": f"side {when}"}).commit(when=START + when)
    if kept != "theirs":
        repository.git("checkout", "-q", "main")
    if kept == "both":
        repository.write({"d/c": f"merged {when}"})
    repository.git("add", "-A")
    tree = repository.git("write-tree")
    date = f"{START + when} +0000"
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    first, second = (side, tip) if kept == "swapped" else (tip, side)
    merged = repository.git("commit-tree", tree, "-p", first, "-p", second, "-m", "merge", **dates)
    repository.git("checkout", "-q", "main")
    repository.git("reset", "-q", "--hard", merged)


def undo(repository: Repository, when: int) -> None:
    """A commit whose tree is that of the commit before the last."""
    if int(repository.git("rev-list", "--count", "--first-parent", "HEAD")) > 1:
        repository.git("read-tree", "-u", "--reset", "HEAD~1")
        repository.commit(when=START + when)


def ask_git(repository: Repository, tip: str) -> dict[str, tuple[int, str]]:
    """What git says of each file by itself."""
    files = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "--name-only", tip],
        cwd=repository.root,
        capture_output=True,
        check=True,
    ).stdout
    last: dict[str, tuple[int, str]] = {}
    for path in filter(None, files.decode().split("\0")):
        seconds, commit = repository.git("log", "-1", "--format=%ct %H", tip, "--", path).split()
        last[path] = int(seconds), commit
    return last


@given(st.lists(steps, min_size=2, max_size=8), st.sampled_from([0, 1, 100]))
@settings(max_examples=examples(10), deadline=None)
def test_carrying_on_gives_what_a_pass_over_everything_gives(history, max_unsaved):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest_commits, "_MAX_UNSAVED_PATHS", max_unsaved)
        repository = Repository(Path(folder) / "origin")
        repository.write({"a": "start"}).commit(when=START)
        remembered: dict[Path, CachedCommits] = {}
        for step in [*history, ("look",)]:
            if step == ("restart",):
                remembered = {}
            if step != ("look",):
                act(repository, step)
                continue
            tip = repository.git("rev-parse", "HEAD")
            git, kept, new = repository.root / ".git", Path(folder) / "kept", Path(folder) / "new"
            carried_on = load_newest_commits(git, tip, branch=None, cache=kept, remembered=remembered)
            assert carried_on == load_newest_commits(git, tip, branch=None, cache=new)
            assert carried_on == ask_git(repository, tip)
            shutil.rmtree(new)


def test_a_path_that_begins_with_a_line_feed_keeps_it(repository, tmp_path):
    commit = repository.write({"\nx/y": "1", "z": "3"}).commit(when=START)
    newest = load_newest_commits(repository.root / ".git", commit, branch=None, cache=tmp_path / "cache")
    assert newest == {"\nx/y": (START, commit), "z": (START, commit)}


def test_a_merge_touches_only_what_it_changed_itself(repository, tmp_path):
    first = repository.write({"a": "1", "b": "1"}).commit(when=START)
    repository.git("checkout", "-q", "-b", "side")
    side = repository.write({"b": "side"}).commit(when=START + 1)
    repository.git("checkout", "-q", "main")
    repository.commit(when=START + 2)
    dates = {"GIT_AUTHOR_DATE": f"{START + 9} +0000", "GIT_COMMITTER_DATE": f"{START + 9} +0000"}
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side", **dates)
    tip = repository.git("rev-parse", "HEAD")
    newest = load_newest_commits(repository.root / ".git", tip, branch=None, cache=tmp_path / "cache")
    assert newest == {"a": (START, first), "b": (START + 1, side)}


def test_a_file_is_written_once_many_paths_were_touched(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(newest_commits, "_MAX_UNSAVED_PATHS", 2)
    git, cache, written = repository.root / ".git", tmp_path / "cache", []
    for number in range(8):
        commit = repository.write({f"{number}": "1"}).commit(when=START + number)
        newest = load_newest_commits(git, commit, branch=None, cache=cache)
        assert newest == {f"{each}": (START + each, newest[f"{each}"][1]) for each in range(number + 1)}
        [file] = cache.iterdir()
        written.append(file.read_bytes())
    assert [written.index(each) for each in written] == [0, 0, 0, 3, 3, 3, 6, 6]


def test_a_damaged_cache_is_made_anew(repository, tmp_path):
    commit = repository.write({"a": "1"}).commit()
    git, cache = repository.root / ".git", tmp_path / "cache"
    whole = load_newest_commits(git, commit, branch=None, cache=cache)
    [file] = cache.iterdir()
    for content in (
        "",
        "{",
        "[]",
        '{"format": 2}',
        json.dumps({"format": 2, "tip": commit, "grafts": [], "commits": {"a": 1}}),
        json.dumps({"format": 2, "tip": commit, "grafts": [], "commits": []}),
        json.dumps({"format": 1, "tip": commit, "paths": {"a": [1, commit]}}),  # an earlier program's
    ):
        file.write_text(content)
        assert load_newest_commits(git, commit, branch=None, cache=cache) == whole


def test_branches_do_not_share_what_they_know(repository, tmp_path):
    first = repository.write({"a": "1"}).commit()
    git, cache = repository.root / ".git", tmp_path / "cache"
    load_newest_commits(git, first, branch="one", cache=cache)
    load_newest_commits(git, first, branch="other", cache=cache)
    assert len(list(cache.iterdir())) == 2
