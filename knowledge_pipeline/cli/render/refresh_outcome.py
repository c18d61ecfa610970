"""What a refresh did, for people as a table and for programs as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.exit_codes import exit_code_of_failures, print_error
from knowledge_pipeline.cli.render.terminal_text import one_line, truncate
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.errors import TransientError

if TYPE_CHECKING:
    from knowledge_pipeline.stages.context import Stats
    from knowledge_pipeline.stages.pipeline import RefreshOutcome

_MAX_REASONS_SHOWN = 5
_RELEASE_KEY = "release"  # what the outcome calls a failure of the release
_COUNT_FIELDS = ("seen", "added", "changed", "removed", "unchanged")


def show_outcome(session: Session, outcome: RefreshOutcome, **beside: Any) -> int:
    """Tell what was done, and return the exit code; `beside` is told to programs as well."""
    summaries = list(_summarize_sources(outcome))
    screen = session.screen
    if screen.as_json:
        screen.print_json({**beside, **outcome_to_json(outcome, summaries)})
    else:
        _show_sources(session, summaries)
        for source, error in outcome.failures.items():
            print_error(f"{source}: {error}", kind="", code=0, as_json=False)
        screen.print_text(_format_release(outcome))
    return _exit_code_of(outcome)


def _exit_code_of(outcome: RefreshOutcome) -> int:
    """By the sources that failed: a release is refused because of them, and follows them."""
    of_sources = [error for source, error in outcome.failures.items() if source != _RELEASE_KEY]
    return exit_code_of_failures(of_sources or outcome.failures.values())


def outcome_to_json(outcome: RefreshOutcome, summaries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Plain values: sources done, failures, release."""
    release = outcome.release
    return {
        "sources": list(summaries),
        "failures": [
            {
                "source": source,
                "error": str(error),
                "kind": type(error).__name__,
                "temporary": isinstance(error, TransientError),
            }
            for source, error in outcome.failures.items()
        ],
        "release": {"release": release.version, "new": release.has_changes, "rows": release.rows}
        if release and release.version
        else None,
    }


def _summarize_sources(outcome: RefreshOutcome) -> Iterable[dict[str, Any]]:
    by_source: dict[str, dict[str, Stats]] = {}
    for stats in outcome.stats:
        by_source.setdefault(stats.source, {})[stats.stage] = stats
    for source, stages in by_source.items():
        yield _summarize_source(source, stages)


def _summarize_source(source: str, stages: Mapping[str, Stats]) -> dict[str, Any]:
    skipped, found, notes = Counter[str](), Counter[str](), Counter[str]()
    for stats in stages.values():
        skipped.update(stats.skipped)
        found.update(stats.found)
        notes.update(stats.notes)
    embedded = stages["embeddings"]
    return {
        "source": source,
        **{name: getattr(stages["snapshot"], name) for name in _COUNT_FIELDS},
        "skipped": skipped.total(),
        "skipped_reasons": dict(skipped.most_common()),
        "chunks": stages["chunks"].rows,
        "embedded": embedded.added + embedded.changed,
        "tokens": embedded.tokens,
        "cost": embedded.cost,
        "found": dict(found.most_common()),
        "notes": dict(notes.most_common()),
        "seconds": {stage: stats.seconds for stage, stats in stages.items()},
    }


def _show_sources(session: Session, summaries: list[dict[str, Any]]) -> None:
    numbers = ("seen", "added", "changed", "removed", "skipped", "chunks", "embedded")
    session.screen.print_table(
        [
            {
                "source": each["source"],
                **{name: each[name] for name in numbers},
                "seconds": _format_seconds(each["seconds"]),
            }
            for each in summaries
        ],
        right_aligned=numbers,
    )
    for each in summaries:
        _show_skipped(session, each)
        for title, counts in (("sanitizer found", each["found"]), ("note", each["notes"])):
            if counts:
                session.screen.print_text(f"{each['source']}: {title}: {_format_counts(counts)}")


def _format_seconds(seconds: Mapping[str, float]) -> str:
    """`6.1 = snapshot 1.2 + chunks 0.8 + ...`, stages below a tenth of a second left out."""
    parts = [f"{stage} {spent:.1f}" for stage, spent in seconds.items() if spent >= 0.05]
    total = f"{sum(seconds.values()):.1f}"
    return f"{total} = {' + '.join(parts)}" if len(parts) > 1 else total


def _show_skipped(session: Session, summary: Mapping[str, Any]) -> None:
    reasons: Mapping[str, int] = summary["skipped_reasons"]
    if not reasons:
        return
    source, screen = summary["source"], session.screen
    if screen.verbose:
        for uri, reason in list_skipped_documents(session, source):
            screen.print_text(f"{source}: skipped {uri}: {one_line(reason)}")
        return
    for reason, count in list(reasons.items())[:_MAX_REASONS_SHOWN]:
        screen.print_text(f"{source}: skipped {count:,}: {truncate(one_line(reason), 200)}")
    rest = list(reasons.values())[_MAX_REASONS_SHOWN:]
    if rest:
        screen.print_text(
            f"{source}: skipped {sum(rest):,} for {len(rest)} other reasons (all with --verbose)"
        )


def list_skipped_documents(session: Session, source: str) -> list[tuple[str, str]]:
    """Uri and reason of every document of a source that was not taken."""
    from knowledge_pipeline.store.filters import is_null

    type_ = session.lake.list_stored_sources()[source]
    tables = (session.lake.snapshot(type_, source), session.lake.chunks(type_, source))
    rows = [table.read_rows(["uri", "skipped"], ~is_null("skipped")).to_pylist() for table in tables]
    return sorted((row["uri"], row["skipped"]) for each in rows for row in each)


def _format_release(outcome: RefreshOutcome) -> str:
    release = outcome.release
    if release is None:
        return "Nothing new was released: the last release stays live."
    if not release.version:
        return "Nothing is released: there is nothing to search yet."
    if not release.has_changes:
        return f"Nothing changed: release {release.version} stays live ({release.rows:,} rows)."
    return f"Release {release.version} is live ({release.rows:,} rows)."


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{one_line(name)} {count:,}" for name, count in counts.items())
