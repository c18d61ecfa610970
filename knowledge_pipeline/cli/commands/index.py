"""`index`: declare a repository's sources, and index them."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.commands.refresh import run_refresh
from knowledge_pipeline.cli.options import Dagster, TokenVariable
from knowledge_pipeline.cli.session import Session, WrongUsage, example


@example("""
    knowledge index
    knowledge index --repo .
    knowledge index --words
    knowledge index --repo https://github.com/pallets/flask --branch main
""")
def index(
    session: Session,
    repo: Annotated[
        str | None,
        Option(
            metavar="REPOSITORY",
            help="Add this repository's sources first: a folder, an address, github.com/org/repo, or "
            "org/repo@branch.",
        ),
    ] = None,
    branch: Annotated[
        str | None, Option(metavar="NAME", help="Read this branch of --repo, as committed.")
    ] = None,
    token_env: TokenVariable = None,
    words: Annotated[
        bool, Option("--words", help="Stop once words can be searched; `knowledge refresh` adds the rest.")
    ] = False,
    dagster: Dagster = False,
) -> int:
    """Index a repository, or all configured sources, and publish a release.

    With --repo, adds sources for what the repository holds (code, documents, OpenAPI
    files, history) to knowledge.yaml, and indexes them. Creates the file in the current
    folder if there is none. Running it again indexes only what changed.

    Words can be searched long before every text has a vector. With --words it ends there:
    ask at once, and let `knowledge refresh` compute the vectors and the code graph.
    """
    from knowledge_pipeline.stages.context import ORDINARY_REFRESH

    if words and dagster:
        raise WrongUsage("--words ends before the stages that --dagster records: give one of them")
    if repo is None:
        if branch or token_env:
            raise WrongUsage("--branch and --token-env need --repo")
        return run_refresh(session, (), ORDINARY_REFRESH, dagster=dagster, words_only=words)
    from knowledge_pipeline.cli.sources.source_entries import RepositoryLocation, declare_sources

    repository = RepositoryLocation.parse(repo, branch, token_env)
    session.screen.print_note(f"Inspecting {repository.location}")
    declared, ids = declare_sources(session, repository)
    if declared:
        session.screen.print_note(f"Added {', '.join(declared)} to {session.config_path}")
    return run_refresh(session, ids, ORDINARY_REFRESH, dagster=dagster, declared=declared, words_only=words)
