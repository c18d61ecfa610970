"""What `sources test` tells: a source's listing, counted, and one of its documents."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.terminal_text import format_count, one_line, truncate
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import SourceConfig
    from knowledge_pipeline.records import Document, Item
    from knowledge_pipeline.sources.base import Source

_MAX_TRIES = 20
_MAX_LINES_SHOWN = 8


def probe_source(session: Session, source: SourceConfig) -> None:
    """List a source and read one document.

    Raises:
        SourceRefused: it lists nothing, or none of the first documents can be read.
        KnowledgeError: as the source says.
    """
    from knowledge_pipeline.sources.registry import open_source

    with open_source(source, cache=session.lake.cache) as opened:
        items = list(opened.discover())
        skipped = Counter(item.skip for item in items if item.skip)
        document = _read_first_document(source.id, opened, [item for item in items if not item.skip])
    _show_listing(session, source.id, len(items), skipped, document)


def _read_first_document(source: str, opened: Source, items: list[Item]) -> Document:
    reason = "it lists no document: check its connection, include and exclude"
    for item in items[:_MAX_TRIES]:
        try:
            return opened.fetch(item)
        except DocumentSkipped as skipped:
            reason = f"the first documents cannot be read ({item.uri}: {skipped})"
    raise SourceRefused(f"source {source!r}: {reason}")


def _show_listing(
    session: Session, source: str, listed: int, skipped: Counter[str], document: Document
) -> None:
    screen = session.screen
    if screen.as_json:
        screen.print_json(
            {
                "source": source,
                "listed": listed,
                "skipped": dict(skipped.most_common()),
                "document": _document_json(document),
            }
        )
        return
    screen.print_text(f"{source}: {format_count(listed, 'document')}, {skipped.total():,} to be skipped.")
    for reason, count in skipped.most_common(5):
        screen.print_text(f"  {count:,}: {one_line(reason)}")
    screen.print_text(
        f"For example {document.uri}: {len(document.text):,} characters, {document.language or 'no language'}"
    )
    lines = [truncate(line, 200) for line in document.text.rstrip().split("\n")[:_MAX_LINES_SHOWN]]
    screen.print_code("\n".join(lines), language=document.language, first_line=1)


def _document_json(document: Document) -> dict[str, Any]:
    return {
        "uri": document.uri,
        "path": document.path,
        "title": document.title,
        "language": document.language,
        "author": document.author,
        "last_modified": document.last_modified.isoformat() if document.last_modified else None,
        "characters": len(document.text),
        "beginning": document.text[:500],
    }
