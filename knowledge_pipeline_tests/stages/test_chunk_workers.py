"""Many documents are cut by several processes, to the same rows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.stages import chunks, worker_pool
from knowledge_pipeline_tests.conftest import Project, tables

HERE = Path(__file__).parent


@pytest.fixture
def folder(project: Project, tmp_path: Path) -> Path:
    """A source of real files, a broken one, and one that the sanitizer finds something in."""
    made = tmp_path / "repo"
    shutil.copytree(HERE.parent / "chunking", made, ignore=shutil.ignore_patterns("__pycache__"))
    (made / "broken.py").write_text("def (:\n")
    (made / "empty.py").write_text("")
    (made / "secret.py").write_text('token = "ghp_' + "a1B2" * 9 + '"\n')
    project.declare("main", "code", made)
    return made


def test_the_rows_and_the_counts_are_those_of_one_process(
    project: Project, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = project.refresh()
    several = Project(tmp_path / "several", project.embedding)
    several.sources = project.sources
    monkeypatch.setattr(chunks, "MIN_DOCUMENTS", 1)
    monkeypatch.setattr(chunks, "_DOCUMENTS_PER_PORTION", 3)
    monkeypatch.setattr(chunks, "_DOCUMENTS_PER_COMMIT", 7)
    monkeypatch.setattr(worker_pool, "count_usable_cores", lambda: 2)
    together = several.refresh()
    assert tables(several) == tables(project)
    (before,), (after,) = (
        [each for each in outcome.stats if each.stage == "chunks"] for outcome in (alone, together)
    )
    assert (after.tokens, after.found, after.notes, after.skipped) == (
        *(before.tokens, before.found, before.notes),
        before.skipped,
    )
    assert after.found, "the sanitizer found the token"


def test_a_process_that_dies_is_named_with_the_document(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MIN_DOCUMENTS", 1)
    monkeypatch.setattr(chunks, "_DOCUMENTS_PER_PORTION", 1)
    monkeypatch.setattr(worker_pool, "count_usable_cores", lambda: 1)

    def kill(stage: str, *_: object) -> None:
        if stage == "chunks":
            for pid in list_children():
                os.kill(pid, signal.SIGKILL)

    (failure,) = project.refresh(report=lambda source: kill).failures.values()
    assert isinstance(failure, StoreError)
    assert re.search(r"a process that cuts documents ended unexpectedly, at '.*': refresh", str(failure))
    assert list_children() == []
    assert not project.refresh().failures


def test_a_pool_that_is_closed_starts_no_process_for_a_portion_that_a_thread_still_has() -> None:
    with worker_pool.WorkerPool("counts", max_processes=1) as pool:
        assert list(pool.map(len, ["ab"], str)) == [2]
    with pytest.raises(StoreError, match="a process that counts ended unexpectedly, at abc"):
        list(pool.map(len, ["abc"], str))
    assert list_children() == []


def list_children() -> list[int]:
    """Processes of this one that cut documents."""
    command = ["pgrep", "-P", str(os.getpid()), "-f", "worker_pool"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]
