"""Progress of long steps in the run's log: how many, how fast, how long to go."""

import time
from collections.abc import Callable
from logging import Logger

from knowledge_pipeline.stages.progress import ProgressCallback, StagePace

_INTERVAL_S = 5.0


def build_progress_report(
    log: Logger, source: str, *, clock: Callable[[], float] = time.monotonic
) -> ProgressCallback:
    """A report that logs a line every five seconds of a stage, and none for quick work.

    `shop: chunks 1200 of 4000, 80 a second, 35 s left`; no rate before the second report.
    """
    paces: dict[str, StagePace] = {}
    logged_at = 0.0

    def report(stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
        nonlocal logged_at
        now = clock()
        if stage not in paces:  # the source may have waited for others between two stages
            logged_at = now
        pace = paces.setdefault(stage, StagePace(now, done, total, share))
        if now - logged_at < _INTERVAL_S:
            return
        logged_at = now
        left = pace.estimate_seconds_left(now, done, total, share)
        parts = [f"{done} of {total}" if total is not None else f"{done}"]
        if rate := pace.compute_rate(now, done):
            parts.append(f"{rate:.3g} a second")
        if left is not None:
            parts.append(f"{round(left)} s left")
        log.info(f"{source}: {stage} {', '.join(parts)}")

    return report
