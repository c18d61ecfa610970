"""Progress of long steps in the run's log: how many, how fast, how long to go."""

import time
from collections.abc import Callable
from logging import Logger

from knowledge_pipeline.stages.context import ProgressCallback

_INTERVAL_S = 5.0


def build_progress_report(
    log: Logger, source: str, *, clock: Callable[[], float] = time.monotonic
) -> ProgressCallback:
    """A report that logs a line every five seconds, and none for quick work.

    `shop: chunks 1200 of 4000, 80 a second, 35 s left`; no rate before the second line.
    """
    started: dict[str, float] = {}
    logged_at = clock()

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal logged_at
        now = clock()
        seconds = now - started.setdefault(stage, now)
        if now - logged_at < _INTERVAL_S:
            return
        logged_at = now
        rate = done / seconds if seconds > 0 else 0.0
        parts = [f"{done} of {total}" if total is not None else f"{done}"]
        if rate:
            parts.append(f"{rate:.3g} a second")
        if rate and total is not None:
            parts.append(f"{round((total - done) / rate)} s left")
        log.info(f"{source}: {stage} {', '.join(parts)}")

    return report
