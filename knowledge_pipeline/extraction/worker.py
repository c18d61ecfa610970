"""Parsing files in a process of its own: a file that crashes, hangs or bloats a parser ends only itself.

The child reads frames from its input and answers on its output: a line of JSON, and for
a request the file's bytes after it. It keeps running from file to file.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from dataclasses import asdict
from datetime import datetime
from typing import IO, Any

from knowledge_pipeline.child_process import ChildProcess
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract, finish, is_plain_text, run_file_extractor
from knowledge_pipeline.extraction.text_decoding import ExtractedText

TIMEOUT_S = 120.0
_MAX_MEMORY_BYTES = 4 << 30


class ExtractionWorker(ChildProcess):
    """Runs `extract` in a child process, started at the first file that needs a parser."""

    def __init__(self, timeout_s: float = TIMEOUT_S, *, extractor: str | None = None) -> None:
        """`extractor`: a name of `files.extractor`, which is asked before the usual parsers."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        super().__init__(
            [sys.executable, "-P", "-W", "ignore", "-m", __name__], environment, own_session=False
        )
        self._timeout_s, self._extractor = timeout_s, extractor

    def __call__(self, name: str, payload: bytes) -> ExtractedText:
        """As `extract`; a file that takes too long or ends the parser is skipped, too."""
        if self._extractor is None and is_plain_text(name):
            return extract(name, payload)
        with self._lock:
            answer = self._request(name, payload)
        if "skipped" in answer:
            raise DocumentSkipped(answer["skipped"])
        written = answer.pop("last_modified")
        return ExtractedText(**answer, last_modified=datetime.fromisoformat(written) if written else None)

    def _request(self, name: str, payload: bytes) -> dict[str, Any]:
        child = self._ensure_started()
        assert child.stdin is not None and child.stdout is not None
        request = {"name": name, "bytes": len(payload), "extractor": self._extractor}
        late = threading.Event()
        watchdog = threading.Timer(self._timeout_s, lambda: (late.set(), child.kill()))
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
            return json.loads(answer)
        self._stop()
        if late.is_set():
            return {"skipped": f"its parser took more than {self._timeout_s:g} seconds"}
        return {"skipped": "its parser crashed, or needed too much memory"}


def _serve(requests: IO[bytes], responses: IO[bytes]) -> None:
    """Answer until the input ends."""
    for line in requests:
        request = json.loads(line)
        payload = requests.read(request["bytes"])
        try:
            extractor, name = request["extractor"], request["name"]
            own = run_file_extractor(extractor, name, payload) if extractor else None
            answer = asdict(extract(name, payload) if own is None else finish(own, payload))
        except DocumentSkipped as reason:
            answer = {"skipped": str(reason)}
        responses.write(json.dumps(answer, default=datetime.isoformat).encode() + b"\n")
        responses.flush()


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
