"""Ends runs whose process is gone, so that they can be retried.

A code server reports the death of a run's process to the instance, and on Kubernetes run monitoring
does. Nobody does where the code server died with it, or where a command recorded its own run.
"""

import os
import socket

import dagster as dg

from knowledge_pipeline.defs.dagster_internals import is_in_run_process
from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.defs.names import PLAIN, Names

PROCESS_TAG = "knowledge/process"


def tag_process(context: Context) -> None:
    """Tag the run with its process: `host:pid:run`, because a retry inherits tags.

    A step in a process of its own is not tagged: that process ends before the run does, and its executor
    or broker notices when it dies.
    """
    if is_in_run_process(context):
        run = context.run.run_id
        context.instance.add_run_tags(run, {PROCESS_TAG: f"{socket.gethostname()}:{os.getpid()}:{run[:8]}"})


def fail_lost_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark as failed the unfinished runs whose process on this machine is gone, and return their ids."""
    ended: list[str] = []
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        host, pid, tagged_run = [*run.tags.get(PROCESS_TAG, "").split(":"), "", "", ""][:3]
        if host == socket.gethostname() and tagged_run == run.run_id[:8]:
            try:
                os.kill(int(pid), 0)  # asks whether it is alive
            except ProcessLookupError:
                instance.report_run_failed(run, "the run's process died; a retry finishes what is left")
                ended.append(run.run_id)
    return ended


def build_lost_runs_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that ends lost runs."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("lost_runs"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Ends runs whose process on this machine is gone, so that they are retried.",
    )
    def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        """Request nothing: Dagster itself retries a run that lost its process."""
        ended = fail_lost_runs(context.instance)
        return dg.SkipReason(f"ended {', '.join(ended)}" if ended else "every run's process is alive")

    return lost_runs
