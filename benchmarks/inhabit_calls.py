"""Which functions of the product a piece of work runs, in every thread; or a command, as a process:

    python -m benchmarks.inhabit_calls FILE ARGUMENT...

runs `knowledge ARGUMENT...` and writes what it ran to FILE, as JSON. Nothing of the product is imported
before the command itself imports it, so that its imports count.
"""

from __future__ import annotations

import atexit
import json
import runpy
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from inspect import CO_GENERATOR
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

PRODUCT = "knowledge_pipeline"


class Call(NamedTuple):
    """The beginning of one function, or the next step of a generator, which begins as often as it goes on."""

    file: str
    name: str
    line: int
    is_generator: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """How much of a package one piece of work passes."""

    files: int = 0
    functions: int = 0  # with a name
    calls: int = 0  # of these, of comprehensions and of bodies of modules; of generators none
    switches: int = 0  # consecutive calls in different files, whatever else runs between them


def count_calls(calls: Iterable[Call]) -> Calls:
    """The figures of calls in their order."""
    calls = list(calls)
    functions = {call for call in calls if not call.name.startswith("<")}
    begun = [call for call in calls if not call.is_generator]
    switches = sum(before.file != after.file for before, after in pairwise(begun))
    return Calls(len({call.file for call in calls}), len(functions), len(begun), switches)


class CallRecorder:
    """Notes calls in this thread and in those that start after it was made, while it is recording."""

    def __init__(self) -> None:
        spec = find_spec(PRODUCT)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(PRODUCT)
        self._prefix = f"{Path(spec.origin).parent}/"
        self._codes: list[CodeType] = []
        self._is_recording = False
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    @contextmanager
    def record(self) -> Generator[None]:
        """Start anew; `calls` are those of the body."""
        self._codes, self._is_recording = [], True
        try:
            yield
        finally:
            self._is_recording = False

    @property
    def calls(self) -> Calls:
        """What the last recording passed."""
        return count_calls(
            Call(code.co_filename, code.co_name, code.co_firstlineno, bool(code.co_flags & CO_GENERATOR))
            for code in self._codes
        )

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self._is_recording and frame.f_code.co_filename.startswith(self._prefix):
            self._codes.append(frame.f_code)


def main() -> None:
    """Run the command; its end is no return: what the product runs at exit counts too."""
    _, file, *arguments = sys.argv
    recorder = CallRecorder()
    atexit.register(lambda: Path(file).write_text(json.dumps(asdict(recorder.calls))))
    sys.argv[1:] = arguments
    with recorder.record():
        runpy.run_module(f"{PRODUCT}.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
