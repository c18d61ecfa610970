"""Parsing files in a process of its own: a file that crashes, hangs or bloats a parser ends only itself.

The child reads frames from its input and answers on its output: a line of JSON, and for
a request the file's bytes after it. It keeps running from file to file.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import asdict
from datetime import datetime
from typing import IO, Any

from knowledge_pipeline.child_process import ChildProcess
from knowledge_pipeline.errors import DocumentSkipped, ParserEnded
from knowledge_pipeline.extraction.extraction import extract, finish, is_plain_text, run_file_extractor
from knowledge_pipeline.extraction.text_decoding import ExtractedText

MAX_CPU_S = 120.0  # of the processor, for one file: what others do on the machine does not count
MAX_WAIT_S = 600.0  # for one file: a parser that waits, or a machine that does nothing else for it
_MAX_MEMORY_BYTES = 4 << 30


class ExtractionWorker(ChildProcess):
    """Runs `extract` in a child process, started at the first file that needs a parser."""

    def __init__(
        self,
        *,
        extractor: str | None = None,
        encoding: str | None = None,
        max_cpu_s: float = MAX_CPU_S,
        max_wait_s: float = MAX_WAIT_S,
    ) -> None:
        """`extractor`: a name of `files.extractor`, which is asked before the usual parsers."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        super().__init__(
            [sys.executable, "-P", "-W", "ignore", "-m", __name__], environment, own_session=False
        )
        self._extractor, self._encoding = extractor, encoding
        self._max_cpu_s, self._max_wait_s = max_cpu_s, max_wait_s
        self.cpu_s = 0.0
        """Of the processor, that the parser took for the last file; at most, where it gave no answer."""

    def __call__(self, name: str, payload: bytes) -> ExtractedText:
        """As `extract`; a file that takes too long or ends the parser is skipped, too.

        Raises:
            DocumentSkipped: as `extract`.
            ParserEnded: there is no answer.
        """
        self.cpu_s = 0.0
        if self._extractor is None and is_plain_text(name):
            return extract(name, payload, self._encoding)
        with self._lock:
            answer = self._request(name, payload)
        if "skipped" in answer:
            raise DocumentSkipped(answer["skipped"])
        written = answer.pop("last_modified")
        return ExtractedText(**answer, last_modified=datetime.fromisoformat(written) if written else None)

    def _request(self, name: str, payload: bytes) -> dict[str, Any]:
        child = self._ensure_started()
        assert child.stdin is not None and child.stdout is not None
        request = {
            "name": name,
            "bytes": len(payload),
            "extractor": self._extractor,
            "encoding": self._encoding,
            "cpu_s": self._max_cpu_s,
        }
        late, started_s = threading.Event(), time.monotonic()
        watchdog = threading.Timer(self._max_wait_s, lambda: (late.set(), child.kill()))
        watchdog.start()
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.write(payload)
            child.stdin.flush()
            answer = child.stdout.readline()
        except BrokenPipeError:
            answer = b""
        finally:
            watchdog.cancel()
        if answer.endswith(b"\n"):
            self.cpu_s, response = json.loads(answer)
            return response
        self.cpu_s = min(time.monotonic() - started_s, self._max_cpu_s)
        self._stop()
        if late.is_set():
            raise ParserEnded(f"its parser did not end within {self._max_wait_s:g} seconds")
        if child.returncode == -signal.SIGPROF:
            raise ParserEnded(f"its parser took more than {self._max_cpu_s:g} seconds of the processor")
        raise ParserEnded("its parser crashed, or needed too much memory")


def _serve(requests: IO[bytes], responses: IO[bytes]) -> None:
    for line in requests:
        request = json.loads(line)
        payload, started_s = requests.read(request["bytes"]), time.process_time()
        try:
            extractor, name = request["extractor"], request["name"]
            with _limit_cpu(request["cpu_s"]):
                own = run_file_extractor(extractor, name, payload) if extractor else None
                encoding = request["encoding"]
                answer = asdict(extract(name, payload, encoding) if own is None else finish(own, payload))
        except DocumentSkipped as reason:
            answer = {"skipped": str(reason)}
        answered = [time.process_time() - started_s, answer]
        responses.write(json.dumps(answered, default=datetime.isoformat).encode() + b"\n")
        responses.flush()


@contextlib.contextmanager
def _limit_cpu(max_cpu_s: float) -> Generator[None]:
    """End this process by a signal, whatever code it runs, once it has used so much of the processor."""
    signal.setitimer(signal.ITIMER_PROF, max_cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _limit_memory()
    own = os.dup(1)
    os.dup2(2, 1)  # what a parser prints must not end up between the frames
    with os.fdopen(own, "wb") as answers:
        _serve(sys.stdin.buffer, answers)
