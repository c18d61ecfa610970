"""Several processes at one bucket: nothing lost, nothing doubled, and a kill leaves nothing behind."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store import leases
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.bucket.store import RemoteProject

SPAWN = multiprocessing.get_context("spawn")


def refresh(
    root: Path,
    embedding: EmbeddingSettings,
    store: ObjectStore,
    sources: dict[str, dict[str, Any]],
    ids: list[str],
    tell: Connection,
) -> None:
    """Refresh some sources in a process of its own, whose leases expire soon, telling each stage."""
    leases.EXPIRES_S, leases.RENEW_INTERVAL_S = 6.0, 1.5
    project = RemoteProject(root, embedding, store)
    project.sources = sources
    settings = project.settings

    def report(stage: str, *_: object) -> None:
        tell.send(stage)

    chosen = settings.select_sources(ids)
    outcome = pipeline.refresh(project.lake, settings, chosen, report=lambda source: report)
    tell.send(f"end: {outcome.failures}")


def started(project: RemoteProject, *ids: str) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    listen, tell = SPAWN.Pipe(duplex=False)
    given = (project.root, project.embedding, project.store, project.sources, list(ids), tell)
    process = SPAWN.Process(target=refresh, args=given)
    process.start()
    tell.close()
    return process, listen


def end_of(listen: Connection) -> str:
    while not (told := listen.recv()).startswith("end"):
        pass
    return told


def declared(project: Project, tmp_path: Path, count: int) -> None:
    for number in range(count):
        folder = tmp_path / f"repo{number}"
        folder.mkdir(exist_ok=True)
        for file in range(8):
            (folder / f"m{file}.py").write_text(f"def f{file}():\n    return {number}, {file}\n")
        project.declare(f"s{number}", "code", folder)


def calm(project: RemoteProject, tmp_path: Path) -> Project:
    """The same sources, refreshed undisturbed into a folder."""
    made = Project(tmp_path / "calm", project.embedding)
    made.sources = project.sources
    made.refresh()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [[["s0"], ["s1"], ["s2"], ["s3"]], [["s0", "s1"], ["s1", "s0"]]])
def test_processes_that_refresh_at_once_leave_what_one_after_the_other_would(
    s3_project: RemoteProject, tmp_path: Path, chosen: list[list[str]]
) -> None:
    declared(s3_project, tmp_path, 4)
    running = [started(s3_project, *ids) for ids in chosen]
    assert [end_of(listen) for _, listen in running] == ["end: {}"] * len(chosen)
    for process, _ in running:
        process.join()
    s3_project.refresh()
    assert tables(s3_project) == tables(calm(s3_project, tmp_path)) != {}


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["embeddings", "index"])  # of one source's tables, and of all
def test_a_kill_in_each_stage_leaves_nothing_behind(
    s3_project: RemoteProject, tmp_path: Path, stage: str
) -> None:
    declared(s3_project, tmp_path, 1)
    victim, listen = started(s3_project, "s0")
    while listen.recv() != stage:
        pass
    with pytest.raises(Busy, match="another process is working on source 's0'"):
        s3_project.lake.lock_source("s0", timeout_s=0).__enter__()
    victim.kill()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    (tmp_path / "repo0" / "late.py").write_text("def late():\n    return 0\n")
    s3_project.refresh()
    assert tables(s3_project) == tables(calm(s3_project, tmp_path)) != {}
    assert not any(stats.has_changes for stats in s3_project.refresh().stats)
