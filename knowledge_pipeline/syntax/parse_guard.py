"""Tries a parse in a process of its own, which ends where the parser does not.

Where a text ends within thousands of things that it began, tree-sitter takes quadratic time and memory
between two reports of progress, so that nothing in the same process can stop it: 200 kB of `A<` in Java take
minutes, of `a=>` most of an hour. A sound text is parsed twice, which takes a few milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from contextlib import suppress
from typing import IO

from cachetools import LRUCache

from knowledge_pipeline.child_process import ChildProcess
from knowledge_pipeline.syntax.grammars import parse_root

MAX_CPU_S = 5
_MAX_MEMORY_BYTES = 2 << 30
_MAX_VERDICTS = 10_000
_MIN_BYTES = 2_000  # a smaller text takes a third of a second at most


class ParseGuard(ChildProcess):
    """Says whether a text can be parsed; the process starts with the first text that is not small."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        super().__init__(
            [sys.executable, "-P", "-W", "ignore", "-m", __name__], environment, own_session=False
        )
        # a file is cut, then its facts are read
        self._verdicts = LRUCache[tuple[str, bytes], bool](_MAX_VERDICTS)

    def can_parse(self, text: str, language: str) -> bool:
        """Whether parsing ends, within limits of its own and `MAX_CPU_S` seconds of the processor."""
        if len(text) <= _MIN_BYTES:
            return True
        source = text.encode("utf-8", "replace")
        key = language, hashlib.sha256(source).digest()
        with self._lock:
            if (verdict := self._verdicts.get(key)) is not None:
                return verdict
            child = self._ensure_started()
            assert child.stdin is not None and child.stdout is not None
            try:
                child.stdin.write(json.dumps([language, len(source)]).encode() + b"\n")
                child.stdin.write(source)
                child.stdin.flush()
                answer = child.stdout.readline()
            except BrokenPipeError:
                answer = b""
            if not answer:
                self._stop()
            self._verdicts[key] = answer == b"parsed\n"
            return self._verdicts[key]


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until the input ends."""
    for line in requests:
        language, size = json.loads(line)
        source = requests.read(size)
        _set_limits()
        answers.write(b"parsed\n" if parse_root(source, language) is not None else b"given up\n")
        answers.flush()


def _set_limits() -> None:
    """End this process, whatever it does, when it has used so much more of the processor, or of memory."""
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used) + MAX_CPU_S, hard))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
