"""`index`, `refresh`, `reindex`: bring what is stored up to date with the sources, and release it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from knowledge_pipeline.cli.options import AllowEmpty, Dagster, Sources, TokenVariable
from knowledge_pipeline.cli.render import refresh_outcome as outcomes
from knowledge_pipeline.cli.render.progress import show_progress
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.errors import ConfigError

if TYPE_CHECKING:
    from knowledge_pipeline.stages.context import RefreshOptions

_NO_SOURCES_MESSAGE = (
    "{path} declares no source: run `knowledge index --repo PATH_OR_URL`, or `knowledge sources add`"
)


@example("""
    knowledge index
    knowledge index --repo .
    knowledge index --repo https://github.com/pallets/flask --branch main
""")
def index(
    session: Session,
    repo: Annotated[
        str | None,
        typer.Option("--repo", metavar="PATH_OR_URL", help="Declare this repository's sources first."),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="Read this branch of --repo, as committed."),
    ] = None,
    token_env: TokenVariable = None,
    dagster: Dagster = False,
) -> int:
    """Index a repository, or all configured sources, and release.

    With --repo, sources that fit what the repository holds (code, documents, OpenAPI
    files, history) are added to knowledge.yaml, which is made in the current folder if
    there is none; then they are indexed. Running it again indexes only what changed.
    """
    if repo is None:
        if branch or token_env:
            raise WrongUsage("--branch and --token-env say more about --repo, which is missing")
        return _run_refresh(session, (), dagster=dagster)
    from knowledge_pipeline.cli.sources.source_entries import RepositoryLocation, declare_sources

    session.screen.print_note(f"Looking at {repo}")
    declared, ids = declare_sources(session, RepositoryLocation(repo, branch, token_env))
    if declared:
        session.screen.print_note(f"Declared {', '.join(declared)} in {session.config_path}")
    return _run_refresh(session, ids, dagster=dagster, declared=declared)


@example("""
    knowledge refresh
    knowledge refresh --source flask-code --source flask-docs
    knowledge refresh --dagster
""")
def refresh(
    session: Session, source: Sources = None, dagster: Dagster = False, allow_empty: AllowEmpty = False
) -> int:
    """Bring sources up to date and release what changed.

    What changed is read, cut, embedded and indexed. A source that fails keeps what it
    had, and the others go on.
    """
    from knowledge_pipeline.stages.context import RefreshOptions

    return _run_refresh(session, source or (), RefreshOptions(allow_empty=allow_empty), dagster=dagster)


@example("""
    knowledge reindex --source flask-code
    knowledge reindex --reembed
""")
def reindex(
    session: Session,
    source: Sources = None,
    full: Annotated[
        bool, typer.Option("--full", help="Read and cut everything anew (the default of this command).")
    ] = False,
    reembed: Annotated[bool, typer.Option("--reembed", help="Make every vector anew as well.")] = False,
    dagster: Dagster = False,
    allow_empty: AllowEmpty = False,
) -> int:
    """Make everything anew, as if nothing were stored.

    Queries see the last release until the new one is complete. Vectors are taken over
    where texts are the same, unless --reembed says otherwise.
    """
    from knowledge_pipeline.stages.context import RefreshOptions

    del full  # what this command does anyway; scripts may say so
    options = RefreshOptions(full=True, reembed=reembed, allow_empty=allow_empty)
    return _run_refresh(session, source or (), options, dagster=dagster)


def _run_refresh(
    session: Session,
    ids: Sequence[str],
    options: RefreshOptions | None = None,
    *,
    dagster: bool = False,
    declared: Sequence[str] = (),
) -> int:
    from knowledge_pipeline.stages import pipeline
    from knowledge_pipeline.stages.context import RefreshOptions

    options = options or RefreshOptions()
    if not session.settings.sources:
        raise ConfigError(_NO_SOURCES_MESSAGE.format(path=session.config_path))
    chosen = pipeline.select_sources(session.settings, dict.fromkeys(ids))
    if dagster:
        from knowledge_pipeline.cli.dagster_refresh import run_recorded_refresh

        named = [source.id for source in chosen]
        return run_recorded_refresh(session, named, options)
    with show_progress(session.screen) as report:
        outcome = pipeline.refresh(session.lake, session.settings, chosen, options, report=report)
    return outcomes.show_outcome(session, outcome, config=str(session.config_path), declared=list(declared))
