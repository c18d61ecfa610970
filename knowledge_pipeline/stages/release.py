"""Release: makes what the index stage wrote live, if the blocking checks pass."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.checks.check_integrity import list_unreleased_types
from knowledge_pipeline.checks.check_types import CheckResult
from knowledge_pipeline.checks.registry import list_blocking_checks
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.errors import Busy, ReleaseRefused
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages.context import Stats, measure_stage
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import (
    Release,
    find_live_release,
    newest_graph_versions,
    newest_index_versions,
    publish_release,
    restore_release,
)


def refresh(lake: Lake, settings: Settings) -> Stats:
    """Release the newest index versions of all spaces together, unless they already are live.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
        Busy: another process writes the index, or is about to write what is missing there.
    """
    with measure_stage("release", "") as stats, lake.lock_index():
        last = find_live_release(lake)
        if last is None or (last.tables, last.graph) != (
            newest_index_versions(lake),
            newest_graph_versions(lake),
        ):
            for problem in iter_release_problems(lake, settings):
                _raise_refusal(problem)
        made = publish_release(lake, keep=settings.releases.keep)
        now = made or last
        stats.added, stats.unchanged = (1, 0) if made else (0, 1)
        if now:
            stats.seen, stats.rows, stats.version = len(now.tables), now.rows, now.release
    return stats


def roll_back_release(lake: Lake, settings: Settings, release: int) -> Release:
    """Make an earlier release live again.

    Raises:
        NotFound: there is no such release any more.
    """
    with lake.lock_index():
        return restore_release(lake, release, keep=settings.releases.keep)


def iter_release_problems(lake: Lake, settings: Settings) -> Iterator[CheckResult]:
    """What forbids a release, looked for one check after the other; the caller holds the index lock."""
    types: list[SourceType] = [*(source.type for source in settings.sources), *list_unreleased_types(lake)]
    for check in list_blocking_checks():
        for source_type in dict.fromkeys(types) if not check.source_types else check.source_types:
            finding = check.run(lake, settings, source_type)
            if not finding.passed:
                yield finding
    if problem := evaluate.find_release_problem(lake, settings):
        yield CheckResult(False, problem)


def _raise_refusal(finding: CheckResult) -> None:
    """Raise for what a blocking check found.

    Raises:
        Busy: a refresh is under way that will put it right.
        ReleaseRefused: nothing will by itself.
    """
    if finding.may_recover:
        raise Busy(f"{finding.message}: release again when it is done; the last release stays live")
    raise ReleaseRefused(f"{finding.message}; the last release stays live: docs/checks.md says what to do")
