"""`related`: what a document has to do with others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from knowledge_pipeline.cli.render.terminal_text import format_count, one_line, truncate
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.query.describe import describe_relation

if TYPE_CHECKING:
    from knowledge_pipeline.contract.responses import RelatedDocument, Relation

_MAX_NAME_CHARS = 80


@example("""
    knowledge related PROJ-12
    knowledge related owner/name#45
    knowledge related docs/decisions/0007-lance.md
    knowledge related https://wiki.example.org/wiki/spaces/OPS/pages/98765 --json
""")
def related(
    session: Session,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="A ticket's key, owner/name#12, a commit, an address, a path, or an ID."
        ),
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", help="How many relations are shown.", min=1)
    ] = 50,
) -> None:
    """Show what a document closes, implements, references or changes, and what says so of it.

    Relations are found in links, ids and words of the texts ("fixes PROJ-12"), in front matter,
    and in what the services themselves say, across all sources.
    """
    from knowledge_pipeline.query.access import Access
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(session.settings, access=Access.operator("cli")) as base:
        found = base.related(target)
    screen = session.screen
    if screen.as_json:
        screen.print_json(found.as_json())
        return
    if not found.documents:
        screen.print_note(f"note: {one_line(target)} itself is not here, but is mentioned")
    for document in found.documents:
        screen.print_text(f"{format_document_name(document)}  [{document.source}]", style="bold cyan")
    screen.print_table([_relation_row(relation) for relation in found.relations[:limit]])
    if not found.relations:
        screen.print_text("Nothing here mentions it, and it mentions nothing that is here.")
    if len(found.relations) > limit:
        screen.print_note(
            f"{format_count(len(found.relations) - limit, 'more relation')}: --limit shows them"
        )
    if found.is_truncated:
        screen.print_note("note: more documents mention it than were read")
    if others := [each.target for each in found.unresolved_mentions if each.kind != "references"]:
        screen.print_note(f"not here, or not to be seen: {', '.join(map(one_line, others))}")


def format_document_name(document: RelatedDocument) -> str:
    """What a person knows a document by: its title with its status, else its path."""
    status = f" ({document.status})" if document.status else ""
    known = document.title or document.path or document.uri
    is_file = document.source_type in ("code", "markdown") and document.path != known
    beside = f"  {document.path}" if is_file else ""
    return truncate(one_line(known), _MAX_NAME_CHARS) + status + beside


def _relation_row(relation: Relation) -> dict[str, str | None]:
    document = relation.document
    modified = document.last_modified.date().isoformat() if document.last_modified else None
    return {
        "relation": describe_relation(relation),
        "document": format_document_name(document),
        "source": document.source,
        "modified": modified,
        "get": f"{document.source}:{document.uri}",
    }
