"""Recorded refreshes inside one process: the CLI's `--dagster`, and the jobs over all types."""

import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.defs import recorded_refresh
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.stages.context import RefreshOptions
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.conftest import Workplace, errors

pytestmark = pytest.mark.storage

CODE = "def add(left, right):\n    return left + right\n"


@pytest.fixture
def home(dagster_home: Path) -> Path:
    """A `DAGSTER_HOME` of its own."""
    return dagster_home


def test_sources_are_refreshed_recorded_and_released_in_one_run(
    workplace: Workplace, home, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.declare("one", a_py=CODE)
    workplace.declare("gone")
    workplace.declare("docs", "markdown", a_md="# Title\n\nText.\n")
    recorded = recorded_refresh.record_refresh(workplace.path)
    assert recorded.failure is not None
    assert recorded.failure.startswith("1 of 3 sources failed, the others are done: gone: ")
    assert [(each["source"], each["temporary"]) for each in recorded.failures] == [("gone", False)]
    release = find_live_release(workplace.lake)
    assert release is not None
    assert release.rows == 2
    monkeypatch.setenv("KNOWLEDGE_DAGSTER_URL", "https://dagster.example.com/")
    with KnowledgeBase.open(workplace.path) as base:
        traced = base.trace("one:a.py").stages
    assert {each.run for each in traced} == {recorded.run_id}, "a result leads to the run that made it"
    assert traced[0].run_url == f"https://dagster.example.com/runs/{recorded.run_id}"
    with recorded_refresh.open_local_instance(home) as instance:
        (run,) = instance.get_runs()
        assert (run.run_id, run.status.value) == (recorded.run_id, "FAILURE")
        assert run.tags["source/docs"] == "yes"
        assert instance.get_materialized_partitions(dg.AssetKey(["code", "index"])) == {"one"}
        assert instance.get_latest_materialization_event(dg.AssetKey("release")) is not None


@pytest.mark.slow
def test_only_the_chosen_sources_are_refreshed(workplace: Workplace, home) -> None:
    workplace.declare("one", a_py=CODE)
    workplace.declare("two", a_py=CODE)
    options = RefreshOptions(relist=True, documents=("two/a.py",))  # a folder is listed whole all the same
    assert recorded_refresh.record_refresh(workplace.path, ["two"], options).failure is None
    assert workplace.lake.list_stored_sources() == {"two": "code"}


@pytest.mark.slow
def test_a_run_whose_process_was_killed_is_ended_by_the_next_one(workplace: Workplace, home) -> None:
    workplace.declare("one", a_py=CODE)
    program = (
        "import os, sys, pathlib\n"
        "from knowledge_pipeline.defs.recorded_refresh import record_refresh\n"
        "from knowledge_pipeline.stages.pipeline import STAGES\n"
        "STAGES['chunks'] = lambda ctx: os.kill(os.getpid(), 9)\n"
        "record_refresh(pathlib.Path(sys.argv[1]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(workplace.path)], capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    with recorded_refresh.open_local_instance(home) as instance:
        assert [run.status.value for run in instance.get_runs()] == ["STARTED"]
    assert recorded_refresh.record_refresh(workplace.path).failure is None
    with recorded_refresh.open_local_instance(home) as instance:
        assert [run.status.value for run in instance.get_runs()] == ["SUCCESS", "FAILURE"]


def test_an_unknown_source_is_named_before_any_run(workplace: Workplace, home) -> None:
    workplace.declare("one", a_py=CODE)
    with pytest.raises(NotFound, match="there is no source 'two'"):
        recorded_refresh.record_refresh(workplace.path, ["two"])


def test_the_refresh_job_records_sources_of_any_type(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=CODE)
    workplace.declare("docs", "markdown", a_md="# Title\n\nText.\n")
    result = workplace.run(instance, "refresh")
    assert result.success
    assert len(instance.get_runs()) == 1
    for type_, source in (("code", "one"), ("markdown", "docs")):
        for stage in ("snapshot", "chunks", "embeddings", "index"):
            assert instance.get_materialized_partitions(dg.AssetKey([type_, stage])) == {source}
    noted = open_log(workplace.lake, "refreshes").read_rows(["source", "stage", "run"]).to_pylist()
    assert len(noted) == 9  # of the code the graph, too
    assert {row["run"] for row in noted} == {result.run_id}


def test_the_refresh_job_fails_when_a_source_failed_and_does_and_releases_the_others(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("gone")
    workplace.declare("one", a_py=CODE)
    result = workplace.run(instance, "refresh")
    (sentence,) = errors(result)
    assert sentence.startswith("1 of 2 sources failed, the others are done: gone: ")
    assert workplace.lake.list_stored_sources() == {"one": "code"}
    release = find_live_release(workplace.lake)
    assert release is not None
    assert release.rows == 1


@pytest.mark.slow
def test_the_purge_job_erases_what_is_no_longer_configured_and_nothing_else(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("kept", a_py=CODE)
    workplace.declare("old", a_py=CODE)
    workplace.run(instance, "refresh")
    workplace.forget("old")
    config = {"ops": {"purge_sources": {"config": {"sources": ["old", "kept"]}}}}
    assert workplace.run(instance, "purge", run_config=config).success
    assert workplace.lake.list_stored_sources() == {"kept": "code"}
    assert instance.get_dynamic_partitions("all_sources") == ["kept"]  # of the asset `sources`
    release = find_live_release(workplace.lake)
    assert release is not None
    assert release.rows == 1


@pytest.mark.slow
def test_a_source_that_changed_its_type_keeps_only_the_present_one(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", "code", a_py=CODE, b_md="# Title\n\nText.\n")
    workplace.run(instance, "refresh")
    workplace.declare("one", "markdown")
    workplace.run(instance, "refresh")
    config = {"ops": {"purge_sources": {"config": {"sources": ["one"]}}}}
    assert workplace.run(instance, "purge", run_config=config).success
    assert workplace.lake.list_stored_types("one") == ["markdown"]
    release = find_live_release(workplace.lake)
    assert release is not None
    assert release.rows == 1


def test_an_instance_of_our_own_making_sends_no_telemetry(tmp_path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with recorded_refresh.open_local_instance(tmp_path / ".dagster") as instance:
        assert not instance.telemetry_enabled
    monkeypatch.delenv("DAGSTER_HOME")
