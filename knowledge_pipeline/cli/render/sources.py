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
) -> None:
    """Show how many documents a source lists and skips, and the beginning of one.

    `permissions` say of how many `documents` the source tells the readers, and the `problems` with it.
    """
    shown = {
        **{name: getattr(document, name) for name in ("uri", "path", "title", "language", "author")},
        "last_modified": document.last_modified.isoformat() if document.last_modified else None,
        "characters": len(document.text),
        "beginning": document.text[:500],
    }
    counts = {"listed": listed, "skipped": dict(skipped.most_common())}
    known = {"permissions": permissions} if permissions else {}
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
