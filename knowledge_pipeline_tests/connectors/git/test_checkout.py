"""The dates of files of a checkout: those of their last commits."""

from __future__ import annotations

import os
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from knowledge_pipeline.connectors.files import ListingMemory
from knowledge_pipeline.connectors.git import newest_commits
from knowledge_pipeline.connectors.registry import list_notes, open_source
from knowledge_pipeline_tests.connectors.repositories import START, Repository, listed, over_folder, read

NOW = START + 90 * 86_400  # when the files of a clone were written


@pytest.fixture
def clone(repository: Repository, tmp_path: Path) -> Repository:
    """Two files of two commits, and a file that has not changed since the first."""
    repository.write({"src/a.py": "1", "src/b.py": "1", "guide.md": "# One"}).commit(when=START)
    repository.write({"src/a.py": "2"}).commit(when=START + 3600)
    return take_clone(repository, tmp_path / "clone")


def take_clone(repository: Repository, root: Path, *options: str) -> Repository:
    """A clone whose files have the time at which they were written."""
    repository.git("clone", "-q", *options, f"file://{repository.root}", str(root))
    touch(root)
    cloned = repository.copy(root.with_name(f"{root.name}-copy"))  # for its clock
    cloned.root = root
    return cloned


def touch(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            os.utime(path, (NOW, NOW))


def dates(root: Path, cache: Path, type_: str = "code", **settings) -> dict[str, int | None]:
    """Of each document, in seconds since the first commit."""
    documents = read(over_folder(type_, root, **settings), cache)
    moments = {uri: document.last_modified for uri, document in documents.items()}
    return {uri: moment and int(moment.timestamp()) - START for uri, moment in moments.items()}


CHANGED = NOW - START


def test_a_file_has_the_date_of_its_last_commit_and_not_of_the_clone(clone, cache):
    assert dates(clone.root, cache) == {"src/a.py": 3600, "src/b.py": 0}
    assert dates(clone.root, cache, "markdown") == {"guide.md": 0}
    assert dates(clone.root / "src", cache) == {"a.py": 3600, "b.py": 0}
    assert dates(clone.root, cache, "files", include=["*.md"]) == {"guide.md": 0}


def test_changed_and_untracked_files_have_the_file_systems(clone, cache):
    clone.write({"src/a.py": "3", "src/new.py": "1"})
    touch(clone.root)
    assert dates(clone.root, cache) == {"src/a.py": CHANGED, "src/b.py": 0, "src/new.py": CHANGED}
    clone.git("add", "-A")
    assert dates(clone.root, cache)["src/new.py"] == CHANGED, "it is not committed yet"
    clone.commit(when=START + 7200)
    assert dates(clone.root, cache) == {"src/a.py": 7200, "src/b.py": 0, "src/new.py": 7200}


def test_files_of_a_grafted_commit_have_no_date(clone, repository, cache, tmp_path):
    shallow = take_clone(repository, tmp_path / "shallow", "--depth", "1")
    assert dates(shallow.root, cache) == {"src/a.py": None, "src/b.py": None}
    shallow.write({"src/b.py": "2"}).commit(when=START + 7200)
    assert dates(shallow.root, cache) == {"src/a.py": None, "src/b.py": 7200}
    shallow.write({"src/a.py": "changed"})
    touch(shallow.root)
    assert dates(shallow.root, cache) == {"src/a.py": CHANGED, "src/b.py": 7200}
    shallow.git("checkout", "-q", "src/a.py")
    touch(shallow.root)
    before = listed(over_folder("code", shallow.root), cache)
    shallow.git("fetch", "-q", "--unshallow")
    assert dates(shallow.root, cache) == {"src/a.py": 3600, "src/b.py": 7200}, "though HEAD is the same"
    after = listed(over_folder("code", shallow.root), cache)
    assert before["src/a.py"].revision != after["src/a.py"].revision
    assert before["src/b.py"].revision == after["src/b.py"].revision


def test_a_commit_changes_the_revisions_of_its_own_files_alone(clone, cache):
    source = over_folder("code", clone.root)
    before = listed(source, cache)
    clone.write({"src/a.py": "3"})
    edited = listed(source, cache)
    clone.commit()
    committed = listed(source, cache)
    assert before["src/b.py"] == edited["src/b.py"] == committed["src/b.py"]
    assert len({listing["src/a.py"].revision for listing in (before, edited, committed)}) == 3
    assert listed(source, cache) == committed


def test_line_ends_and_large_files_elsewhere_are_no_changes(clone, cache):
    clone.write({"src/a.py": "one\ntwo\n"}).commit(when=START + 7200)
    clone.write({"src/a.py": "one\r\ntwo\r\n"})
    content = b"%PDF"
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256(content).hexdigest()}\nsize 4\n"
    )
    clone.write({"large.md": pointer})
    clone.commit("pointer", when=START + 9000)
    clone.git("checkout", "-q", "HEAD~1", "--", "src/a.py")
    clone.commit("as before", when=START + 9100)
    clone.write({"src/a.py": "one\r\ntwo\r\n", "large.md": content})
    touch(clone.root)
    assert dates(clone.root, cache)["src/a.py"] == 9100
    assert dates(clone.root, cache, "markdown")["large.md"] == 9000


