"""`refresh`: bring the store up to date with the sources, and publish a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_pipeline.cli.exit_codes import FAILED, SUCCESS
from knowledge_pipeline.cli.options import AllowEmpty, Dagster, Documents, Relist, Sources
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.errors import ConfigError, InvalidQuery, SourceRefused

if TYPE_CHECKING:
    from knowledge_pipeline.stages.context import RefreshContext, RefreshOptions


@example("""
    knowledge refresh
    knowledge refresh --source flask-code --source flask-docs
    knowledge refresh --document tickets/issue/10002
    knowledge refresh --dagster
""")
def refresh(
    session: Session,
    source: Sources = None,
    document: Documents = None,
    relist: Relist = False,
    dagster: Dagster = False,
    allow_empty: AllowEmpty = False,
) -> int:
    """Bring sources up to date, and publish a release of what changed.

    Reads, chunks, embeds and indexes what changed. A source that fails keeps its last
    content, and the others continue.
    """
    from knowledge_pipeline.stages.context import RefreshOptions

    documents = tuple(document or ())
    if unclear := [each for each in documents if not each.partition("/")[2]]:
        raise InvalidQuery(
            f"--document {unclear[0]!r} names no document: write SOURCE/URI, as in jira/issue/10002"
        )
    ids = [*(source or ()), *(each.partition("/")[0] for each in documents)]
    options = RefreshOptions(allow_empty=allow_empty, relist=relist, documents=documents)
    return run_refresh(session, ids, options, dagster=dagster)


def run_refresh(
    session: Session,
    ids: Sequence[str],
    options: RefreshOptions,
    *,
    dagster: bool = False,
    declared: Sequence[str] = (),
    words_only: bool = False,
) -> int:
    """Refresh sources (all without ids), and return the exit code; programs see the `declared` ids.

    With `words_only`, vectors and the code graph are left to the next refresh.
    Where all are refreshed, the members of organisations are discovered first; where that fails, those known
    before are refreshed, and the command fails in the end.
    """
    problems: list[str] = []
    if ids and session.settings.unlisted_organisations:  # perhaps listed by another machine
        from knowledge_pipeline.store.organisations.listings import fetch_listings

        fetch_listings(session.settings)
        session.use_config(session.config_path)
    if session.settings.organisations and not ids:
        from knowledge_pipeline.cli.sources.organisations import discover_members

        problems = [each.problem for each in discover_members(session) if each.problem]
        if problems and not session.settings.sources:
            raise SourceRefused("; ".join(problems))
    if not session.settings.sources:
        raise ConfigError(
            f"{session.config_path} declares no source: run `knowledge index --repo PATH_OR_URL`, "
            "or `knowledge sources add`"
        )
    if dagster:
        code = _record_refresh(session, ids, options)
    else:
        code = _refresh(session, ids, options, declared=declared, words_only=words_only)
    return code or (FAILED if problems else SUCCESS)


def _record_refresh(session: Session, ids: Sequence[str], options: RefreshOptions) -> int:
    from knowledge_pipeline.cli.dagster_refresh import run_recorded_refresh

    sources = session.settings.select_sources(dict.fromkeys(ids))
    return run_recorded_refresh(session, [source.id for source in sources], options)


def _refresh(
    session: Session,
    ids: Sequence[str],
    options: RefreshOptions,
    *,
    declared: Sequence[str],
    words_only: bool,
) -> int:
    from knowledge_pipeline.cli.render.progress import show_progress
    from knowledge_pipeline.cli.render.refresh_outcome import (
        describe_early_release,
        describe_words,
        show_outcome,
        show_suggestions,
    )
    from knowledge_pipeline.stages.unchanged import UnchangedRefresh

    sources = session.settings.select_sources(dict.fromkeys(ids))
    unchanged = UnchangedRefresh(session.lake, session.settings, sources, options)
    if outcome := unchanged.recall():
        return show_outcome(session, outcome, declared=list(declared))
    if session.settings.evaluation.questions:
        from knowledge_pipeline.evaluation.scores import require_measures

        require_measures()  # now, rather than at the release
    from knowledge_pipeline.stages import pipeline
    from knowledge_pipeline.stages.embedding_work import estimate_rest_s
    from knowledge_pipeline.stages.tuning.suggest_questions import suggest_questions
    from knowledge_pipeline.store.release import find_live_release

    width = len(str(len(sources)))
    numbered = {
        each.id: f"{number:{width}}/{len(sources)} {each.id}" if len(sources) > 1 else each.id
        for number, each in enumerate(sources, 1)
    }
    is_first = find_live_release(session.lake) is None

    def report_words(contexts: Sequence[RefreshContext]) -> None:
        if not (session.as_json or session.quiet):
            questions = suggest_questions(session.lake, sources) if is_first else [""]
            question = next(iter(questions), 'knowledge search "a question, or a name"')
            session.screen.print_note(describe_words(estimate_rest_s(contexts), question))

    with show_progress(session.screen) as report_for:
        outcome = pipeline.refresh(
            *(session.lake, session.settings, sources, options),
            report=lambda source: report_for(numbered[source.id]),
            report_release=lambda release: session.screen.print_note(describe_early_release(release)),
            report_words=report_words,
            words_only=words_only,
            listings=unchanged.listings,
        )
    if not words_only:
        unchanged.keep(outcome)
    code = show_outcome(session, outcome, declared=list(declared))
    if is_first and outcome.release and outcome.release.version:
        show_suggestions(session.screen, suggest_questions(session.lake, sources))
    return code
