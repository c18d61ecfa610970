"""Dagster discovers the members of organisations, and their partitions follow."""

import shutil
from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline.defs.jobs import build_organisations_job, unlisted_organisations
from knowledge_pipeline.defs.sensors import build_sources_sensor, removed_sources
from knowledge_pipeline.defs.settings_assets import list_source_types
from knowledge_pipeline_tests.defs.watching import Watch, ids, sources_of_run

ADDED, REMOVED, UNLISTED = range(3)


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    (tmp_path / "git").mkdir()
    sensors = build_sources_sensor(["code"]), removed_sources(), unlisted_organisations()
    watch = Watch(tmp_path / "project", *sensors)
    watch.organisations.append(
        {
            "id": "acme",
            "connection": {"type": "checkouts", "path": str(tmp_path / "git")},
            "sources": [{"type": "code"}],
        }
    )
    return watch


def have(watch: Watch, *names: str) -> None:
    folder = watch.root.parent / "git"
    shutil.rmtree(folder)
    folder.mkdir()
    for name in names:
        (folder / name / ".git").mkdir(parents=True)


def discover(watch: Watch, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    job = build_organisations_job()
    resources = {"project": watch.resource}
    return job.execute_in_process(instance=instance, resources=resources, raise_on_error=False)


@pytest.mark.storage
def test_partitions_follow_what_is_discovered(watch: Watch, instance: dg.DagsterInstance) -> None:
    have(watch, "a", "b", "c")
    assert list_source_types(watch.settings) == ["code"]  # before anything is listed
    assert len(watch.tick(instance, at=UNLISTED).run_requests or ()) == 1
    watch.declare("alone", "code")
    assert ids(watch.runs(instance, at=ADDED)) == ["alone"]
    assert "purged until the members of all" in (watch.tick(instance, at=REMOVED).skip_message or "")
    assert discover(watch, instance).success
    assert ids(watch.runs(instance, at=ADDED)) == ["acme-a-code", "acme-b-code", "acme-c-code"]
    assert "is listed" in (watch.tick(instance, at=UNLISTED).skip_message or "")
    for name in ("acme-a-code", "acme-b-code", "acme-c-code", "alone"):
        (watch.root / "store" / "snapshot" / "code" / f"{name}.lance").mkdir(parents=True)

    have(watch, "b", "c")
    assert discover(watch, instance).success
    assert watch.runs(instance, at=REMOVED) == []
    [purge] = watch.tick(instance, at=REMOVED).run_requests or ()
    assert (purge.job_name, sources_of_run(purge)) == ("purge", ["acme-a-code"])

    have(watch)
    failed = discover(watch, instance)
    assert not failed.success and "lacks 2 of 2 known members" in str(failed.all_events)
    shutil.rmtree(watch.root / "store" / "organisations")  # as on another machine
    for _ in range(3):
        assert watch.runs(instance, at=REMOVED) == []
