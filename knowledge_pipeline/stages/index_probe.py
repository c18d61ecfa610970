"""Asks each index of a table for rows that are there, in a process of its own.

Lance checks no sums of an index: what reads bytes that a disk has zeroed may find other rows, or abort the
whole process, which nothing in it can stop.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any

from knowledge_pipeline.child_process import ChildProcess
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store.indexes import find_index_problem
from knowledge_pipeline.store.lance_internals import describe_location, open_uncached

_PROBED_ROWS = 64  # that each index is asked for
_ENDS_READER = "it cannot be read: it ends the process that reads it"


class IndexProbes(ChildProcess):
    """Finds out which indexes are damaged. The process starts with the first table that has an index."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-P", "-W", "ignore", "-m", __name__]
        super().__init__(command, environment, own_session=False)

    def find_damaged(self, dataset: Any, *, has_rows: bool) -> dict[str, str]:
        """Columns whose index is damaged, each with what is wrong.

        Args:
            dataset: a version of a table.
            has_rows: its rows can be read, so that indexes can be asked for them.

        Raises:
            StoreError: an index could not be read for another reason, such as a bucket that did not answer.
        """
        columns = [index.field_names[0] for index in dataset.describe_indices()]
        damaged, done = dict[str, str](), 0
        request = {**describe_location(dataset), "rows": _PROBED_ROWS if has_rows else 0}
        with self._lock:
            while done < len(columns):
                child = self._ensure_started()
                assert child.stdin is not None and child.stdout is not None
                child.stdin.write(json.dumps({**request, "first": done}).encode() + b"\n")
                child.stdin.flush()
                for column in columns[done:]:
                    line = child.stdout.readline()
                    problem = json.loads(line) if line.endswith(b"\n") else _ENDS_READER
                    done += 1
                    if isinstance(problem, list):
                        raise StoreError(
                            f"the index of {column!r} in {dataset.uri} was not read: {problem[0]}"
                        )
                    if problem:
                        damaged[column] = problem
                    if problem == _ENDS_READER:
                        self._stop()
                        break
        return damaged


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """For each index what is wrong with it: empty, a sentence, or the error of something else in a list."""
    for line in requests:
        request = json.loads(line)
        dataset = open_uncached(request["uri"], request["version"], request["options"])
        for index in dataset.describe_indices()[request["first"] :]:
            try:
                answer: str | list[str] = find_index_problem(dataset, index, request["rows"])
            except BaseException as error:  # noqa: BLE001 - Rust's panic is no Exception
                answer = [f"{type(error).__name__}: {str(error)[:200]}"]
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()


if __name__ == "__main__":
    own = os.dup(1)
    os.dup2(2, 1)  # what Lance prints must not end up between the answers
    with os.fdopen(own, "wb") as output:
        _serve(sys.stdin.buffer, output)
