"""How the steps of a run are executed: in the run's own process, unless the environment asks otherwise."""

import os

import dagster as dg

from knowledge_pipeline.errors import ConfigError


def chosen_executor() -> dg.ExecutorDefinition:
    """`KNOWLEDGE_EXECUTOR`: `in_process` (default) or `multiprocess`, a process for every step.

    A step in a process of its own costs 3 to 8 s more; it pays where steps of one run
    are long and independent, as the SQL models of a large store are.

    Raises:
        ConfigError: the variable holds something else.
    """
    name = os.environ.get("KNOWLEDGE_EXECUTOR") or "in_process"
    executors = {"in_process": dg.in_process_executor, "multiprocess": dg.multiprocess_executor}
    if name not in executors:
        raise ConfigError("KNOWLEDGE_EXECUTOR must be `in_process` or `multiprocess`: correct it or unset it")
    return executors[name]
