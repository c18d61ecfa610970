"""Runs whose process is gone."""

import os
import socket
import subprocess
import sys

import dagster as dg
import pytest

from knowledge_pipeline.defs.runs import PROCESS_TAG, build_lost_runs_sensor

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
