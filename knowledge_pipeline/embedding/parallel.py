"""Work spread over the cores of this machine, one thread a text.

A small model's operations are too short to be cut in two: two threads with a text each make a quarter
more than one text on two threads (docs/decisions/0025-embedding-backends.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Input = TypeVar("Input")
Output = TypeVar("Output")


def count_usable_cores() -> int:
    """How many cores this process may use, no more than OMP_NUM_THREADS says; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(1, min(cores, int(told)) if told.isdecimal() else cores)


def map_on_cores(function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
    """What `make` makes of each, in order; after an error the rest is not begun."""
    workers = min(count_usable_cores(), len(inputs))
    if workers < 2:
        return [function(each) for each in inputs]
    pool = ThreadPoolExecutor(workers, thread_name_prefix="embedding")
    try:
        return list(pool.map(function, inputs))
    finally:
        pool.shutdown(cancel_futures=True)


def open_onnx_session(path: str) -> object:
    """An onnxruntime session that computes in the calling thread, and that threads may share.

    Nothing spins while it waits: the cores are also for whatever else runs.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
