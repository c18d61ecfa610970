"""How the steps of a run are executed: in the run's own process, unless the environment asks otherwise.

`KNOWLEDGE_EXECUTOR` is the one choice: `in_process` (default), `multiprocess` (a process for every step),
or `celery` (a task for every step, done by workers on any number of machines).
"""

import os
from collections.abc import Callable
from typing import Any

import dagster as dg

from knowledge_pipeline.errors import ConfigError

BROKER_VARIABLE = "KNOWLEDGE_CELERY_BROKER"
_IN_PROCESS_EXECUTORS = ("in_process", "execute_in_process_executor")  # the names that Dagster gives them

CELERY_SETTINGS: dict[str, Any] = {
    # A task is taken off the queue when it is done and not when it is begun: the broker gives what a
    # dead worker, or its dead process, had to another one. A step may be done twice by that, which costs a
    # listing (docs/decisions/0024-many-machines.md).
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    # Without its connection a worker's task is given to another one: it must not go on with it as well.
    "worker_cancel_long_running_tasks_on_connection_loss": True,
    "worker_prefetch_multiplier": 1,  # a step takes minutes: no worker holds one that another could begin
    "task_default_queue": "dagster",
    "broker_connection_retry_on_startup": True,
}
"""Settings of Celery that executor and workers share."""

SOURCE_STEP_TAGS = {"dagster-celery/queue": "sources"}
"""Of the steps that read sources and embed. They wait in a queue of their own: a release, or a night's SQL
models, is not behind a hundred of them, and machines that embed well can be left to them."""


def select_executor() -> dg.ExecutorDefinition:
    """What `KNOWLEDGE_EXECUTOR` names.

    A step in a process of its own costs 3 to 8 s more; it pays where steps of one run
    are long and independent, as the SQL models of a large store are.

    Raises:
        ConfigError: the variable holds something else, or what it needs is missing.
    """
    name = os.environ.get("KNOWLEDGE_EXECUTOR") or "in_process"
    executors: dict[str, Callable[[], dg.ExecutorDefinition]] = {
        "in_process": lambda: dg.in_process_executor,
        "multiprocess": lambda: dg.multiprocess_executor,
        "celery": _build_celery_executor,
    }
    if name not in executors:
        raise ConfigError(
            "KNOWLEDGE_EXECUTOR must be `in_process`, `multiprocess` or `celery`: correct it or unset it"
        )
    return executors[name]()


def is_in_run_process(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> bool:
    """Whether a step is done by the process of its run, so that the one ends with the other."""
    return context.job_def.executor_def.name in _IN_PROCESS_EXECUTORS


def _build_celery_executor() -> dg.ExecutorDefinition:
    """Dagster's own Celery executor, all configured: `execution` in a run's configuration stays empty."""
    try:
        from dagster_celery import celery_executor
    except ImportError as error:
        raise ConfigError(
            "KNOWLEDGE_EXECUTOR is `celery`, which is not installed: pip install 'knowledge-pipeline[celery]'"
        ) from error
    if not os.environ.get(BROKER_VARIABLE):
        raise ConfigError(
            f"KNOWLEDGE_EXECUTOR is `celery` and {BROKER_VARIABLE} is not set: "
            "set it to the broker's address, such as pyamqp://user:password@host//"
        )
    # By the variable's name: the address holds a password, and configuration is written down with a run.
    return celery_executor.configured(
        {"broker": {"env": BROKER_VARIABLE}, "config_source": CELERY_SETTINGS}, name="celery"
    )
