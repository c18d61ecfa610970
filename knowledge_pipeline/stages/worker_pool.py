"""Runs work of this program in processes of their own, one for each core: Python's own code shares none.

A child reads pickled requests from its input and answers on its output, in their order. Both ends are this
program, started by it. A child that nobody reads from any more ends at the end of its input.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, TypeVar

from knowledge_pipeline.child_process import ChildProcess
from knowledge_pipeline.embedding.parallel import count_usable_cores
from knowledge_pipeline.errors import StoreError

Portion = TypeVar("Portion")
Answer = TypeVar("Answer")

_PORTIONS_AHEAD = 2  # for each process: what waits in memory
_PORTIONS_PER_COLLECTION = 64  # what few cycles the work leaves are collected that seldom


class WorkerPool:
    """Processes of one stage, started with the first portion, until the end of a `with`."""

    def __init__(self, activity: str, *, max_processes: int) -> None:
        """Start nothing yet.

        Args:
            activity: what a process does, for messages: "reads code".
            max_processes: of which there may be fewer, where there are fewer cores.
        """
        self._activity = activity
        self._count = min(count_usable_cores(), max_processes)
        self._children: list[_Child] = []
        self._idle: SimpleQueue[_Child] = SimpleQueue()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.close()

    def map(
        self,
        work: Callable[[Portion], Answer],
        portions: Iterable[Portion],
        describe: Callable[[Portion], str],
    ) -> Iterator[Answer]:
        """What the work gives for each portion, in their order.

        Args:
            work: a function, or an object, that can be pickled; each process makes it once.
            portions: are pickled; a few for each process wait in memory.
            describe: names a portion in messages.

        Raises:
            StoreError: a process ended without an answer.
            Exception: what the work raised.
        """
        if not self._children:
            self._children = [_Child() for _ in range(self._count)]
            for child in self._children:
                self._idle.put(child)
        pickled = pickle.dumps(work)

        def run(portion: Portion) -> Answer:
            child = self._idle.get()
            try:
                return child.request(pickled, portion)
            except _ChildEnded:
                raise StoreError(
                    f"a process that {self._activity} ended unexpectedly, at {describe(portion)}: refresh "
                    "again; if it does so again, exclude that document"
                ) from None
            finally:
                self._idle.put(child)

        pool = ThreadPoolExecutor(self._count, thread_name_prefix="worker-pool")
        is_whole = False
        try:
            pending: deque[Future[Answer]] = deque()
            for portion in portions:
                pending.append(pool.submit(run, portion))
                if len(pending) >= _PORTIONS_AHEAD * self._count:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
            is_whole = True
        finally:
            pool.shutdown(cancel_futures=True, wait=is_whole)


class _ChildEnded(Exception):
    """A child gave no answer."""


class _Child(ChildProcess):
    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        super().__init__(
            [sys.executable, "-P", "-W", "ignore", "-m", __name__], environment, own_session=False
        )
        self._work: bytes | None = None  # that it has
        self._is_closed = False

    def close(self) -> None:
        """End the process for good: a thread that has another portion after a failure must not start it."""
        with self._lock:
            self._is_closed = True
            self._stop()

    def request(self, work: bytes, portion: object) -> Any:
        """Send a portion, and wait for the answer."""
        with self._lock:
            if self._is_closed:
                raise _ChildEnded
            child = self._ensure_started()
            assert child.stdin is not None and child.stdout is not None
            try:
                pickle.dump((None if work == self._work else work, portion), child.stdin)
                child.stdin.flush()
                answer = pickle.load(child.stdout)  # noqa: S301 - from our own process
            except (BrokenPipeError, EOFError, pickle.UnpicklingError):
                self._stop()
                self._work = None
                raise _ChildEnded from None
            self._work = None if isinstance(answer, Exception) else work
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(requests: IO[bytes], responses: IO[bytes]) -> None:
    """Answer until the input ends."""
    work: Any = None
    gc.disable()  # a tenth of the time, for hardly anything in a cycle
    served = 0
    while True:
        try:
            request: tuple[bytes | None, Any] = pickle.load(requests)  # noqa: S301 - from our own process
        except EOFError:
            return
        try:
            changed, portion = request
            if changed is not None:
                work = pickle.loads(changed)  # noqa: S301 - from our own process
            answer: object = work(portion)
        except Exception as error:  # noqa: BLE001 - raised again where the portion came from
            answer = error
        try:
            framed = pickle.dumps(answer)
        except (pickle.PicklingError, TypeError, AttributeError):
            framed = pickle.dumps(RuntimeError(str(answer)))
        responses.write(framed)
        responses.flush()
        served += 1
        if served % _PORTIONS_PER_COLLECTION == 0:
            gc.collect()


if __name__ == "__main__":
    own = os.dup(1)
    os.dup2(2, 1)  # what a parser prints must not end up between the answers
    with os.fdopen(own, "wb") as answers:
        _serve(sys.stdin.buffer, answers)