def test_a_worktree_has_the_dates_of_its_own_head(clone, cache, tmp_path):
    clone.git("worktree", "add", "-q", str(tmp_path / "tree"), "HEAD~1")
    touch(tmp_path / "tree")
    assert dates(tmp_path / "tree", cache) == {"src/a.py": 0, "src/b.py": 0}
    assert dates(clone.root, cache) == {"src/a.py": 3600, "src/b.py": 0}


def test_a_repository_without_a_commit_and_a_folder_without_one_have_the_file_systems(cache, tmp_path):
    for root in (Repository(tmp_path / "empty").root, tmp_path / "plain"):
        root.mkdir(exist_ok=True)
        (root / "a.py").write_text("1")
        touch(root)
        assert dates(root, cache) == {"a.py": CHANGED}
        assert notes_of(root, cache) == Counter()


def test_a_repository_that_git_cannot_read_is_told(clone, cache):
    (clone.root / ".git" / "HEAD").write_text("nonsense")
    assert dates(clone.root, cache) == {"src/a.py": CHANGED, "src/b.py": CHANGED}
    [(note, count), (other, _)] = notes_of(clone.root, cache).items()
    assert other == "file of another format (1 .md)"
    assert note.startswith("dates are the file system's: git cannot read the repository (") and count == 1


def notes_of(root: Path, cache: Path) -> Counter[str]:
    with open_source(over_folder("code", root), cache=cache) as source:
        list(source.discover())
        return list_notes(source)


def test_an_unchanged_checkout_costs_a_look_at_its_head(clone, cache, monkeypatch):
    before = listed(over_folder("code", clone.root), cache)
    read_history = newest_commits.read_newest_commits

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the history is read again")

    monkeypatch.setattr(newest_commits, "read_newest_commits", refuse)
    assert listed(over_folder("code", clone.root), cache) == before
    monkeypatch.setattr(newest_commits, "read_newest_commits", read_history)
    memory = ListingMemory()
    clone.git("checkout", "-q", "-b", "feature")
    clone.write({"src/a.py": "3"}).commit()
    now = listed(over_folder("code", clone.root), cache, memory)
    assert now == listed(over_folder("code", clone.root), cache)
    clone.git("checkout", "-q", "main")
    monkeypatch.setattr(newest_commits, "read_newest_commits", refuse)
    back = listed(over_folder("code", clone.root), cache, memory)
    assert back["src/b.py"] == before["src/b.py"], "what led to a branch is known when it is left"


def test_nothing_that_a_repository_configures_is_run(clone, cache, tmp_path):
    """Filters, textconv, external diffs, hooks and a file system monitor: all would be programs of it."""
    mark = tmp_path / "was-run"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    for name in (
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "diff.x.command",
        "diff.x.textconv",
    ):
        clone.git("config", name, str(program))
    for name in ("core.fsmonitor", "diff.external", "core.pager", "core.sshCommand", "gpg.program"):
        clone.git("config", name, str(program))
    (clone.root / ".git/info/attributes").write_text("* filter=x diff=x\n")
    clone.write({"src/a.py": "changed", "src/new.py": "1"})
    touch(clone.root)
    assert dates(clone.root, cache) == {"src/a.py": CHANGED, "src/b.py": 0, "src/new.py": CHANGED}
    assert not mark.exists()
