"""`kill -9` of a real process in each stage; the next refresh ends as an undisturbed one."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline_tests.conftest import Project, tables

HERE = Path(__file__).parent.parent
SPAWN = multiprocessing.get_context("spawn")


def refresh_and_tell(
    root: Path, embedding: EmbeddingSettings, sources: dict[str, dict[str, Any]], tell: Connection
) -> None:
    """Refresh in a process of its own, telling each step of progress."""
    project = Project(root, embedding)
    project.sources = sources

    def report(stage: str, *_: object) -> None:
        tell.send(stage)

    settings = project.settings
    pipeline.refresh(project.lake, settings, settings.sources, report=lambda source: report)
    tell.send("end")


def killed_in(stage: str, project: Project, *, after_s: float) -> bool:
    """Start a refresh and kill it a moment after a stage began; whether it was still at work."""
    listen, tell = SPAWN.Pipe(duplex=False)
    arguments = (project.root, project.embedding, project.sources, tell)
    victim = SPAWN.Process(target=refresh_and_tell, args=arguments)
    victim.start()
    tell.close()
    while listen.recv() != stage:
        pass
    time.sleep(after_s)
    victim.kill()
    victim.join()
    return victim.exitcode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("stage", list(pipeline.STAGES))
@pytest.mark.parametrize("after_s", [0.0, 0.1])
def test_a_kill_in_each_stage_leaves_nothing_behind(
    project: Project, tmp_path: Path, stage: str, after_s: float
) -> None:
    folder = tmp_path / "repo"
    shutil.copytree(HERE / "store", folder / "a", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(HERE / "stages", folder / "b", ignore=shutil.ignore_patterns("__pycache__"))
    project.declare("main", "code", folder)
    assert killed_in(stage, project, after_s=after_s)
    shutil.copy(folder / "a" / "test_locks.py", folder / "c.py")  # and the world goes on
    project.refresh()

    calm = Project(tmp_path / "calm", project.embedding)
    calm.sources = project.sources
    calm.refresh()
    assert tables(project) == tables(calm)
    once = tables(project)
    assert not any(stats.has_changes for stats in project.refresh().stats)
    assert tables(project) == once
