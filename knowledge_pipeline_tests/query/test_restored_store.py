"""A store that is restored, or made anew, under an open knowledge base is read as what it is now."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.conftest import Project

Restore = Callable[[Path, Path], None]
QUESTION = "which colour was chosen"


def replace_folder(backup: Path, store: Path) -> None:
    """`rm -r store` and `cp -a backup store`."""
    shutil.rmtree(store)
    subprocess.run(["cp", "-a", backup, store], check=True)


def copy_over(backup: Path, store: Path) -> None:
    """As `rsync -a --delete backup/ store`: files are written in place, with the times of the backup."""
    subprocess.run(["cp", "-a", f"{backup}/.", store], check=True)
    for path in sorted(store.rglob("*"), reverse=True):
        if not (backup / path.relative_to(store)).exists():
            path.rmdir() if path.is_dir() else path.unlink()
    subprocess.run(["cp", "-a", f"{backup}/.", store], check=True)  # the times of folders


def exchange(backup: Path, store: Path) -> None:
    """Two renamings, and the backup itself is the store."""
    store.rename(store.with_name("former"))
    backup.rename(store)


@pytest.fixture
def docs(project: Project) -> Project:
    """A release of two documents."""
    write(project, "none yet")
    (project.root / "docs" / "other.md").write_text("# Other\n\nThe weather is about wind and rain.\n")
    project.declare("docs", "markdown", project.root / "docs")
    project.refresh()
    return project


def write(project: Project, colour: str) -> None:
    (project.root / "docs").mkdir(exist_ok=True)
    text = f"# Colour\n\nThe colour that was chosen: {colour}.\n\n## Code\n\n    {colour}_code()\n"
    (project.root / "docs" / "colour.md").write_text(text)


def read_texts(base: KnowledgeBase) -> list[str]:
    return [result.content for result in base.search(QUESTION).results]


def read_anew(project: Project) -> list[str]:
    with KnowledgeBase(project.settings) as base:
        return read_texts(base)


@pytest.fixture
def base(docs: Project) -> Iterator[KnowledgeBase]:
    """A knowledge base that stays open."""
    with KnowledgeBase(docs.settings) as base:
        assert "none yet" in read_texts(base)[0]
        yield base


def list_versions(project: Project) -> tuple[object, ...]:
    live = find_live_release(project.lake)
    assert live
    return live.release, dict(live.tables), dict(live.graph)


@pytest.mark.parametrize("restore", [replace_folder, copy_over, exchange])
def test_a_backup_that_was_refreshed_since_answers_as_a_new_process_does(
    docs: Project, base: KnowledgeBase, restore: Restore
) -> None:
    backup = docs.root / "backup"
    subprocess.run(["cp", "-a", docs.lake.root, backup], check=True)
    write(docs, "crimson")
    docs.refresh()
    assert "crimson" in read_texts(base)[0]
    versions = list_versions(docs)
    restore(backup, docs.lake.root)
    write(docs, "emerald")
    docs.refresh()
    assert list_versions(docs) == versions  # else this tests nothing
    assert read_texts(base) == read_anew(docs)
    assert "emerald" in read_texts(base)[0]


@pytest.mark.parametrize("restore", [replace_folder, copy_over, exchange])
def test_a_backup_answers_at_once(docs: Project, base: KnowledgeBase, restore: Restore) -> None:
    backup = docs.root / "backup"
    subprocess.run(["cp", "-a", docs.lake.root, backup], check=True)
    write(docs, "crimson")
    docs.refresh()
    assert "crimson" in read_texts(base)[0]
    restore(backup, docs.lake.root)
    assert read_texts(base) == read_anew(docs)
    assert "none yet" in read_texts(base)[0]


def test_a_store_that_is_made_anew_answers_as_a_new_process_does(docs: Project, base: KnowledgeBase) -> None:
    versions = list_versions(docs)
    shutil.rmtree(docs.lake.root)
    write(docs, "emerald")
    docs.refresh()
    assert list_versions(docs) == versions
    assert read_texts(base) == read_anew(docs)
    assert "emerald" in read_texts(base)[0]


def test_a_table_of_another_history_is_noticed_without_a_release(docs: Project, base: KnowledgeBase) -> None:
    """Files are copied one after the other: questions in between see tables of both."""
    other = docs.root / "other"
    subprocess.run(["cp", "-a", docs.lake.root, other], check=True)
    shutil.rmtree(docs.lake.root)
    write(docs, "emerald")
    docs.refresh()
    assert "emerald" in read_texts(base)[0]
    replace_folder(other / "index", docs.lake.root / "index")
    time.sleep(1.1)  # it looks once a second
    assert "none yet" in read_texts(base)[0]
