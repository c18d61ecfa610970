"""Maintenance on real stores: smaller, as fast as new, and with the same answers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import maintenance
from knowledge_pipeline.config.connections import ArchiveFileConnection, GitConnection
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.archive_file import ARCHIVE_LISTINGS, build_listing_name
from knowledge_pipeline.connectors.git.command import build_remote
from knowledge_pipeline.connectors.git.mirror import Mirror
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.maintenance import MaintenanceOptions, MaintenanceReport
from knowledge_pipeline.stages import pipeline as release
from knowledge_pipeline.store import indexes as table_files
from knowledge_pipeline.store import lance_storage, logs
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.release import find_live_release, list_releases, restore_release
from knowledge_pipeline.store.search import open_index
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

AT_ONCE = MaintenanceOptions(grace_s=0.0)
WEEKS_S = 30 * 86_400.0


def maintain(project: Project, asked: MaintenanceOptions = AT_ONCE) -> MaintenanceReport:
    """A maintenance that goes by the project's settings."""
    return maintenance.refresh(project.lake, project.settings, options=asked)


def texts(project: Project) -> list[str]:
    """What the live release holds."""

    async def read() -> list[str]:
        now = find_live_release(project.lake)
        assert now is not None
        found: list[str] = []
        for space, version in now.tables.items():
            reader = await open_index(project.lake.root, space, version)
            rows = await reader.find_rows(Filter("true"), limit=100_000, columns=["text"])
            found += [row["text"] for row in rows]
        return sorted(found)

    return asyncio.run(read())


def vectors(project: Project) -> Table:
    """The only embeddings there are."""
    ((table,),) = table_files.list_vector_tables(project.lake).values()
    return table


def grow_old(path: Path, seconds: float = WEEKS_S) -> None:
    """Let everything in a folder be written long ago."""
    then = time.time() - seconds
    for file in [path, *path.rglob("*")]:
        os.utime(file, (then, then))


def listed(root: Path) -> dict[str, int]:
    """Every file of the store but the locks', with its time."""
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in files}


def started(root: Path, embedding: EmbeddingSettings) -> Project:
    """A source of four files, refreshed and released."""
    made, project = root / "repo", Project(root, embedding)
    made.mkdir(exist_ok=True)
    for number in range(4):
        (made / f"m{number}.py").write_text(f"def f{number}():\n    return 0\n")
    project.declare("main", "code", made)
    project.refresh()
    return project


def edit(project: Project, turns: int, *, first: int = 1) -> Iterator[int]:
    """Refresh after an edit, several times; each turn's text is its own."""
    for turn in range(first, first + turns):
        file = project.root / "repo" / f"m{turn % 4}.py"
        file.write_text(f"def f{turn % 4}():\n    return {turn}\n")
        assert project.refresh().failures == {}
        yield turn


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> Path:
    """`fresh/` and `churned/`, made once; tests get copies. `churned.json` holds what each release said."""
    root = tmp_path_factory.mktemp("maintenance")
    for name, turns in (("fresh", 0), ("churned", 9)):
        (root / name).mkdir()
        project = started(root / name, embedding_by(embedding_server))
        said = {find_live_release(project.lake).release: texts(project)}  # type: ignore[union-attr]
        for _ in edit(project, turns):
            said[find_live_release(project.lake).release] = texts(project)  # type: ignore[union-attr]
        (root / f"{name}.json").write_text(json.dumps(said))
    return root


def copy_of(template: Path, project: Project) -> Path:
    shutil.copytree(template, project.root, dirs_exist_ok=True)
    project.declare("main", "code", project.root / "repo")
    return project.root / "repo"


@pytest.fixture
def folder(project: Project, templates: Path) -> Path:
    """A source of four files, refreshed and released."""
    return copy_of(templates / "fresh", project)


@pytest.fixture
def churned(project: Project, templates: Path) -> Project:
    """The same after nine edits, each refreshed and released."""
    copy_of(templates / "churned", project)
    return project


@pytest.mark.slow
def test_a_churned_store_is_smaller_afterwards_and_says_the_same(churned: Project, templates: Path) -> None:
    project, said = churned, json.loads((templates / "churned.json").read_text())
    held, found, size = tables(project), texts(project), lance_storage.compute_size(project.lake.root)
    done = maintain(project)
    assert done.has_changes and done.skipped == {}
    assert lance_storage.compute_size(project.lake.root) < size
    released = 4096 if done.release else 0  # at most: its row, its tags, and what that table drops meanwhile
    assert abs(size - lance_storage.compute_size(project.lake.root) - done.freed_bytes) <= released
    assert (tables(project), texts(project)) == (held, found)
    kept = [each.release for each in list_releases(project.lake) if each != done.release]
    assert len(kept) >= 9
    for number in kept:
        with project.lake.lock_index():
            restore_release(project.lake, number, keep=100)
        assert texts(project) == said[str(number)]


