"""Writing behind: what was made is written by one thread beside the one that makes the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

WriteTask = Callable[[], None]


@contextmanager
def open_background_writer() -> Iterator[Callable[[WriteTask], None]]:
    """Gives a function that has a piece of work done in another thread, one at a time and in order.

    It waits for the piece before and raises what that one raised, so that at most one piece is under way
    while the next is made, and none is begun after one that failed. What was handed over is done when
    the block ends, also by an error of its own.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="writing") as pool:
        under_way: Future[None] | None = None

        def hand_over(work: WriteTask) -> None:
            nonlocal under_way
            if under_way:
                under_way.result()
            under_way = pool.submit(work)

        yield hand_over
        if under_way:
            under_way.result()
