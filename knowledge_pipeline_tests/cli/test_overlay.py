"""What a command answers from a working tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.cli.overlay import open_overlay
from knowledge_pipeline.cli.screen import Screen
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.stages.overlay import Overlay, SourceTree, refresh_overlay
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.cli.conftest import CODE, Run, git

EDITED = CODE.replace("retry_request", "albatross")


@pytest.fixture
def fix(run: Run, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A second working tree of the indexed repository, as the current folder, with one edit."""
    run("refresh")  # its files were copied
    folder = indexed.parent / "fix"
    git(indexed.parent / "shop", "worktree", "add", "--quiet", str(folder))
    (folder / "src" / "sessions.py").write_text(EDITED)
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(indexed / "knowledge.yaml"))
    monkeypatch.chdir(folder)
    return folder


def find(run: Run, text: str) -> list[str]:
    answer = run("search", text, "--mode", "words", "--source-type", "code", "--json").json
    return [result["citation"]["path"] for result in answer["results"] if text in result["content"]]


def test_a_worktree_answers_as_it_stands_and_leaves_no_trace(
    run: Run, fix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = run("search", "albatross", "--mode", "words")
    assert "src/sessions.py" in told.out
    assert f"note: read 1 document of {fix} that the last release has otherwise" in told.err
    assert find(run, "albatross") == ["src/sessions.py"]
    assert find(run, "retry_request") == [], "the former text is gone"
    assert "albatross" in run("graph", "usages", "albatross").out
    monkeypatch.chdir(fix.parent / "shop")
    assert find(run, "albatross") == []
    assert find(run, "retry_request") == ["src/sessions.py"]
    git(fix.parent / "shop", "worktree", "remove", "--force", str(fix))
    assert find(run, "albatross") == []
    assert not list((fix.parent / "home" / ".knowledge" / "cache" / "overlays").glob("*"))


def test_a_purge_leaves_no_overlay(run: Run, fix: Path) -> None:
    assert find(run, "albatross")
    overlays = fix.parent / "home" / ".knowledge" / "cache" / "overlays"
    assert list(overlays.glob("*"))
    assert run("purge", "--source", "shop-docs", "--yes").code == 0
    assert not list(overlays.glob("*"))


def test_a_worktree_uses_the_store_of_the_first_one(
    run: Run, fix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, shop = fix.parent / "home", fix.parent / "shop"
    monkeypatch.delenv("KNOWLEDGE_CONFIG")
    text = (home / "knowledge.yaml").read_text().replace("store: .knowledge", "store: .store")
    for folder in (shop, fix):
        (folder / "knowledge.yaml").write_text(text)
    (home / ".knowledge").rename(shop / ".store")
    assert find(run, "albatross") == ["src/sessions.py"]
    assert not (fix / ".store").exists()
    (fix / "knowledge.yaml").unlink()
    assert find(run, "albatross") == ["src/sessions.py"]


def test_a_tree_that_cannot_be_read_is_told(run: Run, fix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_pipeline.stages.overlay.MAX_DOCUMENTS", 0)
    told = run("search", "retry_request", "--mode", "words")
    assert (told.code, "src/sessions.py" in told.out) == (0, True)
    assert f"note: the last release answers, not {fix} as it is: 1 documents of source" in told.err


@pytest.mark.parametrize("change", ["write", "delete", "add", "commit"])
def test_a_tree_is_listed_once_something_in_it_was_touched(
    run: Run, indexed: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    shop = indexed.parent / "shop"
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(indexed / "knowledge.yaml"))
    monkeypatch.chdir(shop)
    run("refresh")
    looks = list[Path]()

    def look(base: Lake, tree: SourceTree, **_: object) -> Overlay:
        looks.append(tree.root)
        return Overlay(base)

    monkeypatch.setattr("knowledge_pipeline.stages.overlay.refresh_overlay", look)
    monkeypatch.setattr("knowledge_pipeline.cli.overlay._CLOCK_S", -0.01)  # its files were just written
    settings = load_settings(indexed / "knowledge.yaml")
    open_overlay(settings, Screen())
    assert looks == []
    if change == "write":
        (shop / "src" / "sessions.py").write_text(EDITED)
    elif change == "delete":
        (shop / "src" / "sessions.py").unlink()
    elif change == "add":
        (shop / "docs" / "new.md").write_text("# New\n")
    else:
        git(shop, "commit", "--allow-empty", "--quiet", "-m", "Empty")
    open_overlay(settings, Screen())
    assert looks == [shop]


def test_a_tree_that_was_touched_is_listed_once(
    run: Run, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, looks = indexed.parent / "shop", list[Path]()
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(indexed / "knowledge.yaml"))
    monkeypatch.chdir(shop)
    run("refresh")

    def look(base: Lake, tree: SourceTree, **options: Any) -> Overlay:
        looks.append(tree.root)
        return refresh_overlay(base, tree, **options)

    monkeypatch.setattr("knowledge_pipeline.stages.overlay.refresh_overlay", look)
    monkeypatch.setattr("knowledge_pipeline.cli.overlay._CLOCK_S", -0.01)
    settings, file = load_settings(indexed / "knowledge.yaml"), shop / "src" / "sessions.py"
    for touched in (1, 2):
        file.touch()
        assert [open_overlay(settings, Screen())[1] for _ in range(3)] == [Lake(settings.store), None, None]
        assert looks == [shop] * touched
    file.write_text(EDITED)
    assert find(run, "albatross") == ["src/sessions.py"]
    file.write_text(CODE)
    assert find(run, "albatross") == []
    assert not list(Lake(settings.store).overlays.glob("*"))
    run("refresh")
    assert open_overlay(settings, Screen())[1] is None
    assert looks == [shop] * 4
