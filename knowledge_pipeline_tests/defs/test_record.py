"""Recorded refreshes inside one process: the CLI's `--dagster`, and the jobs over all types."""

import dagster as dg
import pytest

from knowledge_pipeline.defs import record
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.store.release import live
from knowledge_pipeline_tests.defs.conftest import Workplace, errors

CODE = "def add(left, right):\n    return left + right\n"


@pytest.fixture
def home(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A `DAGSTER_HOME` of its own."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_sources_are_refreshed_recorded_and_released(workplace: Workplace, home) -> None:
    workplace.declare("one", a_py=CODE)
    workplace.declare("gone")
    workplace.declare("docs", "markdown", a_md="# Title\n\nText.\n")
    recorded = record.materialize(workplace.path)
    assert set(recorded.runs) == {"one", "gone", "docs", "release"}
    assert set(recorded.failures) == {"gone"}
    assert "\n" not in recorded.failures["gone"]
    release = live(workplace.lake)
    assert release is not None
    assert release.rows == 2
    with record.local_instance(home) as instance:
        statuses = {run.run_id: run.status.value for run in instance.get_runs()}
        assert {name: statuses[run_id] for name, run_id in recorded.runs.items()} == {
            "one": "SUCCESS",
            "gone": "FAILURE",
            "docs": "SUCCESS",
            "release": "SUCCESS",
        }
        assert instance.get_materialized_partitions(dg.AssetKey(["code", "index"])) == {"one"}


def test_only_the_chosen_sources_are_refreshed(workplace: Workplace, home) -> None:
    workplace.declare("one", a_py=CODE)
    workplace.declare("two", a_py=CODE)
    recorded = record.materialize(workplace.path, ["two"])
    assert set(recorded.runs) == {"two", "release"}
    assert workplace.lake.stored_sources() == {"two": "code"}


def test_an_unknown_source_is_named_before_any_run(workplace: Workplace, home) -> None:
    workplace.declare("one", a_py=CODE)
    with pytest.raises(NotFound, match="there is no source 'two'"):
        record.materialize(workplace.path, ["two"])


def test_the_refresh_job_takes_sources_of_any_type(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=CODE)
    workplace.declare("docs", "markdown", a_md="# Title\n\nText.\n")
    result = workplace.run(instance, "refresh")
    assert result.success
    runs = [run for run in instance.get_runs() if run.tags.get("knowledge/refreshed_by") == result.run_id]
    assert sorted(run.job_name for run in runs) == ["refresh_code", "refresh_markdown", "release"]


def test_the_refresh_job_fails_when_a_source_failed_and_does_the_others(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("gone")
    workplace.declare("one", a_py=CODE)
    result = workplace.run(instance, "refresh")
    (sentence,) = errors(result)
    assert sentence.startswith("1 of 3 runs failed: gone: ")
    assert workplace.lake.stored_sources() == {"one": "code"}


def test_the_full_reindex_job_makes_every_row_anew(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=CODE)
    workplace.run(instance, "refresh")
    assert workplace.run(instance, "full_reindex").success
    event = instance.get_latest_materialization_event(dg.AssetKey(["code", "chunks"]))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["changed"].value == 1


def test_an_instance_of_our_own_making_sends_no_telemetry(tmp_path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with record.local_instance(tmp_path / ".dagster") as instance:
        assert not instance.telemetry_enabled
    monkeypatch.delenv("DAGSTER_HOME")
