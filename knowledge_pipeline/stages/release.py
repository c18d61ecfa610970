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
from knowledge_pipeline.store.events.log import record_release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import (
    Release,
    find_live_release,
    newest_graph_versions,
    newest_index_versions,
    publish_release,
    restore_release,
)


def refresh(lake: Lake, settings: Settings, *, unpin: bool = False) -> Stats:
    """Release the newest index versions of all spaces together, unless they already are live.

    While a pinned release is live nothing is released, and a note says so; `unpin` ends the pin.

    Raises:
        ReleaseRefused: a check failed; the last release stays live, and pinned if it was.
        Busy: another process writes the index, or refreshes what is missing there.
    """
    with measure_stage("release", "") as stats, lake.lock_index():
        last, published = find_live_release(lake), None
        if last and last.pin and not unpin:
            stats.notes[f"{last.pin}: refreshes publish nothing until `knowledge releases --unpin`"] += 1
        else:
            _require_sound_index(lake, settings, last)
            published = publish_release(lake, keep=settings.releases.keep)
            if published:
                record_release(lake, published)
        stats.added, stats.unchanged = (1, 0) if published else (0, 1)
        if live := published or last:
            stats.seen, stats.rows, stats.version = len(live.tables), live.rows, live.release
            stats.unembedded = live.unembedded
    return stats


def _require_sound_index(lake: Lake, settings: Settings, last: Release | None) -> None:
    newest = newest_index_versions(lake), newest_graph_versions(lake)
    if last and (last.tables, last.graph) == newest:
        return
    for problem in iter_release_problems(lake, settings):
        live = "the last release stays live"
        if problem.may_recover:
            raise Busy(f"{problem.message}: release again when it is done; {live}")
        raise ReleaseRefused(f"{problem.message}; {live}: docs/checks.md says what to do")


def roll_back_release(lake: Lake, settings: Settings, release: int, *, pin: bool = True) -> Release:
    """Make an earlier release live again; pinned, refreshes publish nothing until someone unpins it.

    Raises:
        NotFound: there is no such release any more.
    """
    with lake.lock_index():
        return restore_release(lake, release, keep=settings.releases.keep, pin=pin)


def iter_release_problems(lake: Lake, settings: Settings) -> Iterator[CheckResult]:
    """What forbids a release, one check after the other; the caller holds the index lock."""
    types: list[SourceType] = [*(source.type for source in settings.sources), *list_unreleased_types(lake)]
    for check in list_blocking_checks():
        for source_type in check.source_types or dict.fromkeys(types):
            result = check.run(lake, settings, source_type)
            if not result.passed:
                yield result
    if problem := evaluate.find_release_problem(lake, settings):
        yield CheckResult(False, problem)
