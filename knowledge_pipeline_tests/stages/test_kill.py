"""`kill -9` of a real process in each stage; the next refresh ends as an undisturbed one."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import time
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is refreshed: enough for a kill to come while a stage is at work."""
    folder = tmp_path_factory.mktemp("repo")
    shutil.copytree(HERE / "store", folder / "a", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def calm(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer
) -> dict[str, list[dict[str, Any]]]:
    """The tables of an undisturbed refresh."""
    calm = Project(tmp_path_factory.mktemp("calm"), embedding_by(embedding_server))
    calm.declare("main", "code", folder)
    calm.refresh()
    return tables(calm)


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "after_s"), list(zip(pipeline.STAGES, cycle((0.0, 0.1)))))
def test_a_kill_in_each_stage_leaves_nothing_behind(
    project: Project, folder: Path, calm: dict[str, list[dict[str, Any]]], stage: str, after_s: float
) -> None:
    project.declare("main", "code", folder, exclude=["test_locks.py"])
    assert killed_in(stage, project, after_s=after_s)
    project.declare("main", "code", folder)  # and the world goes on: a file more
    project.refresh()
    once = tables(project)
    assert once == calm
    assert not any(stats.has_changes for stats in project.refresh().stats)
    assert tables(project) == once