def test_a_second_maintenance_touches_no_file(churned: Project) -> None:
    project = churned
    maintain(project)
    before = listed(project.lake.root)
    again = maintain(project)
    assert (again.actions, again.freed_bytes, again.release) == ({}, 0, None)
    assert listed(project.lake.root) == before


def test_a_refresh_after_it_finds_nothing_to_do(churned: Project) -> None:
    project = churned
    project.refresh()  # the folder is a copy, whose files are read once more
    maintain(project)
    outcome = project.refresh()
    assert not any(stats.has_changes for stats in outcome.stats)


def test_a_version_stays_for_a_while_after_another_took_its_place(project: Project, folder: Path) -> None:
    list(edit(project, 2))
    assert "versions" not in maintain(project, MaintenanceOptions()).actions
    for table in (project.lake.root / "snapshot").glob("*/*.lance"):
        grow_old(table)
    done = maintain(project, MaintenanceOptions()).actions["versions"]
    assert done.touched == ["snapshot/code/main.lance"] and done.removed >= 2


@pytest.mark.slow
def test_vectors_are_collected_once_most_are_unused_and_used_ones_never(
    project: Project, folder: Path
) -> None:
    list(edit(project, 4))  # every file once: half of the eight vectors
    assert "vectors" not in maintain(project).actions
    list(edit(project, 1, first=5))
    done = maintain(project).actions
    used = {row["text_key"] for rows in tables(project).values() for row in rows if "text_key" in row}
    assert set(vectors(project).read_rows(["text_key"])["text_key"].to_pylist()) == used
    assert done["vectors"].removed == 5


def test_an_edit_taken_back_within_the_tolerated_share_is_not_embedded_again(
    project: Project, folder: Path, embedding_server: OpenAIServer
) -> None:
    before = (folder / "m1.py").read_text()
    list(edit(project, 1))
    maintain(project)
    (folder / "m1.py").write_text(before)
    outcome = project.refresh()
    assert [stats.tokens for stats in outcome.stats if stats.stage == "embeddings"] == [0]


def test_a_source_that_is_being_refreshed_is_left_for_the_next_time(churned: Project) -> None:
    project = churned
    with project.lake.lock_source("main"):
        done = maintain(project)
    assert done.skipped == {"main": "it is being refreshed"}
    assert not any("main.lance" in path for each in done.actions.values() for path in each.touched)
    assert maintain(project).skipped == {}


def test_two_maintenances_do_not_overlap(project: Project, folder: Path) -> None:
    with (
        acquire_lock(project.lake.root / "locks", "maintenance", timeout_s=0),
        pytest.raises(Busy, match="the maintenance of this store"),
    ):
        maintain(project)


def test_a_dry_run_tells_and_changes_nothing(churned: Project) -> None:
    project = churned
    before = listed(project.lake.root)
    told = maintain(project, replace(AT_ONCE, dry_run=True))
    assert told.has_changes and told.freed_bytes == 0
    assert listed(project.lake.root) == before
    done = maintain(project)
    assert set(told.actions["versions"].touched) <= set(done.actions["versions"].touched)


def test_of_a_store_that_is_not_there_nothing_is_made(project: Project) -> None:
    assert not maintain(project).has_changes
    assert not project.lake.root.exists()


def test_what_a_killed_writer_left_goes(project: Project, folder: Path) -> None:
    debris = project.lake.root / "chunks" / "code" / "main.lance" / "data" / "0101.lance"
    debris.write_bytes(b"half a fragment")
    done = maintain(project, MaintenanceOptions())
    assert done.actions["versions"].touched == ["chunks/code/main.lance"]
    assert not debris.exists()


def test_the_vectors_of_a_model_that_was_left_go_after_a_week(project: Project, folder: Path) -> None:
    (old,) = (project.lake.root / "embeddings").glob("*")
    project.embedding = project.embedding.model_copy(update={"model": "another"})
    grow_old(old)
    assert old.exists() and "leftovers" not in maintain(project).actions  # it is not left before a refresh
    project.refresh()
    assert "leftovers" in maintain(project).actions
    assert not list(old.glob("*")) and len(texts(project)) == 4


