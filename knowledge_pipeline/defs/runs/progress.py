"""Progress of long steps in the run's log: how many, how fast, how long still."""

import time
from collections.abc import Callable
from logging import Logger

from knowledge_pipeline.stages.context import ProgressCallback

_INTERVAL_S = 5.0


def build_progress_report(
    log: Logger, source: str, *, clock: Callable[[], float] = time.monotonic
) -> ProgressCallback:
    """A report that writes a line every five seconds, and none for quick work."""
    started: dict[str, float] = {}
    written = clock()

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal written
        now = clock()
        begun = started.setdefault(stage, now)
        if now - written >= _INTERVAL_S:
            written = now
            log.info(f"{source}: {stage} {_format_progress(done, total, seconds=now - begun)}")

    return report


def _format_progress(done: int, total: int | None, *, seconds: float) -> str:
    """`1200 of 4000, 80 a second, 35 s left`; without a rate while there is nothing to tell it from."""
    rate = done / seconds if seconds > 0 else 0.0
    parts = [f"{done} of {total}" if total is not None else f"{done}"]
    if rate:
        parts.append(f"{rate:.3g} a second")
    if rate and total is not None:
        parts.append(f"{round((total - done) / rate)} s left")
    return ", ".join(parts)
