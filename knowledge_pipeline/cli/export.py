"""`export`: what is stored, back as files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.options import complete_source_ids
from knowledge_pipeline.cli.render.terminal_text import escape_controls, format_count
from knowledge_pipeline.cli.session import Session, WrongUsage, example

if TYPE_CHECKING:
    from knowledge_pipeline.stages.export import ExportedDocument, ExportResult


@example("""
    knowledge export --source records --to out
    knowledge export --source records --uri adr/0007.md > 0007.md
    knowledge export --source records --to docs/records --include-archived --force
""")
def export(
    session: Session,
    source: Annotated[
        str,
        typer.Option(
            "--source", "-s", metavar="ID", help="Whose documents.", autocompletion=complete_source_ids
        ),
    ],
    uri: Annotated[
        list[str] | None, typer.Option("--uri", metavar="URI", help="Only this document (repeatable).")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Where the files go; without it, one goes to stdout."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that differ.")] = False,
    include_archived: Annotated[
        bool, typer.Option("--include-archived", help="Also documents that the source no longer has.")
    ] = False,
) -> int | None:
    """Give the stored documents back as files.

    A record of an archive is the file that it was read from, byte for byte; any other
    document is its text. A file that is there and differs is left as it is, and the stored
    one is written beside it as NAME.stored, unless --force says to overwrite it.
    """
    from knowledge_pipeline.stages.export import iter_documents, write_document

    if to is None and (len(uri or ()) != 1 or session.as_json):
        raise WrongUsage("give --to FOLDER, or one --uri without --json for stdout")
    found = iter_documents(
        session.lake,
        session.settings_without_secrets,
        source,
        uris=tuple(uri or ()),
        include_archived=include_archived,
    )
    if to is None:
        for document in found:
            _write_to_stdout(session, document)
        return None
    folder = to.expanduser()
    archived = 0
    done: list[ExportResult] = []
    for document in found:
        done.append(write_document(document, folder, force=force))
        archived += document.archived_at is not None
    _show_summary(session, source, folder, done, archived)
    return FAILED if any(each.outcome in ("differs", "failed") for each in done) else None


def _write_to_stdout(session: Session, document: ExportedDocument) -> None:
    """The bytes themselves; to a terminal nothing that could drive it."""
    if session.screen.is_terminal:
        sys.stdout.write(escape_controls(document.content.decode("utf-8", "replace")))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(document.content)
    sys.stdout.flush()


def _show_summary(
    session: Session, source: str, folder: Path, written: Sequence[ExportResult], archived: int
) -> None:
    from knowledge_pipeline.stages.export import count_outcomes

    counts = count_outcomes(written)
    screen = session.screen
    if screen.as_json:
        told = [_problem_json(each) for each in written if each.outcome in ("differs", "failed")]
        screen.print_json(
            {"source": source, "folder": str(folder), **counts, "archived": archived, "problems": told}
        )
        return
    for each in written:
        if each.outcome == "differs":
            screen.print_text(
                f"{each.file} differs and is left as it is: what is stored is in {each.stored_copy}"
            )
        elif each.outcome == "failed":
            screen.print_text(f"{each.file} was not written: {each.error}")
        elif screen.verbose:
            screen.print_text(f"{each.file}: {each.outcome}")
    named = [f"{count:,} {outcome}" for outcome, count in counts.items() if count and outcome != "differs"]
    if counts["differs"]:
        named.append(f"{counts['differs']:,} left as they were (--force overwrites them)")
    told_archived = f", {archived:,} of them archived" if archived else ""
    screen.print_text(
        f"{format_count(len(written), 'document')} of {source}{told_archived}: {', '.join(named) or 'nothing'}"
    )


def _problem_json(written: ExportResult) -> dict[str, Any]:
    return {
        "uri": written.uri,
        "outcome": written.outcome,
        "file": str(written.file),
        "stored": str(written.stored_copy) if written.stored_copy else None,
        "why": written.error or None,
    }
