"""`refresh`: bring the store up to date with the sources, and publish a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_pipeline.cli.options import AllowEmpty, Dagster, Sources
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.errors import ConfigError

if TYPE_CHECKING:
    from knowledge_pipeline.stages.context import RefreshOptions


@example("""
    knowledge refresh
    knowledge refresh --source flask-code --source flask-docs
    knowledge refresh --dagster
""")
def refresh(
    session: Session, source: Sources = None, dagster: Dagster = False, allow_empty: AllowEmpty = False
) -> int:
    """Bring sources up to date, and publish a release of what changed.

    Reads, chunks, embeds and indexes what changed. A source that fails keeps its last
    content, and the others continue.
    """
    from knowledge_pipeline.stages.context import RefreshOptions

    return run_refresh(session, source or (), RefreshOptions(allow_empty=allow_empty), dagster=dagster)


def run_refresh(
    session: Session,
    ids: Sequence[str],
    options: RefreshOptions,
    *,
    dagster: bool = False,
    declared: Sequence[str] = (),
) -> int:
    """Refresh sources (all without ids), and return the exit code; programs see the `declared` ids."""
    from knowledge_pipeline.cli.render.progress import show_progress
    from knowledge_pipeline.cli.render.refresh_outcome import (
        describe_early_release,
        show_outcome,
        show_suggestions,
    )
    from knowledge_pipeline.stages.unchanged import UnchangedRefresh

    if not session.settings.sources:
        raise ConfigError(
            f"{session.config_path} declares no source: run `knowledge index --repo PATH_OR_URL`, "
            "or `knowledge sources add`"
        )
    sources = session.settings.select_sources(dict.fromkeys(ids))
    if dagster:
        from knowledge_pipeline.cli.dagster_refresh import run_recorded_refresh

        return run_recorded_refresh(session, [source.id for source in sources], options)
    unchanged = UnchangedRefresh(session.lake, session.settings, sources, options)
    if outcome := unchanged.recall():
        return show_outcome(session, outcome, declared=list(declared))
    from knowledge_pipeline.stages import pipeline
    from knowledge_pipeline.stages.suggest_questions import suggest_questions
    from knowledge_pipeline.store.release import find_live_release

    is_first = find_live_release(session.lake) is None
    with show_progress(session.screen) as report_for:
        outcome = pipeline.refresh(
            *(session.lake, session.settings, sources, options),
            report=lambda source: report_for(source.id),
            report_release=lambda release: session.screen.print_note(describe_early_release(release)),
            listings=unchanged.listings,
        )
    unchanged.keep(outcome)
    code = show_outcome(session, outcome, declared=list(declared))
    if is_first and outcome.release and outcome.release.version:
        show_suggestions(session.screen, suggest_questions(session.lake, sources))
    return code
