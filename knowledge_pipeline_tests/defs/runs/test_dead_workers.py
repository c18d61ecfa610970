"""Runs whose process is gone."""

import os
import socket
import subprocess
import sys
from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

from knowledge_pipeline.defs.checks import PROCESS_TAG
from knowledge_pipeline.defs.dagster_internals import RANGE_END, RANGE_START
from knowledge_pipeline.defs.runs import build_lost_runs_sensor, cancel_unqueued_runs
from knowledge_pipeline_tests.defs.conftest import Workplace

HERE = socket.gethostname()


@dg.job
def nothing() -> None:
    """A job to have runs of."""


def started(instance: dg.DagsterInstance, process: str | None, of: str | None = None) -> str:
    run = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED)
    if process:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: f"{process}:{of or run.run_id[:8]}"})
    return run.run_id


@pytest.fixture
def gone() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


@pytest.mark.storage
def test_only_a_run_whose_process_on_this_machine_is_gone_is_ended(
    instance: dg.DagsterInstance, gone: int
) -> None:
    lost = started(instance, f"{HERE}:{gone}")
    others = [
        started(instance, f"{HERE}:{os.getpid()}"),
        started(instance, f"elsewhere:{gone}"),
        started(instance, f"{HERE}:{gone}", of="its parent"),
        started(instance, None),
    ]
    told = build_lost_runs_sensor()(dg.build_sensor_context(instance=instance))
    assert lost in str(told)
    assert instance.get_run_by_id(lost).status == dg.DagsterRunStatus.FAILURE
    assert {instance.get_run_by_id(run).status for run in others} == {dg.DagsterRunStatus.STARTED}
    assert "every run's process is alive" in str(
        build_lost_runs_sensor()(dg.build_sensor_context(instance=instance))
    )


@pytest.mark.storage
def test_a_run_that_is_re_executed_and_never_queued_is_cancelled_and_says_why(
    instance: dg.DagsterInstance,
) -> None:
    @dg.job
    def refresh() -> None:
        """One of ours."""

    def create(job: dg.JobDefinition, parent: str | None = None) -> str:
        status = dg.DagsterRunStatus.NOT_STARTED
        run = instance.create_run_for_job(job, status=status, parent_run_id=parent, root_run_id=parent)
        return run.run_id

    first = create(refresh)  # a sensor that died may still queue it
    mine, others = create(refresh, first), create(nothing, first)
    assert cancel_unqueued_runs(instance) == [], "it may still be queued"
    assert cancel_unqueued_runs(instance, older_than=timedelta(0)) == [mine]
    assert instance.get_run_by_id(mine).status == dg.DagsterRunStatus.CANCELED
    assert {instance.get_run_by_id(run).status for run in (first, others)} == {
        dg.DagsterRunStatus.NOT_STARTED
    }
    (event,) = instance.all_logs(mine, of_type=dg.DagsterEventType.RUN_CANCELED)
    assert "never queued: one of its partitions is gone" in event.message


def test_a_range_whose_end_was_removed_fails_in_one_sentence(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    for name in ("a", "b"):
        workplace.declare(name, x_py="x = 1\n")
    workplace.add_partitions(instance)
    job = workplace.definitions().resolve_job_def("refresh_code")
    run = instance.create_run_for_job(job, tags={RANGE_START: "a", RANGE_END: "b"})
    instance.delete_dynamic_partition("code_sources", "b")
    execute_run(InMemoryJob(job), run, instance)
    failures = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    (told,) = (event.dagster_event.step_failure_data.user_failure_data for event in failures)
    assert told.description == (
        "Partition range a to b is not a valid range. Nonexistent partition keys: ['b']. "
        "Launch the partitions that exist."
    )


@pytest.mark.parametrize("job", ["refresh", "purge", "rollback", "release", "refresh_markdown"])
def test_the_run_of_every_job_names_its_process(
    job: str, workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("notes", "markdown", a_md="# Notes\n")
    configs = {"purge": {"purge_sources": {"sources": []}}, "rollback": {"roll_back_release": {"release": 9}}}
    ops = {op: {"config": config} for op, config in configs.get(job, {}).items()}
    partition = "notes" if job == "refresh_markdown" else None
    result = workplace.run(instance, job, partition, run_config={"ops": ops})
    tags = instance.get_run_by_id(result.run_id).tags
    assert tags[PROCESS_TAG] == f"{HERE}:{os.getpid()}:{result.run_id[:8]}"
