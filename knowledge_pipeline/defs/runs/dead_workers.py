"""Runs whose process is gone without a word: found, ended, and so free to be retried.

A code server reports the death of a run's process to the instance, and on Kubernetes run monitoring
asks for it. Nobody does where the code server died with it, or where a command recorded its own run.
"""

import os
import socket
from contextlib import suppress

import dagster as dg

from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.defs.runs.executor import is_in_run_process

PROCESS_TAG = "knowledge/process"


def tag_process(context: Context) -> None:
    """Tag the run with the process that does it: `host:pid:run`, because a retry inherits tags.

    Not where each step has a process of its own: that one ends before the run does, and its executor
    or its broker notices when it dies.
    """
    if not is_in_run_process(context):
        return
    run = context.run.run_id
    context.instance.add_run_tags(run, {PROCESS_TAG: f"{socket.gethostname()}:{os.getpid()}:{run[:8]}"})


def fail_lost_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark as failed the unfinished runs whose process on this machine is gone, and return their ids."""
    ended: list[str] = []
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        host, pid, of = [*run.tags.get(PROCESS_TAG, "").split(":"), "", "", ""][:3]
        mine = host == socket.gethostname() and of == run.run_id[:8]
        if mine and not _is_alive(int(pid)):
            instance.report_run_failed(run, "its process ended without a word; a retry finishes what is left")
            ended.append(run.run_id)
    return ended


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Ends runs whose process on this machine is gone, so that they are retried.",
)
def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Requests nothing itself: Dagster retries what failed by losing its process."""
    ended = fail_lost_runs(context.instance)
    return dg.SkipReason(f"ended {', '.join(ended)}" if ended else "every run's process is there")


def _is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
