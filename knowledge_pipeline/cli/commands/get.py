"""`get`: one chunk or document, whole."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.options import Blame
from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge get 3f2a9c...
    knowledge get flask-code:src/flask/app.py --json
    knowledge get 3f2a9c... --blame
""")
def get(
    session: Session,
    id: Annotated[str, Argument(metavar="ID", help="A chunk's id, or SOURCE:URI of a document.")],
    blame: Blame = False,
    trace: Annotated[
        bool, Option("--trace", help="Show what made it instead: refresh, Dagster run, release.")
    ] = False,
) -> None:
    """Show one chunk, or all chunks of a document, in full."""
    from knowledge_pipeline.cli.render.search_results import show_results

    if trace:
        from knowledge_pipeline.cli.render.trace import show_trace

        with session.open_knowledge_base() as base:
            traced = base.trace(id)
        show_trace(session.screen, traced)
        return
    with session.open_knowledge_base() as base:
        response = base.get(id, blame=blame)
    show_results(session.screen, response, lines=None, scores=False)
