"""Repositories as people and CI have them: shallow, partial, of SHA-256, or a part of one."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.files import find_watched_folder
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.connectors.repositories import (
    START,
    Repository,
    listed,
    over_folder,
    over_git,
    read,
)


@pytest.fixture
def upstream(repository: Repository) -> Repository:
    """Three commits; in each a file of each of two folders, one of which is new."""
    repository.git("config", "uploadpack.allowFilter", "true")
    for number in (1, 2, 3):
        files: dict[str, str | bytes] = {
            "src/a.py": f"a = {number}\n",
            f"lib/b{number}.py": f"b = {number}\n",
        }
        repository.write(files).commit(f"Change {number}")
    return repository


def take_clone(repository: Repository, root: Path, *options: str) -> Repository:
    repository.git("clone", "-q", *options, f"file://{repository.root}", str(root))
    return Repository(root)


def notes(source: SourceConfig, cache: Path) -> list[str | None]:
    return [document.metadata.get("note") for document in read(source, cache).values()]


SHALLOW = "changes not known: the clone is shallow and ends here"
PARTIAL = "changed lines not read: the clone lacks parts of its history"


def test_a_shallow_clone_says_where_it_ends(upstream: Repository, cache: Path, tmp_path: Path) -> None:
    clone = take_clone(upstream, tmp_path / "clone", "--depth", "2")
    assert notes(over_folder("git_history", clone.root), cache) == [None, SHALLOW]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_partial_clone_has_the_names_of_changed_files(
    upstream: Repository, cache: Path, tmp_path: Path, is_gone: bool
) -> None:
    clone = take_clone(upstream, tmp_path / "clone", "--filter=blob:none")
    if is_gone:
        upstream.root.rename(tmp_path / "elsewhere")
    packs = set((clone.root / ".git/objects/pack").iterdir())
    source = over_folder("git_history", clone.root)
    newest, *older = read(source, cache).values()
    assert newest.text.endswith("Files changed: 2\n- lib/b3.py\n- src/a.py")
    assert newest.metadata["files"] == ["lib/b3.py", "src/a.py"] and newest.metadata["note"] == PARTIAL
    assert [document.metadata["note"] for document in older] == [PARTIAL] * 2
    assert set((clone.root / ".git/objects/pack").iterdir()) == packs, "nothing is fetched into it"
    files = read(over_folder("code", clone.root), cache)
    moments = {uri: document.last_modified for uri, document in files.items()}
    assert {uri: at and int(at.timestamp()) - START for uri, at in moments.items()} == {
        "lib/b1.py": 3600,
        "lib/b2.py": 7200,
        "lib/b3.py": 10800,
        "src/a.py": 10800,
    }
    if not is_gone:
        before = listed(source, cache)
        clone.git("fetch", "-q", "--refetch", "--no-filter")
        assert set(notes(source, cache)) == {None}
        assert listed(source, cache).keys() == before.keys() and listed(source, cache) != before


def test_a_clone_without_trees_has_the_messages(upstream: Repository, cache: Path, tmp_path: Path) -> None:
    clone = take_clone(upstream, tmp_path / "clone", "--filter=tree:0", "--no-checkout")
    documents = read(over_folder("git_history", clone.root), cache).values()
    assert [document.title for document in documents] == ["Change 3", "Change 2", "Change 1"]
    assert {document.metadata["note"] for document in documents} == {PARTIAL}


@pytest.mark.parametrize("address", ["file://{}", "{}"])
def test_a_shallow_remote_is_read_and_followed(
    upstream: Repository, cache: Path, tmp_path: Path, address: str
) -> None:
    remote = take_clone(upstream, tmp_path / "remote", "--depth", "1")
    code = over_git("code", address.format(remote.root))
    history = over_git("git_history", address.format(remote.root))
    assert set(listed(code, cache)) == {"lib/b1.py", "lib/b2.py", "lib/b3.py", "src/a.py"}
    assert {document.last_modified for document in read(code, cache).values()} == {None}
    assert notes(history, cache) == [SHALLOW]
    remote.write({"src/c.py": "c = 1\n"}).commit("Change 4")
    assert "src/c.py" in listed(code, cache)
    assert notes(history, cache) == [None, SHALLOW]
    remote.git("fetch", "-q", "--unshallow")
    assert notes(history, cache) == [None] * 4
    assert all(document.last_modified for document in read(code, cache).values())


def test_a_full_mirror_of_what_becomes_a_shallow_remote_is_followed(
    upstream: Repository, cache: Path, tmp_path: Path
) -> None:
    served = upstream.copy(tmp_path / "served")
    source = over_git("code", f"file://{served.root}")
    listed(source, cache)
    upstream.write({"src/d.py": "d = 1\n"}).commit()
    upstream.write({"src/e.py": "e = 1\n"}).commit()
    served.root.rename(tmp_path / "former")
    take_clone(upstream, served.root, "--depth", "1")
    assert {"src/d.py", "src/e.py"} < set(listed(source, cache))


def test_a_partial_remote_is_refused_in_a_sentence(upstream: Repository, cache: Path, tmp_path: Path) -> None:
    remote = take_clone(upstream, tmp_path / "remote", "--filter=blob:none")
    with pytest.raises(
        SourceRefused, match="is a partial clone that lacks some of its objects: give the add"
    ):
        listed(over_git("code", f"file://{remote.root}"), cache)


def test_what_git_leaves_out_without_an_error_fails_the_refresh(
    upstream: Repository, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = over_git("code", f"file://{upstream.root}")
    listed(source, cache)
    upstream.write({"new.py": "n = 1\n"}).commit()
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    real = str(shutil.which("git"))
    script.write_text(f'#!/bin/sh\ncase " $* " in *" fetch "*) exit 0;; esac\nexec {real} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SourceUnavailable, match="did not send its branches as it lists them: try again"):
        listed(source, cache)
    monkeypatch.undo()
    assert "new.py" in listed(source, cache)


def test_a_repository_of_sha256_is_read_like_any_other(cache: Path, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "modern")
    (tmp_path / "modern" / ".git").rename(tmp_path / "unused")
    repository.git("init", "-q", "-b", "main", "--object-format=sha256")
    repository.write({"a.py": "1\n"}).commit("First")
    newest = repository.write({"a.py": "2\n", "b.py": "1\n"}).commit("Second")
    assert len(newest) == 64
    for source in (over_folder, over_git):
        documents = read(source("code", repository.root), cache)
        assert {uri: document.text for uri, document in documents.items()} == {"a.py": "2\n", "b.py": "1\n"}
        assert all(document.last_modified for document in documents.values())
        history = read(source("git_history", repository.root), cache)
        assert history[f"commit/{newest}"].text.endswith("-1\n+2\n\ndiff b.py\n@@ -0,0 +1 @@\n+1")


def test_a_remote_whose_ids_become_others_is_cloned_anew(cache: Path, tmp_path: Path) -> None:
    first = Repository(tmp_path / "remote")
    first.write({"a.py": "1\n"}).commit()
    source = over_git("code", first.root)
    assert set(listed(source, cache)) == {"a.py"}
    (first.root / ".git").rename(tmp_path / "former")
    first.git("init", "-q", "-b", "main", "--object-format=sha256")
    first.write({"b.py": "1\n"}).commit()
    assert set(listed(source, cache)) == {"a.py", "b.py"}


def test_a_folder_of_a_checkout_has_its_own_history(upstream: Repository, cache: Path) -> None:
    upstream.write({"lib/only.py": "1\n"}).commit("Elsewhere")
    upstream.git("mv", "lib/only.py", "src/moved.py")
    upstream.commit("Move")
    source = over_folder("git_history", upstream.root / "src")
    documents = list(read(source, cache).values())
    assert [document.title for document in documents] == ["Move", "Change 3", "Change 2", "Change 1"]
    assert documents[0].metadata["files"] == ["moved.py"]
    assert documents[1].metadata["files"] == ["a.py"], "as the source of the folder's files names it"
    assert documents[1].text.endswith("- a.py (+1 -1)\n\ndiff a.py\n@@ -1 +1 @@\n-a = 2\n+a = 3")
    chosen = over_folder("git_history", upstream.root / "src", include=["/moved.py"])
    assert [document.title for document in read(chosen, cache).values()] == ["Move"]
    assert len(listed(over_folder("git_history", upstream.root / "src", depth=2), cache)) == 2
    assert find_watched_folder(source) == upstream.root / ".git"
    of_all = listed(over_folder("git_history", upstream.root), cache)
    shared = listed(source, cache)
    assert all(of_all[uri].revision != item.revision for uri, item in shared.items())


def test_replaced_commits_are_read_as_they_were_made(upstream: Repository, cache: Path) -> None:
    upstream.git("replace", "HEAD", "HEAD~2")
    documents = read(over_folder("git_history", upstream.root), cache).values()
    assert [document.title for document in documents] == ["Change 3", "Change 2", "Change 1"]


def test_a_parent_that_only_a_graft_leaves_out_is_no_error(upstream: Repository, cache: Path) -> None:
    (upstream.root / ".git/info").mkdir(exist_ok=True)
    (upstream.root / ".git/info/grafts").write_text(upstream.git("rev-parse", "HEAD~1") + "\n")
    documents = read(over_folder("git_history", upstream.root), cache).values()
    assert [document.title for document in documents] == ["Change 3", "Change 2"]
