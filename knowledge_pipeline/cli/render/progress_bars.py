"""Progress bars on a terminal, one at a time: the stage that a source is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from knowledge_pipeline.cli.render.progress import format_rate

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.progress import ReportFactory


class _RateColumn(ProgressColumn):
    """Documents, chunks or texts a second."""

    def render(self, task: Task) -> Text:
        return Text(format_rate(task.speed) if task.speed else "", style="progress.data.speed")


@contextmanager
def show_progress_bars(console: Console | None = None) -> Iterator[ReportFactory]:
    """Show bars on stderr while inside; they vanish at the end."""
    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[source]:<20} {task.fields[stage]:<10}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        transient=True,
    )
    with shown:
        current = _StageBar(shown)
        yield lambda source: lambda stage, done, total: current.report(source.id, stage, done, total)


class _StageBar:
    """The one bar: a new one when the source or the stage changes."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stage = ("", "starting")
        self._task: TaskID = progress.add_task("", total=None, source="", stage="starting")

    def report(self, source: str, stage: str, done: int, total: int | None) -> None:
        """Move the bar."""
        if self._stage != (source, stage):
            self._stage = (source, stage)
            self._progress.remove_task(self._task)
            self._task = self._progress.add_task("", total=total, source=source, stage=stage)
        self._progress.update(self._task, completed=done, total=total)
