"""What `knowledge sources test` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.terminal_text import format_count, one_line, truncate

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.records import Document

_MAX_LINES_SHOWN = 8


def show_listing(
    screen: Screen,
    source: str,
    listed: int,
    skipped: Counter[str],
    document: Document,
    permissions: Mapping[str, Any] | None = None,
    embedding: Mapping[str, Any] | None = None,
) -> None:
    """Show how many documents a source lists and skips, and the beginning of one.

    `permissions` say of how many `documents` the source tells the readers, and the `problems` with it;
    `embedding` says whether the endpoint of the `model` is `ready`, or its `problem`, and what to correct.
    """
    shown = {
        **{name: getattr(document, name) for name in ("uri", "path", "title", "language", "author")},
        "last_modified": document.last_modified.isoformat() if document.last_modified else None,
        "characters": len(document.text),
        "beginning": document.text[:500],
    }
    counts = {"listed": listed, "skipped": dict(skipped.most_common())}
    known = {"permissions": permissions} if permissions else {}
    known |= {"embedding": embedding} if embedding else {}
    screen.print_json({"source": source, **counts, "document": shown, **known})
    screen.print_text(f"{source}: {format_count(listed, 'document')}, {skipped.total():,} to be skipped.")
    for reason, count in skipped.most_common(5):
        screen.print_text(f"  {count:,}: {one_line(reason)}")
    screen.print_text(
        f"For example {document.uri}: {len(document.text):,} characters, {document.language or 'no language'}"
    )
    lines = [truncate(line, 200) for line in document.text.rstrip().split("\n")[:_MAX_LINES_SHOWN]]
    screen.print_code("\n".join(lines), language=document.language, first_line=1)
    if permissions:
        read = format_count(permissions["documents"], "document")
        screen.print_text(f"Permissions: {permissions['with_readers']:,} of {read} have known readers.")
        for problem, count in permissions["problems"].items():
            screen.print_text(f"  {count:,}: {one_line(problem)}")
    if embedding:
        problem = embedding["problem"]
        model = f"{embedding['model']} ({embedding['provider']})"
        screen.print_text(f"Embedding: {one_line(problem) if problem else f'{model} answers.'}")
        for note in embedding["notes"]:
            screen.print_text(f"  {one_line(note)}")
