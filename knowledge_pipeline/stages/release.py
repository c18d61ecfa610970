"""Release: makes what the index stage wrote live, if the blocking checks pass."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.checks.check_integrity import unreleased_types
from knowledge_pipeline.checks.check_types import Finding
from knowledge_pipeline.checks.registry import blocking
from knowledge_pipeline.config.settings import Settings, SourceType
from knowledge_pipeline.errors import Busy, ReleaseRefused
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages.context import Stats, measured
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release, live, newest, newest_graph, publish, roll_back


def refresh(lake: Lake, settings: Settings) -> Stats:
    """Release the newest index versions of all spaces together, unless they already are live.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
        Busy: another process writes the index, or is about to write what is missing there.
    """
    with measured("release", "") as stats, lake.index_lock():
        last = live(lake)
        if last is None or (last.tables, last.graph) != (newest(lake), newest_graph(lake)):
            for problem in problems(lake, settings):
                _refuse(problem)
        made = publish(lake, keep=settings.releases.keep)
        now = made or last
        stats.added, stats.unchanged = (1, 0) if made else (0, 1)
        if now:
            stats.seen, stats.rows, stats.version = len(now.tables), now.rows, now.release
    return stats


def rollback(lake: Lake, settings: Settings, release: int) -> Release:
    """Make an earlier release live again.

    Raises:
        NotFound: there is no such release any more.
    """
    with lake.index_lock():
        return roll_back(lake, release, keep=settings.releases.keep)


def problems(lake: Lake, settings: Settings) -> Iterator[Finding]:
    """What forbids a release, looked for one check after the other; the caller holds the index lock."""
    types: list[SourceType] = [*(source.type for source in settings.sources), *unreleased_types(lake)]
    for check in blocking():
        for source_type in dict.fromkeys(types) if not check.types else check.types:
            finding = check.find(lake, settings, source_type)
            if not finding.passed:
                yield finding
    if problem := evaluate.problem(lake, settings):
        yield Finding(False, problem)


def _refuse(problem: Finding) -> None:
    """Raise for what a blocking check found.

    Raises:
        Busy: a refresh is under way that will put it right.
        ReleaseRefused: nothing will by itself.
    """
    if problem.unsettled:
        raise Busy(f"{problem.sentence}: release again when it is done; the last release stays live")
    raise ReleaseRefused(f"{problem.sentence}; the last release stays live: docs/checks.md says what to do")
