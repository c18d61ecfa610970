"""Documents and how they relate, for people and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.cli.render.terminal_text import format_count, one_line, truncate
from knowledge_pipeline.query.describe import describe_relation

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.contract.responses.documents import RelatedDocument, RelationsResponse

_MAX_NAME_CHARS = 80


def show_relations(screen: Screen, target: str, found: RelationsResponse, *, limit: int) -> None:
    """Show the documents that `target` names and their first relations."""
    screen.print_json(found.as_json())
    if not found.documents:
        screen.print_note(f"note: {one_line(target)} is mentioned, but is not indexed itself")
    for document in found.documents:
        screen.print_text(f"{format_document_name(document)}  [{document.source}]", style="bold cyan")
    rows = [
        {
            "relation": describe_relation(relation),
            "document": format_document_name(relation.document),
            "source": relation.document.source,
            "modified": (modified := relation.document.last_modified) and modified.date().isoformat(),
            "get": f"{relation.document.source}:{relation.document.uri}",
        }
        for relation in found.relations[:limit]
    ]
    screen.print_table(rows)
    if not rows:
        screen.print_text("No indexed document mentions it, and it mentions none.")
    if len(found.relations) > limit:
        rest = format_count(len(found.relations) - limit, "more relation")
        screen.print_note(f"{rest}: --limit shows them")
    if found.is_truncated:
        screen.print_note("note: more documents mention it than were read")
    if mentions := [each.target for each in found.unresolved_mentions if each.kind != "references"]:
        screen.print_note(f"not indexed, or not visible: {', '.join(map(one_line, mentions))}")


def format_document_name(document: RelatedDocument) -> str:
    """The title with the status, or else the path; files also show their path."""
    status = f" ({document.status})" if document.status else ""
    name = document.title or document.path or document.uri
    is_file = document.source_type in ("code", "markdown") and document.path != name
    return truncate(one_line(name), _MAX_NAME_CHARS) + status + (f"  {document.path}" if is_file else "")
