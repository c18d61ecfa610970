"""Progress of long work: bars on a terminal, a line now and then in a log, nothing for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from knowledge_pipeline.cli.screen import Screen
from knowledge_pipeline.stages.progress import StagePace
from knowledge_pipeline.times import format_duration, format_rate

if TYPE_CHECKING:
    from knowledge_pipeline.stages.progress import ProgressCallback

    ReportFactory = Callable[[str], ProgressCallback]  # by what is shown before the stage: a source's id

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def show_progress(screen: Screen) -> Generator[ReportFactory]:
    """Show progress on stderr while inside; yields what makes each source's report."""
    if screen.as_json or screen.quiet:
        yield lambda source: lambda stage, done, total, share=None, /: None
    elif sys.stderr.isatty():
        with _show_bars() as report_for:
            yield report_for
    else:
        lines = ProgressLines(screen.print_note)
        yield lambda source: partial(lines.report, source)


@contextmanager
def _show_bars() -> Generator[ReportFactory]:
    """One bar at a time, of the stage that a source is in; it vanishes at the end."""
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class TimeLeftColumn(progress.ProgressColumn):
        """By the work that is left, which texts of unlike length do not count alike."""

        def render(self, task: progress.Task) -> Text:
            left = task.fields["left"]
            return Text("-:--" if left is None else format_duration(left), style="progress.remaining")

    class RateColumn(progress.ProgressColumn):
        """Documents, chunks or texts a second."""

        def render(self, task: progress.Task) -> Text:
            return Text(format_rate(task.speed) if task.speed else "", style="progress.data.speed")

    bars = progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.fields[source]:<20} {task.fields[stage]:<10}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        RateColumn(),
        progress.TimeElapsedColumn(),
        TimeLeftColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    current = ("", "starting")
    task = bars.add_task("", total=None, source="", stage="starting", left=None)
    pace = StagePace(time.monotonic(), 0, None, None)
    lock = Lock()  # some sources are read side by side

    def report(source: str, stage: str, done: int, total: int | None, share: float | None = None) -> None:
        nonlocal current, task, pace
        now = time.monotonic()
        with lock:
            if current != (source, stage):
                current, pace = (source, stage), StagePace(now, done, total, share)
                bars.remove_task(task)
                task = bars.add_task("", total=total, source=source, stage=stage, left=None)
            left = pace.estimate_seconds_left(now, done, total, share)
            bars.update(task, completed=done, total=total, left=left)

    with bars:
        yield lambda source: partial(report, source)


class ProgressLines:
    """A line at most every ten seconds, with the rate since the stage began and the time left."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._write, self._now = write, now
        self._last_line_at = now()
        self._stage: tuple[str, str] | None = None
        self._pace = StagePace(0.0, 0, None, None)

    def report(
        self, source: str, stage: str, done: int, total: int | None, share: float | None = None
    ) -> None:
        """Take a report; write it if the last line was long ago."""
        now = self._now()
        if self._stage != (source, stage):
            self._stage, self._pace = (source, stage), StagePace(now, done, total, share)
        if now - self._last_line_at < SECONDS_BETWEEN_LINES:
            return
        self._last_line_at = now
        left = self._pace.estimate_seconds_left(now, done, total, share)
        progress = f"{done:,} of {total:,} ({100 * done // total} %)" if total else f"{done:,}"
        if left is not None:
            progress += f", {format_rate(self._pace.compute_rate(now, done))}, {format_duration(left)} left"
        self._write(f"{source}: {stage} {progress}")
