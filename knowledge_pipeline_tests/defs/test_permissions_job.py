"""The job that reads permissions alone: every five minutes, where a source has its own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.schedule_definition import ScheduleExecutionData

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs.code_location import build_defs
from knowledge_pipeline.defs.jobs import build_permissions_job, build_schedules
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.store.access import read_permissions_time
from knowledge_pipeline_tests.serve import test_source_permissions
from knowledge_pipeline_tests.serve.test_source_permissions import ADA, BEN, WikiProject

project = test_source_permissions.project


def run(project: WikiProject, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    return build_permissions_job().execute_in_process(
        instance=instance,
        resources={"project": ProjectResource(config_path=str(project.config))},
        raise_on_error=False,
    )


def test_it_is_there_only_where_a_source_has_its_own_permissions(project: WikiProject):
    def names(settings: Settings) -> tuple[set[str], set[str]]:
        defs = build_defs(settings)
        jobs = {job.name for job in defs.jobs or ()}
        return jobs & {"permissions"}, {it.name for it in defs.schedules or ()} & {"permissions"}

    assert names(project.settings) == ({"permissions"}, {"permissions"})
    public = {"id": "docs", "type": "markdown", "connection": {"type": "local", "path": "."}}
    assert names(Settings.model_validate({"sources": [public]})) == (set(), set())


def test_a_run_reads_permissions_and_brings_moved_documents_along(
    project: WikiProject, instance: dg.DagsterInstance
):
    project.wiki.restrict(project.open_page, "ada")
    before = read_permissions_time(project.lake.audiences("confluence", "wiki"))
    assert before and run(project, instance).success
    after = read_permissions_time(project.lake.audiences("confluence", "wiki"))
    assert after and after > before
    assert (list_titles(project, ADA), list_titles(project, BEN)) == ({"Payments"}, set())


def list_titles(project: WikiProject, access) -> set[str]:
    from knowledge_pipeline import KnowledgeBase

    with KnowledgeBase.open(project.root, access=access) as base:
        return {it.citation.title or "" for it in base.search("payment bank").results} & {"Payments"}


def test_a_run_that_cannot_read_them_fails_and_says_why(project: WikiProject, instance: dg.DagsterInstance):
    project.wiki.fail_next(50, status=401)
    result = run(project, instance)
    assert not result.success
    [failure] = [it for it in result.all_events if it.is_step_failure]
    told = failure.step_failure_data.user_failure_data
    assert told and "does not accept the token" in (told.description or "")


def tick(project: WikiProject, instance: dg.DagsterInstance) -> ScheduleExecutionData:
    by_name = {schedule.name: schedule for schedule in build_schedules(project.settings)}
    at = datetime(2026, 3, 1, 3, 5, tzinfo=UTC)
    with dg.build_schedule_context(instance, scheduled_execution_time=at) as context:
        return by_name["permissions"].evaluate_tick(context)


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.NOT_STARTED])
def test_a_tick_starts_no_run_beside_one_that_has_not_ended(
    project: WikiProject, tmp_path: Path, status: dg.DagsterRunStatus
):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert len(tick(project, instance).run_requests or ()) == 1
        instance.create_run_for_job(build_permissions_job(), status=status)
        assert tick(project, instance).skip_message == "the last run has not ended yet"
