"""Spreads work over the cores of this machine, one text to a thread.

A small model's operations are too short to be split: two threads with a text each do a quarter more
than two threads with one text (docs/decisions/embedding.md).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

Input = TypeVar("Input")
Output = TypeVar("Output")


def count_usable_cores() -> int:
    """How many cores this process may use, at most OMP_NUM_THREADS; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(1, min(cores, int(limit)) if limit.isdecimal() else cores)


def map_on_cores(function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
    """The function's result for each input, in order; after an error no other input is started."""
    workers = min(count_usable_cores(), len(inputs))
    if workers < 2:
        return [function(input_) for input_ in inputs]
    pool = ThreadPoolExecutor(workers, thread_name_prefix="embedding")
    try:
        return list(pool.map(function, inputs))
    finally:
        pool.shutdown(cancel_futures=True)


_is_for_one_text = threading.Event()


def open_sessions_for_one_text() -> None:
    """From now on open sessions in half the time; each text then takes a quarter longer.

    For a process that embeds one question. The vectors are the same, to rounding.
    """
    _is_for_one_text.set()


def opens_for_one_text() -> bool:
    """Whether `open_sessions_for_one_text` was called."""
    return _is_for_one_text.is_set()


def open_onnx_session(
    model: str | bytes, *, weights: Path | None = None, is_optimized: bool = False
) -> object:
    """An onnxruntime session that computes in the calling thread, and that threads may share.

    Waiting threads do not spin, so that other work can use the cores.

    Args:
        model: the path of a file, or its bytes.
        weights: the folder of the files that `model` refers to, where it is bytes.
        is_optimized: whether looking for operations to join, which takes longer than the rest, finds none.
    """
    import onnxruntime  # pyright: ignore[reportMissingTypeStubs]  # it has none

    runtime = cast("Any", onnxruntime)
    options, levels = runtime.SessionOptions(), runtime.GraphOptimizationLevel
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    if opens_for_one_text():  # a copy of all weights, arranged for the processor, pays after ten texts
        options.add_session_config_entry("session.disable_prepacking", "1")
        if is_optimized:
            options.graph_optimization_level = levels.ORT_DISABLE_ALL
    if weights:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_onnx_session(session: Any, encoding: Any) -> Any:
    """The first output of a transformer for one text, or pair, as its tokenizer has encoded it."""
    import numpy as np

    tokens = {"input_ids": encoding.ids, "attention_mask": encoding.attention_mask}
    tokens["token_type_ids"] = encoding.type_ids
    names = [input_.name for input_ in session.get_inputs()]
    inputs = {name: np.array([tokens[name]], np.int64) for name in names if name in tokens}
    return session.run(None, inputs)[0]
