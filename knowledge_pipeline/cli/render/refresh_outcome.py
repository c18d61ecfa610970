"""What a refresh did, for people as a table and for programs as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.exit_codes import exit_code_of_failures, print_error
from knowledge_pipeline.cli.render.terminal_text import one_line, truncate
from knowledge_pipeline.query.describe import format_share

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.cli.session import Session
    from knowledge_pipeline.stages.context import Stats
    from knowledge_pipeline.stages.pipeline import RefreshOutcome
    from knowledge_pipeline.store.lake import Lake

_MAX_REASONS_SHOWN = 5
_RELEASE_KEY = "release"  # under which the outcome reports a failure of the release
_COUNT_FIELDS = ("seen", "added", "changed", "removed", "unchanged")
_NUMBERS = ("seen", "added", "changed", "removed", "skipped", "chunks", "embedded")


def show_outcome(session: Session, outcome: RefreshOutcome, *, declared: Sequence[str]) -> int:
    """Show what was done, and return the exit code; programs also get the ids of new sources."""
    from knowledge_pipeline.stages.context import describe_failures

    by_source: dict[str, dict[str, Stats]] = {}
    for stats in outcome.stats:
        by_source.setdefault(stats.source, {})[stats.stage] = stats
    summaries = [_summarize_source(source, stages) for source, stages in by_source.items()]
    release, screen = outcome.release, session.screen
    if screen.as_json:
        live = None
        if release and release.version:
            live = {
                **{"release": release.version, "new": release.has_changes, "rows": release.rows},
                "notes": list(release.notes),
            }
        project = {"config": str(session.config_path), "declared": list(declared)}
        failures = describe_failures(outcome.failures)
        screen.print_json({**project, "sources": summaries, "failures": failures, "release": live})
    else:
        columns = ("source", *_NUMBERS, "seconds")
        shown = [{**each, "seconds": _format_seconds(each["seconds"])} for each in summaries]
        rows = [{name: each[name] for name in columns} for each in shown]
        screen.print_table(rows, right_aligned=_NUMBERS)
        for summary in summaries:
            _show_notes(session, summary)
        for source, error in outcome.failures.items():
            print_error(f"{source}: {error}", kind="", code=0, as_json=False)
        screen.print_text(_format_release(release))
    # a release is refused because of failed sources, so those decide
    of_sources = [error for source, error in outcome.failures.items() if source != _RELEASE_KEY]
    return exit_code_of_failures(of_sources or outcome.failures.values())


def describe_early_release(release: Stats) -> str:
    """What can be asked while the rest is embedded."""
    if release.unembedded == release.rows:
        found = "words find them, and vectors follow"
    else:
        found = f"{format_share(release.embedded_share)} of them embedded"
    return f"Release {release.version} is live: {release.rows:,} chunks; {found}."


def describe_words(seconds: float | None, question: str = "") -> str:
    """That every source answers by its words, with a command line to try, and how long the vectors take."""
    lines = ["Every source can be searched by its words now."]
    if seconds is not None:
        lines.append(f"The vectors take about {_format_rough_duration(seconds)}.")
    if question:  # on a line of its own: a terminal with bars wraps long ones
        lines += ["Try, in another terminal:", f"  {question}"]
    return "\n".join(lines)


def _format_rough_duration(seconds: float) -> str:
    """`20 s`, `6 min`, `3 h`: as exact as an estimate is."""
    if seconds < 90:
        return f"{max(10, 10 * round(seconds / 10))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"


def show_suggestions(screen: Screen, questions: Sequence[str]) -> None:
    """Show command lines to try."""
    if questions:
        screen.print_text("Try:")
    for question in questions:
        screen.print_text(f"  {question}")


def _summarize_source(source: str, stages: Mapping[str, Stats]) -> dict[str, Any]:
    skipped, found, notes = Counter[str](), Counter[str](), Counter[str]()
    for stats in stages.values():
        skipped.update(stats.skipped)
        found.update(stats.found)
        notes.update(stats.notes)
    embedded = stages.get("embeddings")  # none where words alone were indexed
    return {
        "source": source,
        **{name: getattr(stages["snapshot"], name) for name in _COUNT_FIELDS},
        "skipped": skipped.total(),
        "skipped_reasons": dict(skipped.most_common()),
        "chunks": stages["chunks"].rows,
        "embedded": embedded.added + embedded.changed if embedded else 0,
        "tokens": embedded.tokens if embedded else 0,
        "cost": embedded.cost if embedded else 0.0,
        "found": dict(found.most_common()),
        "notes": dict(notes.most_common()),
        "seconds": {stage: stats.seconds for stage, stats in stages.items()},
    }


def _format_seconds(seconds: Mapping[str, float]) -> str:
    """`6.1 = snapshot 1.2 + chunks 0.8 + ...`, without stages below a tenth of a second."""
    parts = [f"{stage} {spent:.1f}" for stage, spent in seconds.items() if spent >= 0.05]
    total = f"{sum(seconds.values()):.1f}"
    return f"{total} = {' + '.join(parts)}" if len(parts) > 1 else total


def _show_notes(session: Session, summary: Mapping[str, Any]) -> None:
    """Show why documents were skipped, what the sanitizer found, and other notes."""
    source, screen = summary["source"], session.screen
    reasons: Mapping[str, int] = summary["skipped_reasons"]
    if screen.verbose and reasons:
        for uri, reason in _list_skipped_documents(session.lake, source):
            screen.print_text(f"{source}: skipped {uri}: {one_line(reason)}")
    elif reasons:
        for reason, count in list(reasons.items())[:_MAX_REASONS_SHOWN]:
            screen.print_text(f"{source}: skipped {count:,}: {truncate(one_line(reason), 200)}")
        rest = list(reasons.values())[_MAX_REASONS_SHOWN:]
        if rest:
            others = f"{len(rest)} other reasons (--verbose lists all)"
            screen.print_text(f"{source}: skipped {sum(rest):,} for {others}")
    for title, counts in (("sanitizer found", summary["found"]), ("note", summary["notes"])):
        if counts:
            listed = ", ".join(f"{one_line(name)} {count:,}" for name, count in counts.items())
            screen.print_text(f"{source}: {title}: {listed}")


def _list_skipped_documents(lake: Lake, source: str) -> list[tuple[str, str]]:
    """Uri and reason of every skipped document."""
    from knowledge_pipeline.store.filters import is_null

    type_ = lake.list_stored_sources()[source]
    tables: tuple[Any, ...] = (lake.snapshot(type_, source), lake.chunks(type_, source))
    rows = [table.read_rows(["uri", "skipped"], ~is_null("skipped")).to_pylist() for table in tables]
    return sorted((row["uri"], row["skipped"]) for each in rows for row in each)


def _format_release(release: Stats | None) -> str:
    if release is None:
        return "Nothing new was released: the last release stays live."
    if not release.version:
        return "Nothing is released: there is nothing to search yet."
    if release.notes:
        return "".join(f"{note[:1].upper()}{note[1:]}." for note in release.notes)
    rows, rest = f"{release.rows:,} rows", ""
    if release.unembedded:
        rest = (
            f" {release.unembedded:,} have no vector yet: words find them, and `knowledge refresh` goes on."
        )
    if not release.has_changes:
        return f"Nothing changed: release {release.version} stays live ({rows}).{rest}"
    return f"Release {release.version} is live ({rows}).{rest}"
