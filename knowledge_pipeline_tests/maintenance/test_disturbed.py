"""Maintenance that is killed at random moments, and maintenance beside processes that refresh."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import maintenance
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.maintenance import MaintenanceOptions
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages import pipeline as release
from knowledge_pipeline.store import lance_storage
from knowledge_pipeline.store.release import find_live_release, list_releases
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.maintenance.test_maintenance import AT_ONCE, maintain, texts

SPAWN = multiprocessing.get_context("spawn")
SOURCES = ("one", "two")
FILES = 12


def write(project: Project, source: str, turn: int) -> None:
    """Edit three files of a source."""
    folder = project.root / "folders" / source
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(FILES) if turn == 0 else [(turn + step) % FILES for step in range(3)]:
        (folder / f"m{number}.py").write_text(f"def f{number}():\n    return {source!r}, {number}, {turn}\n")


def declared(root: Path, embedding: EmbeddingSettings) -> Project:
    """The project over the folders that lie there."""
    project = Project(root, embedding)
    for source in SOURCES:
        project.declare(source, "code", root / "folders" / source)
    return project


def churned(root: Path, embedding: EmbeddingSettings, *, turns: int) -> Project:
    """Two sources, edited and refreshed many times: many versions, fragments and unused vectors."""
    project = declared(root, embedding)
    for turn in range(turns):
        for source in SOURCES:
            write(project, source, turn)
        assert project.refresh().failures == {}
    return project


def maintain_over_and_over(root: Path, embedding: EmbeddingSettings, done: Event, grace_s: float) -> None:
    """A process that does maintenance until it is told to end, or it is killed."""
    project = declared(root, embedding)
    while not done.is_set():
        maintained = maintenance.refresh(
            project.lake, project.settings, options=MaintenanceOptions(grace_s=grace_s)
        )
        if broken := {what: why for what, why in maintained.skipped.items() if "being refreshed" not in why}:
            raise SystemExit(str(broken))


def refresh_over_and_over(root: Path, embedding: EmbeddingSettings, source: str, turns: int) -> None:
    """A process that edits and refreshes one source."""
    project = declared(root, embedding)
    for turn in range(1, turns + 1):
        write(project, source, turn)
        outcome = pipeline.refresh(project.lake, project.settings, project.settings.select_sources([source]))
        failed = {name: error for name, error in outcome.failures.items() if name != "release"}
        if failed:
            raise SystemExit(str(failed))


def started(function: Any, *arguments: Any) -> Any:
    process = SPAWN.Process(target=function, args=arguments)
    process.start()
    return process


def shape(project: Project) -> dict[str, tuple[int, int, int]]:
    """Of every stage and index table: rows, versions, fragments."""
    paths = [
        *project.lake.root.glob("snapshot/*/*.lance"),
        *project.lake.root.glob("chunks/*/*.lance"),
        *project.lake.root.glob("embeddings/*/*.lance"),
    ]
    import lance

    found: dict[str, tuple[int, int, int]] = {}
    for path in sorted(paths):
        table = lance.dataset(str(path))
        versions = len(list((path / "_versions").glob("*.manifest")))
        name = str(path.relative_to(project.lake.root))
        found[name] = (table.count_rows(), versions, len(table.get_fragments()))
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_maintenance_killed_at_any_moment_leaves_a_store_that_is_taken_as_it_is(
    project: Project, tmp_path: Path
) -> None:
    churned(project.root, project.embedding, turns=14)
    project = declared(project.root, project.embedding)
    calm = tmp_path / "calm"
    shutil.copytree(project.lake.root, calm / "store")
    shutil.copytree(project.root / "folders", calm / "folders")
    held, said, size = tables(project), texts(project), lance_storage.compute_size(project.lake.root)
    undisturbed = declared(calm, project.embedding)
    began = time.monotonic()
    maintain(undisturbed)
    took = time.monotonic() - began

    chance = random.Random(7)
    template = tmp_path / "template"
    shutil.copytree(project.lake.root, template)
    never = SPAWN.Event()
    for _ in range(4):
        shutil.rmtree(project.lake.root)
        shutil.copytree(template, project.lake.root)
        victim = started(maintain_over_and_over, project.root, project.embedding, never, 0.0)
        while not (project.lake.root / "locks" / "maintenance.lock").exists():
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, took))
        victim.kill()
        victim.join()
        assert texts(project) == said
        assert tables(project) == held
    assert project.refresh().failures == {}
    assert (texts(project), tables(project)) == (said, held)
    assert maintain(project).skipped == {}
    assert maintain(project).actions == {}
    assert shape(project) == shape(undisturbed)
    assert (texts(project), tables(project)) == (said, held)
    assert lance_storage.compute_size(project.lake.root) < size
    write(project, "one", 99)
    assert project.refresh().failures == {}
    assert texts(project) != said


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_refreshes_beside_a_maintenance_lose_nothing(project: Project, tmp_path: Path) -> None:
    churned(project.root, project.embedding, turns=3)
    project = declared(project.root, project.embedding)
    done = SPAWN.Event()
    keeper = started(maintain_over_and_over, project.root, project.embedding, done, 10.0)
    writers = [
        started(refresh_over_and_over, project.root, project.embedding, source, 6) for source in SOURCES
    ]
    for process in writers:
        process.join()
    done.set()
    keeper.join()
    assert [process.exitcode for process in [*writers, keeper]] == [0, 0, 0]
    project.refresh()
    calm = Project(tmp_path / "calm", project.embedding)
    calm.sources = project.sources
    calm.refresh()
    assert tables(project) == tables(calm)
    assert texts(project) == texts(calm)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_refreshes_and_maintenances_keep_every_release_readable(project: Project) -> None:
    said: dict[int, list[str]] = {}
    for turn in range(16):
        for source in SOURCES:
            write(project, source, turn)
        if turn == 0:
            project = declared(project.root, project.embedding)
        assert project.refresh().failures == {}
        now = find_live_release(project.lake)
        assert now is not None
        said[now.release] = texts(project)
        if turn % 4 == 3 and (made := maintain(project, AT_ONCE).release):
            said[made.release] = said[now.release]
    kept = [each.release for each in list_releases(project.lake)]
    assert len(kept) == project.settings.releases.keep
    for number in kept[1:]:  # the first one goes as soon as another one is made
        settings = project.settings.model_copy(
            update={"releases": project.settings.releases.model_copy(update={"keep": 100})}
        )
        release.roll_back_release(project.lake, settings, number)
        assert texts(project) == said[number]
