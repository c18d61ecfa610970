"""`related`: how a document relates to others."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge related PROJ-12
    knowledge related owner/name#45
    knowledge related docs/decisions/store.md
    knowledge related https://wiki.example.org/wiki/spaces/OPS/pages/98765 --json
""")
def related(
    session: Session,
    target: Annotated[
        str,
        Argument(metavar="TARGET", help="A ticket's key, owner/name#12, a commit, a URL, a path, or an ID."),
    ],
    limit: Annotated[
        int, Option("--limit", "-n", metavar="N", help="How many relations to show.", min=1)
    ] = 50,
) -> None:
    """Show what a document closes, implements, references or changes, and what does so to it.

    Relations come from links, ids and phrases in texts ("fixes PROJ-12"), from front matter,
    and from the services themselves, across all sources.
    """
    from knowledge_pipeline.cli.render.relations import show_relations

    with session.open_knowledge_base() as base:
        found = base.related(target)
    show_relations(session.screen, target, found, limit=limit)
