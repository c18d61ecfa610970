"""Several processes at once: nothing lost, nothing doubled."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline_tests.conftest import Project, tables

SPAWN = multiprocessing.get_context("spawn")


def refresh(
    root: Path, embedding: EmbeddingSettings, sources: dict[str, dict[str, Any]], ids: list[str]
) -> None:
    """Refresh some sources in a process of its own."""
    project = Project(root, embedding)
    project.sources = sources
    settings = project.settings
    outcome = pipeline.refresh(project.lake, settings, settings.select_sources(ids))
    if outcome.failures:
        raise SystemExit(str(outcome.failures))


def all_at_once(project: Project, *chosen: list[str]) -> None:
    """One process for each list of source ids."""
    arguments = [(project.root, project.embedding, project.sources, ids) for ids in chosen]
    processes = [SPAWN.Process(target=refresh, args=one) for one in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


@pytest.mark.slow
def test_processes_that_refresh_at_once_leave_what_one_after_the_other_would(
    project: Project, tmp_path: Path
) -> None:
    for number in range(3):
        folder = tmp_path / f"repo{number}"
        folder.mkdir()
        for file in range(10):
            (folder / f"m{file}.py").write_text(f"def f{file}():\n    return {number}, {file}\n")
        project.declare(f"s{number}", "code", folder)
    all_at_once(project, ["s0", "s1"], ["s1", "s0"], ["s2"])
    project.refresh()
    calm = Project(tmp_path / "calm", project.embedding)
    calm.sources = project.sources
    calm.refresh()
    assert tables(project) == tables(calm)
    (index,) = (rows for name, rows in tables(project).items() if name.startswith("index"))
    assert len({row["id"] for row in index}) == len(index) == 3 * 10
