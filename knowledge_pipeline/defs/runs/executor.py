"""Where the steps of a run execute, by `KNOWLEDGE_EXECUTOR`.

`in_process` (default): in the run's own process. `multiprocess`: in a process for each step. `celery`: as
a task for each step, on any number of machines.
"""

import os
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.dagster_internals import CELERY_QUEUE
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.extras import describe_missing

BROKER_VARIABLE = "KNOWLEDGE_CELERY_BROKER"

CELERY_SETTINGS: dict[str, Any] = {
    # A task leaves the queue when it is done, not when it starts: the broker gives the task of a dead worker
    # to another one. A step may so run twice, which costs a listing (docs/decisions/operation.md).
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    # The broker gives the task of a disconnected worker to another one, so the first one must stop.
    "worker_cancel_long_running_tasks_on_connection_loss": True,
    "worker_prefetch_multiplier": 1,  # a step takes minutes: no worker reserves one that another could start
    "task_default_queue": "dagster",
    "broker_connection_retry_on_startup": True,
}
"""Celery settings that executor and workers share."""

SOURCE_STEP_TAGS = {CELERY_QUEUE: "sources"}
"""Tags of the steps that read sources and embed. Their own queue keeps a release, or the SQL models, from
waiting behind a hundred of them, and lets machines that embed well serve them alone."""


def select_executor() -> dg.ExecutorDefinition:
    """The executor that `KNOWLEDGE_EXECUTOR` names.

    A step in a process of its own costs 3 to 8 s more; that pays where the steps of a run are long and
    independent, as the SQL models of a large store are.

    Raises:
        ConfigError: the variable holds something else, or what it needs is missing.
    """
    match os.environ.get("KNOWLEDGE_EXECUTOR") or "in_process":
        case "in_process":
            return dg.in_process_executor
        case "multiprocess":
            return dg.multiprocess_executor
        case "celery":
            return _build_celery_executor()
        case _:
            raise ConfigError(
                "KNOWLEDGE_EXECUTOR must be `in_process`, `multiprocess` or `celery`: correct it or unset it"
            )


def _build_celery_executor() -> dg.ExecutorDefinition:
    """Dagster's Celery executor, fully configured: `execution` in a run's configuration stays empty."""
    try:
        from dagster_celery import celery_executor
    except ImportError as error:
        raise ConfigError(describe_missing("KNOWLEDGE_EXECUTOR=celery", "celery")) from error
    if not os.environ.get(BROKER_VARIABLE):
        raise ConfigError(
            f"KNOWLEDGE_EXECUTOR is `celery` and {BROKER_VARIABLE} is not set: "
            "set it to the broker's address, such as pyamqp://user:password@host//"
        )
    # Given by the variable's name: the address holds a password, and Dagster stores a run's configuration.
    return celery_executor.configured(
        {"broker": {"env": BROKER_VARIABLE}, "config_source": CELERY_SETTINGS}, name="celery"
    )
