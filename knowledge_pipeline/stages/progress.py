"""How far a stage is, and how long the rest of it takes."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from knowledge_pipeline.store.progress import SourceProgress


class ProgressCallback(Protocol):
    """Receives how far a stage is."""

    def __call__(self, stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
        """Take a report.

        Args:
            stage: its name.
            done: how many are done.
            total: how many there are; None: unknown.
            share: of the work that is done, in [0, 1], where some take longer than others; None: as counted.
        """
        ...


def ignore_progress(stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
    """Report nothing."""


class StagePace:
    """How fast a stage goes since its first report: a model is loaded before that, and only once."""

    def __init__(self, at_s: float, done: int, total: int | None, share: float | None) -> None:
        self._at_s, self._done, self._share = at_s, done, _share_of(done, total, share)

    def compute_rate(self, at_s: float, done: int) -> float:
        """How many a second; 0 at the first report."""
        return (done - self._done) / (at_s - self._at_s) if at_s > self._at_s else 0.0

    def estimate_seconds_left(
        self, at_s: float, done: int, total: int | None, share: float | None
    ) -> float | None:
        """At the pace so far; None while nothing tells."""
        now = _share_of(done, total, share)
        if now is None or self._share is None or now <= self._share:
            return None
        return (at_s - self._at_s) * (1 - now) / (now - self._share)


class PublishedProgress:
    """The progress of one source, passed on, and shown to other processes while the source is refreshed."""

    def __init__(self, folder: Path, source: str, report: ProgressCallback) -> None:
        self._shown = SourceProgress(folder, source)
        self._passed_to = report
        self._paces: dict[str, StagePace] = {}

    def report(self, stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
        """See `ProgressCallback`."""
        self._passed_to(stage, done, total, share)
        now_s = time.monotonic()
        pace = self._paces.setdefault(stage, StagePace(now_s, done, total, share))
        left_s = pace.estimate_seconds_left(now_s, done, total, share)
        self._shown.report(stage, done, total, pace.compute_rate(now_s, done), left_s)

    @contextmanager
    def show_while_running(self) -> Generator[None]:
        """Show it while inside."""
        self._shown.show()
        try:
            yield
        finally:
            self._shown.hide()


def _share_of(done: int, total: int | None, share: float | None) -> float | None:
    return share if share is not None else done / total if total else None
