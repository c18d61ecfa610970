"""Writes in the background: one thread commits what is ready while the caller builds the next."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

WriteTask = Callable[[], None]


@contextmanager
def open_background_writer() -> Generator[Callable[[WriteTask], None]]:
    """Yields a function that runs a task in another thread, one at a time and in order.

    The function waits for the task before and raises its error, so that at most one task runs while the
    caller builds the next, and none starts after one that failed. When the block ends, even by an error,
    every task has ended.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="writing") as pool:
        running: Future[None] | None = None

        def submit(task: WriteTask) -> None:
            nonlocal running
            if running:
                running.result()
            running = pool.submit(task)

        yield submit
        if running:
            running.result()
