"""Work that is counted: a clock tells as much of the machine as of the code."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_audited: list[tuple[frozenset[str], list[tuple[str, Any]]]] = []
_hooked = threading.Lock()  # taken by the first to audit: a hook cannot be taken away again


def steps(work: Callable[[], object]) -> int:
    """Lines of Python that the work runs in this thread, each turn of a loop again, and calls of functions.

    What a function of C does within is one step, however long it takes.
    """
    count = 0

    def line(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += 1
        return line

    def call(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event == "c_call"

    traced, profiled = sys.gettrace(), sys.getprofile()
    sys.setprofile(call)
    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(traced)
        sys.setprofile(profiled)
    return count


def calls(work: Callable[[], object]) -> Counter[str]:
    """How often the work calls each function of C in this thread, as `DirEntry.stat` or `stat`."""
    found: Counter[str] = Counter()

    def call(frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            found[arg.__qualname__] += 1

    profiled = sys.getprofile()
    sys.setprofile(call)
    try:
        work()
    finally:
        sys.setprofile(profiled)
    return found


@contextmanager
def audited(*events: str) -> Iterator[list[tuple[str, Any]]]:
    """What every thread asks of the system meanwhile: events of Python's audit table, with their arguments.

    Table: https://docs.python.org/3/library/audit_events.html
    """
    if _hooked.acquire(blocking=False):
        sys.addaudithook(_note)
    this = (frozenset(events), list[tuple[str, Any]]())
    _audited.append(this)
    try:
        yield this[1]
    finally:
        _audited.remove(this)


def _note(event: str, arguments: Any, audited: list[Any] = _audited) -> None:  # bound: it outlives the module
    for events, seen in audited:
        if event in events:
            seen.append((event, arguments))
