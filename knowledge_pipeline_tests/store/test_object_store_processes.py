"""Several processes at one store: nothing lost, nothing doubled, and a kill leaves nothing behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import maintenance as maintain
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import Busy, KnowledgeError
from knowledge_pipeline.maintenance import MaintenanceOptions
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store import locks as leases
from knowledge_pipeline.store.lance_storage import open_dataset
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.bucket.azure_server import AzureServer
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Server
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
    try:
        outcome = pipeline.refresh(project.lake, settings, chosen, report=lambda source: report)
        tell.send(f"end: {outcome.failures}")
    except KnowledgeError as error:
        tell.send(f"end: {error}")


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
        for file in range(3):
            (folder / f"m{file}.py").write_text(f"def f{file}():\n    return {number}, {file}\n")
        project.declare(f"s{number}", "code", folder)


def calm(project: RemoteProject, tmp_path: Path) -> Project:
    """The same sources, refreshed undisturbed into a folder."""
    made = Project(tmp_path / "calm", project.embedding)
    made.sources = project.sources
    made.refresh()
    return made


@pytest.fixture
def bucket_project(request: pytest.FixtureRequest) -> RemoteProject:
    """Each test runs at one service, some at S3 and some at Azure: a run at both would take twice as long."""
    return request.getfixturevalue(f"{request.param}_project")


@pytest.fixture
def server(bucket_project: RemoteProject, request: pytest.FixtureRequest) -> S3Server | AzureServer:
    is_s3 = bucket_project.store.scheme == "s3"
    return request.getfixturevalue("s3_server" if is_s3 else "azure_server")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bucket_project", "chosen"),
    [("s3", [["s0"], ["s1"]]), ("azure", [["s0", "s1"], ["s1", "s0"]])],
    indirect=["bucket_project"],
)
def test_processes_that_refresh_at_once_leave_what_one_after_the_other_would(
    bucket_project: RemoteProject, tmp_path: Path, chosen: list[list[str]]
) -> None:
    declared(bucket_project, tmp_path, 2)
    running = [started(bucket_project, *ids) for ids in chosen]
    assert [end_of(listen) for _, listen in running] == ["end: {}"] * len(chosen)
    for process, _ in running:
        process.join()
    bucket_project.refresh()
    assert tables(bucket_project) == tables(calm(bucket_project, tmp_path)) != {}


@pytest.mark.slow
@pytest.mark.parametrize(  # of one source's tables, and of all
    ("bucket_project", "stage"), [("s3", "embeddings"), ("azure", "index")], indirect=["bucket_project"]
)
def test_a_kill_in_each_stage_leaves_nothing_behind(
    bucket_project: RemoteProject, tmp_path: Path, stage: str
) -> None:
    declared(bucket_project, tmp_path, 1)
    victim, listen = started(bucket_project, "s0")
    while listen.recv() != stage:
        pass
    with pytest.raises(Busy, match="another process is working on source 's0'"):
        bucket_project.lake.lock_source("s0", timeout_s=0).__enter__()
    victim.kill()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    (tmp_path / "repo0" / "late.py").write_text("def late():\n    return 0\n")
    bucket_project.refresh()
    assert tables(bucket_project) == tables(calm(bucket_project, tmp_path)) != {}
    assert not any(stats.has_changes for stats in bucket_project.refresh().stats)


def list_unreadable_versions(project: RemoteProject) -> list[str]:
    """Versions of any table that cannot be read whole, each with the error."""
    unreadable: list[str] = []
    found = (path for pattern in ("*/*/*", "*/*", "*") for path in project.lake.root.glob(f"{pattern}.lance"))
    tables = [path for path in found if (path / "_versions").is_dir()]
    assert len(tables) > 5
    for path in tables:
        for version in [each["version"] for each in open_dataset(path).versions()]:
            try:
                open_dataset(path, version).to_table()
            except (OSError, RuntimeError, ValueError) as error:
                unreadable.append(f"{path.key} {version}: {str(error)[:200]}")
    return unreadable


def released_texts(project: RemoteProject) -> list[str]:
    live, dimensions = find_live_release(project.lake), project.lake.list_spaces()
    assert live
    tables = [(project.lake.index(space, dimensions[space]), at) for space, at in live.tables.items()]
    return [
        text for table, at in tables for text in table.read_rows(["text"], version=at).to_pydict()["text"]
    ]


def pause_at(server: S3Server | AzureServer, project: RemoteProject, place: str) -> tuple[int, Connection]:
    """Start a refresh, and stop its process when it has uploaded an object of a place."""
    stopped, known = threading.Event(), list[int]()

    def stop(path: str) -> None:
        if place in path and not stopped.is_set():
            os.kill(known[0], signal.SIGSTOP)
            stopped.set()

    process, listen = started(project, "s0")
    known.append(process.pid or 0)
    server.after_put = stop
    assert stopped.wait(240)
    server.after_put = None
    return known[0], listen


def maintain_after_expiry(project: RemoteProject) -> None:
    deadline, options = time.monotonic() + 120, MaintenanceOptions(grace_s=0.0)
    while maintain.refresh(project.lake, project.settings, options=options).skipped:
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bucket_project", "place"),
    [
        ("azure", "chunks/code/s0.lance/data/"),
        ("s3", "releases.lance/data/"),
    ],
    indirect=["bucket_project"],
)
def test_a_writer_that_is_paused_beyond_its_lease_beside_maintenance_commits_nothing(
    bucket_project: RemoteProject, server: S3Server | AzureServer, tmp_path: Path, place: str
) -> None:
    declared(bucket_project, tmp_path, 1)
    bucket_project.refresh()
    (tmp_path / "repo0" / "m0.py").write_text("def second():\n    return 2\n")
    pid, listen = pause_at(server, bucket_project, place)
    maintain_after_expiry(bucket_project)
    os.kill(pid, signal.SIGCONT)
    told = end_of(listen)
    assert "lost the lease on" in told and "run it again" in told
    assert list_unreadable_versions(bucket_project) == []
    assert not any("def second" in text for text in released_texts(bucket_project))
    assert bucket_project.refresh().failures == {}
    assert list_unreadable_versions(bucket_project) == []
    assert tables(bucket_project) == tables(calm(bucket_project, tmp_path)) != {}


@pytest.mark.slow
@pytest.mark.parametrize("bucket_project", ["s3"], indirect=True)
def test_a_writer_that_is_paused_between_the_last_look_and_the_commit_leaves_every_version_readable(
    bucket_project: RemoteProject, server: S3Server | AzureServer, tmp_path: Path
) -> None:
    declared(bucket_project, tmp_path, 1)
    bucket_project.refresh()
    (tmp_path / "repo0" / "m0.py").write_text("def second():\n    return 2\n")
    pid, listen = pause_at(server, bucket_project, "chunks/code/s0.lance/_transactions/")
    maintain_after_expiry(bucket_project)
    os.kill(pid, signal.SIGCONT)
    assert "lost the lease on" in end_of(listen)
    assert list_unreadable_versions(bucket_project) == []
    assert bucket_project.refresh().failures == {}
    assert tables(bucket_project) == tables(calm(bucket_project, tmp_path)) != {}
