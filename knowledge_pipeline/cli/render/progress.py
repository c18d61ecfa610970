"""Progress of long work: bars on a terminal, a line now and then in a log, nothing for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from knowledge_pipeline.cli.render.screen import Screen

if TYPE_CHECKING:
    from knowledge_pipeline.stages.context import ProgressCallback

    ReportFactory = Callable[["ProgressSubject"], ProgressCallback]

SECONDS_BETWEEN_LINES = 10.0


class ProgressSubject(Protocol):
    """What progress is told of: a source, in most commands."""

    @property
    def id(self) -> str:
        """Shown before the stage."""
        ...


@contextmanager
def show_progress(screen: Screen) -> Iterator[ReportFactory]:
    """Show progress on stderr while inside; what is given makes each source's report."""
    if screen.as_json or screen.quiet:
        yield lambda source: lambda stage, done, total: None
    elif sys.stderr.isatty():
        from knowledge_pipeline.cli.render.progress_bars import show_progress_bars

        with show_progress_bars() as report_for:
            yield report_for
    else:
        lines = ProgressLines(screen.print_note)
        yield lambda source: lambda stage, done, total: lines.report(source.id, stage, done, total)


class ProgressLines:
    """A line at most every ten seconds, with the rate since the stage began and the time left."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._write, self._now = write, now
        self._last_line_at = now()
        self._stage: tuple[str, str] | None = None
        self._stage_started_at, self._done_at_stage_start = 0.0, 0

    def report(self, source: str, stage: str, done: int, total: int | None) -> None:
        """Take a report; write it if the last line was long ago."""
        now = self._now()
        if self._stage != (source, stage):
            self._stage, self._stage_started_at, self._done_at_stage_start = (source, stage), now, done
        if now - self._last_line_at >= SECONDS_BETWEEN_LINES:
            self._last_line_at = now
            rate = (
                (done - self._done_at_stage_start) / (now - self._stage_started_at)
                if now > self._stage_started_at
                else 0.0
            )
            self._write(f"{source}: {stage} {_format_progress(done, total, rate)}")


def _format_progress(done: int, total: int | None, rate: float) -> str:
    if not total:
        return f"{done:,}"
    text = f"{done:,} of {total:,} ({100 * done // total} %)"
    if rate <= 0:
        return text
    return f"{text}, {format_rate(rate)}, {format_duration((total - done) / rate)} left"


def format_rate(per_second: float) -> str:
    """`22/s`, or with two digits where it is slow."""
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.2g}/s"


def format_duration(seconds: float) -> str:
    """`0:21`, `12:05`, `2:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
