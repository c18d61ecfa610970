"""Cuts documents in processes of their own, one for each core: parsers and Python's own code share none.

A child reads pickled portions from its input and answers on its output, in their order. Both ends are
this program, started by it.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.embedding.parallel import count_usable_cores
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.sources.child_process import ChildProcess
from knowledge_pipeline.stages.chunk_rows import ChunkedDocuments, ChunkRowBuilder

MIN_DOCUMENTS = 400  # fewer are cut before the processes have started: a second and a half
MAX_PROCESSES = 8  # of 200 MB each
_PORTIONS_AHEAD = 2  # for each process: what waits in memory

Portion = tuple[list[dict[str, Any]], dict[str, str]]
"""Documents, and the fingerprint of each by its uri."""


class ChunkWorkers:
    """Processes that cut documents of one source, until the end of a `with`."""

    def __init__(self, source: SourceConfig, embedding: EmbeddingSettings) -> None:
        count = min(count_usable_cores(), MAX_PROCESSES)
        self._children = [_Child(source, embedding) for _ in range(count)]
        self._idle: SimpleQueue[_Child] = SimpleQueue()
        for child in self._children:
            self._idle.put(child)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="chunking")

    def __enter__(self) -> ChunkWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True, wait=kind is None)
        for child in self._children:
            child.close()

    def build(self, portions: Iterable[Portion]) -> Iterator[ChunkedDocuments]:
        """What `ChunkRowBuilder.build` gives for each portion, in their order.

        Raises:
            StoreError: a process ended without an answer.
        """
        pending: deque[Future[ChunkedDocuments]] = deque()
        for portion in portions:
            pending.append(self._pool.submit(self._build, portion))
            if len(pending) >= _PORTIONS_AHEAD * len(self._children):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def _build(self, portion: Portion) -> ChunkedDocuments:
        child = self._idle.get()
        try:
            return child.build(portion)
        finally:
            self._idle.put(child)


class _Child(ChildProcess):
    def __init__(self, source: SourceConfig, embedding: EmbeddingSettings) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        super().__init__(
            [sys.executable, "-P", "-W", "ignore", "-m", __name__], environment, own_session=False
        )
        self._settings = pickle.dumps((source, embedding))

    def build(self, portion: Portion) -> ChunkedDocuments:
        """Send a portion, and wait for its rows."""
        with self._lock:
            is_new = self._child is None
            child = self._ensure_started()
            assert child.stdin is not None and child.stdout is not None
            try:
                if is_new:
                    child.stdin.write(self._settings)
                pickle.dump(portion, child.stdin)
                child.stdin.flush()
                answer = pickle.load(child.stdout)  # noqa: S301 - from our own process
            except (BrokenPipeError, EOFError, pickle.UnpicklingError):
                self._stop()
                first, more = portion[0][0]["uri"], len(portion[0]) - 1
                place = f"{first!r} or one of the {more} after it" if more else repr(first)
                raise StoreError(
                    f"a process that cuts documents ended unexpectedly, at {place}: refresh again; "
                    "if it does so again, exclude that document"
                ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(requests: IO[bytes], responses: IO[bytes]) -> None:
    """Answer until the input ends."""
    builder = ChunkRowBuilder(*pickle.load(requests))  # noqa: S301 - from our own process
    while True:
        try:
            portion: Portion = pickle.load(requests)  # noqa: S301 - from our own process
        except EOFError:
            return
        try:
            answer: object = builder.build(*portion)
        except Exception as error:  # noqa: BLE001 - raised again where the portion came from
            answer = error
        try:
            framed = pickle.dumps(answer)
        except (pickle.PicklingError, TypeError, AttributeError):
            framed = pickle.dumps(RuntimeError(str(answer)))
        responses.write(framed)
        responses.flush()


if __name__ == "__main__":
    own = os.dup(1)
    os.dup2(2, 1)  # what a parser prints must not end up between the answers
    with os.fdopen(own, "wb") as answers:
        _serve(sys.stdin.buffer, answers)