def test_an_index_that_is_empty_goes_once_no_release_names_it(project: Project, folder: Path) -> None:
    (old,) = (project.lake.root / "index").glob("*.lance")
    project.embedding = project.embedding.model_copy(update={"model": "another"})
    project.refresh()
    assert find_live_release(project.lake).tables.keys() == project.lake.list_spaces().keys() - {old.stem}  # type: ignore[union-attr]
    maintain(project)
    release.roll_back_release(project.lake, project.settings, 1, pin=False)
    assert len(texts(project)) == 4
    project.refresh()
    only_one = Settings.model_validate({**project.settings.model_dump(), "releases": {"keep": 1}})
    done = maintenance.refresh(project.lake, only_one, options=AT_ONCE)
    assert done.actions["releases"].removed == 3
    assert not old.exists() and len(texts(project)) == 4


def test_a_rewritten_index_is_released_unless_something_in_it_is_not(project: Project, folder: Path) -> None:
    ((space, size),) = project.lake.list_spaces().items()
    project.lake.index(space, size).purge_deleted_rows()  # makes a version only where rows were deleted
    list(edit(project, 1))
    project.lake.index(space, size).purge_deleted_rows()
    before = find_live_release(project.lake)
    made = maintain(project)
    now = find_live_release(project.lake)
    assert before is not None and now is not None
    assert made.release == now and now.release == before.release + 1
    assert now.tables == {space: project.lake.index(space, size).version}
    release.roll_back_release(project.lake, project.settings, 1)
    assert maintain(project).release is None


def test_what_nobody_reads_any_more_goes_and_the_rest_stays(project: Project, folder: Path) -> None:
    read = GitConnection(type="git", url="https://example.com/read.git")
    forgotten = GitConnection(type="git", url="https://example.com/forgotten.git")
    project.sources["git"] = {"id": "git", "type": "code", "connection": read.model_dump()}
    mirrors = [Mirror(build_remote(each), project.lake.cache).repository for each in (read, forgotten)]
    packed = ArchiveFileConnection(type="archive_file", path=Path("a.zip"))
    project.sources["zip"] = {"id": "zip", "type": "code", "connection": packed.model_dump()}
    listings = project.lake.cache / ARCHIVE_LISTINGS
    listings.mkdir(parents=True)
    for name in (build_listing_name(packed), "forgotten.json"):
        (listings / name).write_text("{}")
    outside = project.root / "outside"
    for made in [*mirrors, outside, project.lake.root / "marts"]:
        made.mkdir(parents=True)
        (made / "a.unfinished").write_text("x")
    link = project.lake.cache / "mirrors" / "0123"
    link.symlink_to(outside)
    assert "leftovers" not in maintain(project).actions  # too young
    for old in (project.lake.cache, project.lake.root / "marts", outside):
        grow_old(old)
    os.utime(link, (1, 1), follow_symlinks=False)
    done = maintain(project)
    assert [path.exists() for path in mirrors] == [True, False]
    assert not list((project.lake.root / "marts").iterdir())
    assert (outside / "a.unfinished").exists() and not os.path.lexists(link)
    assert [path.name for path in listings.iterdir()] == [build_listing_name(packed)]
    assert done.actions["leftovers"].touched_count == 4


def test_mirrors_stay_while_an_address_is_not_known(project: Project, folder: Path) -> None:
    unknown = {"type": "git", "url": "https://${HOST}/x.git"}
    project.sources["git"] = {"id": "git", "type": "code", "connection": unknown}
    mirror = project.lake.cache / "mirrors" / "0123"
    mirror.mkdir(parents=True)
    grow_old(mirror)
    assert "variable that is not set" in maintain(project).skipped["mirrors"]
    assert mirror.exists()


def logged(query: int, at: datetime) -> dict[str, Any]:
    return {
        "query_id": str(query),
        "at": at,
        "type": "semantic",
        "text": "what",
        "door": "cli",
        "principals": [],
        "release": 1,
        "results": 0,
        "took_ms": 1.0,
        "cached": False,
        "degraded": [],
    }


def test_old_log_entries_go_and_the_log_is_one_piece(project: Project) -> None:
    now = datetime.now(UTC)
    for number in range(20):
        table = project.lake.log_table("queries")
        logs.append_rows(project.lake, "queries", [logged(number, now - timedelta(days=40 * number))])
    done = maintain(project)
    assert done.actions["logs"].removed == 10  # from 400 days on
    assert sorted(table.read_rows(["query_id"])["query_id"].to_pylist(), key=int) == [
        str(n) for n in range(10)
    ]
    assert len(project.lake.log_table("queries").open_newest().get_fragments()) < 10
    assert maintain(project).actions == {}
