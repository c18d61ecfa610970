"""What a refresh did, for people as a table and for programs as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.exit_codes import code_of_all, tell_sentence
from knowledge_pipeline.cli.render.terminal_text import one_line, shortened
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.errors import TransientError

if TYPE_CHECKING:
    from knowledge_pipeline.stages.context import Stats
    from knowledge_pipeline.stages.pipeline import Outcome

_REASONS_SHOWN = 5
_RELEASE = "release"  # what the outcome calls a failure of the release
_COUNTED = ("seen", "added", "changed", "removed", "unchanged")


def show(session: Session, outcome: Outcome, **beside: Any) -> int:
    """Tell what was done, and return the exit code; `beside` is told to programs as well."""
    summaries = list(_summaries(outcome))
    screen = session.screen
    if screen.as_json:
        screen.answer({**beside, **as_json(outcome, summaries)})
    else:
        _show_sources(session, summaries)
        for source, error in outcome.failures.items():
            tell_sentence(f"{source}: {error}", kind="", code=0, as_json=False)
        screen.say(_released(outcome))
    return _code(outcome)


def _code(outcome: Outcome) -> int:
    """By the sources that failed: a release is refused because of them, and follows them."""
    of_sources = [error for source, error in outcome.failures.items() if source != _RELEASE]
    return code_of_all(of_sources or outcome.failures.values())


def as_json(outcome: Outcome, summaries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
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
        "release": {"release": release.version, "new": release.touched, "rows": release.rows}
        if release and release.version
        else None,
    }


def _summaries(outcome: Outcome) -> Iterable[dict[str, Any]]:
    by_source: dict[str, dict[str, Stats]] = {}
    for stats in outcome.stats:
        by_source.setdefault(stats.source, {})[stats.stage] = stats
    for source, stages in by_source.items():
        yield _summary(source, stages)


def _summary(source: str, stages: Mapping[str, Stats]) -> dict[str, Any]:
    skipped, found, notes = Counter[str](), Counter[str](), Counter[str]()
    for stats in stages.values():
        skipped.update(stats.skipped)
        found.update(stats.found)
        notes.update(stats.notes)
    embedded = stages["embeddings"]
    return {
        "source": source,
        **{name: getattr(stages["snapshot"], name) for name in _COUNTED},
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
    session.screen.table(
        [
            {
                "source": each["source"],
                **{name: each[name] for name in numbers},
                "seconds": _by_stage(each["seconds"]),
            }
            for each in summaries
        ],
        right=numbers,
    )
    for each in summaries:
        _show_skipped(session, each)
        for title, counts in (("sanitizer found", each["found"]), ("note", each["notes"])):
            if counts:
                session.screen.say(f"{each['source']}: {title}: {_listed(counts)}")


def _by_stage(seconds: Mapping[str, float]) -> str:
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
        for uri, reason in skipped_documents(session, source):
            screen.say(f"{source}: skipped {uri}: {one_line(reason)}")
        return
    for reason, count in list(reasons.items())[:_REASONS_SHOWN]:
        screen.say(f"{source}: skipped {count:,}: {shortened(one_line(reason), 200)}")
    rest = list(reasons.values())[_REASONS_SHOWN:]
    if rest:
        screen.say(f"{source}: skipped {sum(rest):,} for {len(rest)} other reasons (all with --verbose)")


def skipped_documents(session: Session, source: str) -> list[tuple[str, str]]:
    """Uri and reason of every document of a source that was not taken."""
    from knowledge_pipeline.store.filters import is_null

    type_ = session.lake.stored_sources()[source]
    tables = (session.lake.snapshot(type_, source), session.lake.chunks(type_, source))
    rows = [table.rows(["uri", "skipped"], ~is_null("skipped")).to_pylist() for table in tables]
    return sorted((row["uri"], row["skipped"]) for each in rows for row in each)


def _released(outcome: Outcome) -> str:
    release = outcome.release
    if release is None:
        return "Nothing new was released: the last release stays live."
    if not release.version:
        return "Nothing is released: there is nothing to search yet."
    if not release.touched:
        return f"Nothing changed: release {release.version} stays live ({release.rows:,} rows)."
    return f"Release {release.version} is live ({release.rows:,} rows)."


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{one_line(name)} {count:,}" for name, count in counts.items())
