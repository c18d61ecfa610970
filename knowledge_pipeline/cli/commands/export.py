"""`export`: stored documents as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.options import Names, Source
from knowledge_pipeline.cli.render.terminal_text import escape_controls
from knowledge_pipeline.cli.session import Session, WrongUsage, example

if TYPE_CHECKING:
    from knowledge_pipeline.stages.export import ExportResult


@example("""
    knowledge export --source records --to out
    knowledge export --source records --uri adr/0007.md > 0007.md
    knowledge export --source records --to docs/records --include-archived --force
""")
def export(
    session: Session,
    source: Source,
    uri: Annotated[Names, Option(metavar="URI", help="Only this document (repeatable).")] = None,
    to: Annotated[
        Path | None, Option(metavar="FOLDER", help="Write files here, instead of one document to stdout.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite existing files that differ.")] = False,
    include_archived: Annotated[
        bool, Option("--include-archived", help="Include documents that the source no longer has.")
    ] = False,
) -> int | None:
    """Write stored documents to files.

    A record of an archive is written as the file it was read from, byte for byte; any other
    document as its text. An existing file that differs is kept, and the stored content is
    written next to it as NAME.stored, unless --force overwrites it.
    """
    from knowledge_pipeline.cli.render.export import show_export
    from knowledge_pipeline.stages.export import iter_documents, write_document

    if to is None and (len(uri or ()) != 1 or session.as_json):
        raise WrongUsage("give --to FOLDER, or one --uri without --json for stdout")
    uris, settings = tuple(uri or ()), session.settings_without_secrets
    found = iter_documents(session.lake, settings, source, uris=uris, include_archived=include_archived)
    if to is None:
        for document in found:  # as it is, but with control characters escaped on a terminal
            if session.screen.is_terminal:
                sys.stdout.write(escape_controls(document.content.decode("utf-8", "replace")))
            else:
                sys.stdout.buffer.write(document.content)
            sys.stdout.flush()
        return None
    folder = to.expanduser()
    archived = 0
    results: list[ExportResult] = []
    for document in found:
        results.append(write_document(document, folder, force=force))
        archived += document.archived_at is not None
    show_export(session.screen, source, folder, results, archived)
    return FAILED if any(each.outcome in ("differs", "failed") for each in results) else None
