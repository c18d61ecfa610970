"""`reindex`: rebuild what is stored."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.commands.refresh import run_refresh
from knowledge_pipeline.cli.options import AllowEmpty, Dagster, Sources
from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge reindex --source flask-code
    knowledge reindex --reembed
""")
def reindex(
    session: Session,
    source: Sources = None,
    full: Annotated[
        bool, Option("--full", help="Accepted for scripts; this command is always full.")
    ] = False,
    reembed: Annotated[bool, Option("--reembed", help="Compute every vector again as well.")] = False,
    dagster: Dagster = False,
    allow_empty: AllowEmpty = False,
) -> int:
    """Rebuild everything, as if nothing were stored.

    Queries see the last release until the new one is complete. Vectors of unchanged
    texts are reused, unless --reembed is given.
    """
    from knowledge_pipeline.stages.context import RefreshOptions

    del full
    options = RefreshOptions(full=True, reembed=reembed, allow_empty=allow_empty)
    return run_refresh(session, source or (), options, dagster=dagster)
