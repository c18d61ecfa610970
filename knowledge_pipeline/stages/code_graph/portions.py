"""Files in portions: many portions are shared out to processes, few are worked on in this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from knowledge_pipeline.stages.worker_pool import WorkerPool

MIN_FILES = 400  # fewer are read, or resolved, before the processes have started
FILES_PER_PORTION = 16
MAX_PROCESSES = 3  # of up to 450 MB each: with the process that writes, less than 2 GB

Portion = TypeVar("Portion")
Answer = TypeVar("Answer")


def open_pool() -> WorkerPool:
    """The processes of one refresh, for its facts and its edges."""
    return WorkerPool("reads code", max_processes=MAX_PROCESSES)


def map_portions(
    pool: WorkerPool,
    files: int,
    work: Callable[[Portion], Answer],
    portions: Iterable[Portion],
    describe: Callable[[Portion], str],
) -> Iterator[Answer]:
    """What the work gives for each portion, in their order; see `WorkerPool.map`.

    Args:
        pool: that works where there are many files.
        files: in all portions together.
        work: what is done with a portion.
        portions: of files.
        describe: the first file of a portion.
    """
    if files < MIN_FILES:
        return map(work, portions)
    return pool.map(work, portions, lambda portion: f"{describe(portion)!r} or a file after it")
