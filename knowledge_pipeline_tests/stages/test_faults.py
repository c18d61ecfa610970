"""A fault at every commit of a refresh, beside a reader: the answers stay right, and the next refresh mends.

docs/reliability.md has the table of what was tried. The fault is put at the one place through which every
table is written; a kill is `SIGKILL` of a real process, and the other faults are what the system would say.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lance
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.maintenance import maintain
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, tables

SPAWN = multiprocessing.get_context("spawn")
QUESTION = "how are sessions signed"
Fault = Callable[[Callable[[], Any]], None]
"""What happens instead of a write."""


def fail_before(number: int) -> Fault:
    def fault(write: Callable[[], Any]) -> None:
        raise OSError(number, os.strerror(number))

    return fault


def lose_the_answer(write: Callable[[], Any]) -> None:
    """The write is done, and who wrote is told that it was not."""
    write()
    raise OSError(errno.EIO, "the answer was lost")


def die_before(write: Callable[[], Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(write: Callable[[], Any]) -> None:
    write()
    os.kill(os.getpid(), signal.SIGKILL)


ERRORS: dict[str, Fault] = {
    "ENOSPC": fail_before(errno.ENOSPC),
    "EIO": fail_before(errno.EIO),
    "lost answer": lose_the_answer,
}
KILLS: dict[str, Fault] = {"killed before": die_before, "killed after": die_after}


@contextmanager
def fault_at(commit: int, fault: Fault) -> Iterator[list[int]]:
    """Let the n-th commit of this process end in a fault; how many there were."""
    count, undisturbed = [0], Table._commit

    def disturbed(table: Table, write: Callable[[], Any], *, stage: Callable[[], Any] | None = None) -> None:
        count[0] += 1
        undisturbed(table, (lambda: fault(write)) if count[0] == commit else write, stage=stage)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Table, "_commit", disturbed)
        yield count


def refresh_and_die(root: Path, embedding: EmbeddingSettings, sources: Any, commit: int, name: str) -> None:
    """Refresh in a process of its own, which a fault at a commit ends."""
    project = Project(root, embedding)
    project.sources = sources
    with fault_at(commit, KILLS[name]):
        project.refresh()


@pytest.fixture
def changed(project: Project, tmp_path: Path) -> Project:
    """A released project whose folder has changed since: a file more, one less, one edited."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "sessions.py").write_text('def sign_session(key):\n    """Sign sessions."""\n    return key\n')
    (folder / "gone.py").write_text("def gone():\n    return sign_session(1)\n")
    (folder / "edited.py").write_text("def edited():\n    return 1\n")
    project.declare("main", "code", folder)
    project.refresh()
    (folder / "gone.py").unlink()
    (folder / "edited.py").write_text("def edited():\n    return 2\n")
    (folder / "added.py").write_text('def verify():\n    """Verify a session."""\n    return edited()\n')
    return project


def copy_of(project: Project, root: Path) -> Project:
    """The same sources, and a store of its own in the same state."""
    shutil.copytree(project.root / "store", root / "store")
    copy = Project(root, project.embedding)
    copy.sources = project.sources
    return copy


def answer(base: KnowledgeBase) -> list[tuple[str, str]]:
    return [(each.citation.path, each.content) for each in base.search(QUESTION, limit=20).results]


def unreadable_versions(project: Project) -> list[str]:
    """The versions of all tables whose rows cannot be read, of those that are still listed."""
    found: list[str] = []
    for path in sorted(each.parent for each in (project.root / "store").rglob("_versions")):
        for version in [each["version"] for each in lance.dataset(str(path)).versions()]:
            try:
                lance.dataset(str(path), version=version).to_table()
            except (OSError, ValueError) as error:
                found.append(f"{path.name} {version}: {error}")
    return found


def require_unharmed(project: Project, calm: Project, answers: list[list[tuple[str, str]]]) -> None:
    """No answer but that of a whole release, no version that cannot be read, and no row lost or doubled."""
    with KnowledgeBase(project.settings) as base:
        assert answer(base) in answers
    assert unreadable_versions(project) == []
    project.refresh()
    assert tables(project) == tables(calm)
    with KnowledgeBase(project.settings) as base:
        assert answer(base) == answers[1]


def outcomes(changed: Project, tmp_path: Path) -> tuple[Project, list[list[tuple[str, str]]]]:
    """What an undisturbed refresh leaves, and the answers before and after it."""
    calm = copy_of(changed, tmp_path / "calm")
    with KnowledgeBase(calm.settings) as base:
        before = answer(base)
    calm.refresh()
    with KnowledgeBase(calm.settings) as base:
        return calm, [before, answer(base)]


def disturb(project: Project, commit: int, name: str) -> bool:
    """Refresh with a fault at a commit; whether there was such a commit."""
    with fault_at(commit, ERRORS[name]) as count, suppress(OSError, KnowledgeError):
        project.refresh()
    return count[0] >= commit


@pytest.mark.parametrize("name", ["ENOSPC"])
def test_a_fault_at_the_first_commits_is_mended_by_the_next_refresh(changed, tmp_path, name):
    calm, answers = outcomes(changed, tmp_path)
    for commit in (1, 4):
        project = copy_of(changed, tmp_path / f"at{commit}")
        assert disturb(project, commit, name)
        require_unharmed(project, calm, answers)


@pytest.mark.slow
@pytest.mark.parametrize("maintained", [False, True], ids=["", "maintained"])
@pytest.mark.parametrize("name", ERRORS)
def test_a_fault_at_any_commit_is_mended_by_the_next_refresh(changed, tmp_path, name, maintained):
    calm, answers = outcomes(changed, tmp_path)
    commit = 1
    while disturb(project := copy_of(changed, tmp_path / f"at{commit}"), commit, name):
        if maintained:
            maintain.refresh(project.lake, project.settings)
        require_unharmed(project, calm, answers)
        commit += 1
    assert commit > 8  # snapshot, chunks, embeddings, index, graph, release


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLS)
def test_a_kill_at_any_commit_is_mended_by_the_next_refresh(changed, tmp_path, name):
    calm, answers = outcomes(changed, tmp_path)
    commit, killed = 0, True
    while killed:
        commit += 1
        project = copy_of(changed, tmp_path / f"at{commit}")
        given = (project.root, project.embedding, project.sources, commit, name)
        victim = SPAWN.Process(target=refresh_and_die, args=given)
        victim.start()
        victim.join()
        killed = victim.exitcode == -signal.SIGKILL
        require_unharmed(project, calm, answers)
    assert victim.exitcode == 0 and commit > 8
