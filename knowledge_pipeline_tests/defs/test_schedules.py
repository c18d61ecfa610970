"""Schedules request what is due at their ticks, at the times that `knowledge.yaml` gives them."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._core.definitions.schedule_definition import ScheduleExecutionData

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs.commit_sensors import changed_sources
from knowledge_pipeline.defs.jobs import build_schedules
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline_tests.defs.watching import Watch, how_of_run, sources_of_run

WHEN = datetime(2026, 3, 1, 3, 0, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.fixture
def project(tmp_path: Path) -> Watch:
    return Watch(tmp_path / "project", changed_sources())


def tick(project: Watch, name: str, instance: dg.DagsterInstance) -> ScheduleExecutionData:
    by_name = {schedule.name: schedule for schedule in build_schedules(Settings())}
    resources = {"project": project.resource}
    with dg.build_schedule_context(instance, scheduled_execution_time=WHEN, resources=resources) as context:
        return by_name[name].evaluate_tick(context)


def test_schedules_tick_as_the_file_says_and_run_by_themselves() -> None:
    times = {"timezone": "Europe/Berlin", "daily": " 15   2 * * 1-5 "}
    source = {"id": "one", "type": "code", "connection": {"type": "local", "path": "."}}
    found = {
        one.name: (one.cron_schedule, one.job_name, one.execution_timezone, one.default_status.value)
        for one in build_schedules(Settings.model_validate({"schedules": times, "sources": [source]}))
    }
    assert found == {
        "hourly": ("5 * * * *", "refresh", "Europe/Berlin", "RUNNING"),
        "daily": ("15 2 * * 1-5", "refresh", "Europe/Berlin", "RUNNING"),
        "weekly": ("0 4 * * 0", "refresh", "Europe/Berlin", "RUNNING"),
        "weekly_reindex": ("0 1 * * 6", "refresh", "Europe/Berlin", "RUNNING"),
        "monthly_reindex": ("0 1 1 * *", "refresh", "Europe/Berlin", "RUNNING"),
        "maintenance": ("30 5 * * *", "maintenance", "Europe/Berlin", "RUNNING"),
        "checks": ("0 6 * * *", "checks", "Europe/Berlin", "RUNNING"),
        "sql_models": ("15 6 * * *", "sql_models", "Europe/Berlin", "RUNNING"),
    }


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("timezone", "Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("timezone", "../etc", "use a name like"),
        ("daily", "0 25 * * *", "schedules.daily: '0 25 * * *'"),
        ("weekly", "0 0 30 2 *", "schedules.weekly"),
        ("hourly", "*/90 * * * *", "does not tick as it says"),
    ],
)
def test_a_time_that_does_not_exist_is_one_clear_sentence(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match="schedules") as raised:
        build_schedules(Settings.model_validate({"schedules": {key: value}}))
    assert says in str(raised.value)


def test_a_tick_requests_what_is_due_in_runs_of_a_hundred(
    project: Watch, instance: dg.DagsterInstance
) -> None:
    for number in range(150):
        project.declare(f"s{number:03}", over=f"https://example.com/r{number % 7}")
    project.declare("weekly", refresh={"trigger": "weekly"})
    project.write()
    requests = tick(project, "daily", instance).run_requests or ()
    assert [len(sources_of_run(request)) for request in requests] == [100, 50]
    assert [request.run_key for request in requests] == [
        "2026-03-01T03:00:00+01:00",
        "2026-03-01T03:00:00+01:00 2",
    ]
    assert {request.tags["knowledge/trigger"] for request in requests} == {"daily"}
    assert not any(how_of_run(request).get("full") for request in requests)


def test_a_reindex_is_a_full_refresh(project: Watch, instance: dg.DagsterInstance) -> None:
    project.declare("often", refresh={"full_reindex": "weekly"})
    project.declare("seldom", refresh={"full_reindex": "monthly"})
    project.write()
    for name, id_ in (("weekly_reindex", "often"), ("monthly_reindex", "seldom")):
        (request,) = tick(project, name, instance).run_requests or ()
        assert sources_of_run(request) == [id_]
        assert how_of_run(request) == {"full": True}


def test_a_tick_reads_the_file_anew(project: Watch, instance: dg.DagsterInstance) -> None:
    project.write()
    assert tick(project, "hourly", instance).skip_message == "no source has the trigger hourly"
    project.declare("added", refresh={"trigger": "hourly"})
    project.write()
    (request,) = tick(project, "hourly", instance).run_requests or ()
    assert sources_of_run(request) == ["added"]


def test_a_wrong_file_fails_the_tick_and_says_what_is_wrong(
    project: Watch, instance: dg.DagsterInstance
) -> None:
    project.path.write_text("sources: nonsense\n")
    with pytest.raises(Exception, match="schedule daily") as raised:
        tick(project, "daily", instance)
    assert isinstance(raised.value.__cause__, ConfigError)
    assert "knowledge.yaml:1:" in str(raised.value.__cause__)


def test_maintenance_needs_no_file(project: Watch, instance: dg.DagsterInstance) -> None:
    (request,) = tick(project, "maintenance", instance).run_requests or ()
    assert request.run_key == "2026-03-01T03:00:00+01:00"
