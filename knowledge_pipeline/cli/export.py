"""`export`: what is stored, back as files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.options import source_ids
from knowledge_pipeline.cli.render.terminal_text import counted, visible
from knowledge_pipeline.cli.session import Session, WrongUsage, example

if TYPE_CHECKING:
    from knowledge_pipeline.stages.export import Exported, Written


@example("""
    knowledge export --source records --to out
    knowledge export --source records --uri adr/0007.md > 0007.md
    knowledge export --source records --to docs/records --include-archived --force
""")
def export(
    session: Session,
    source: Annotated[
        str,
        typer.Option("--source", "-s", metavar="ID", help="Whose documents.", autocompletion=source_ids),
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
    from knowledge_pipeline.stages.export import exported, write

    if to is None and (len(uri or ()) != 1 or session.as_json):
        raise WrongUsage("give --to FOLDER, or one --uri without --json for stdout")
    found = exported(
        session.lake,
        session.settings_without_secrets,
        source,
        uris=tuple(uri or ()),
        include_archived=include_archived,
    )
    if to is None:
        for document in found:
            _print(session, document)
        return None
    folder = to.expanduser()
    archived = 0
    done: list[Written] = []
    for document in found:
        done.append(write(document, folder, force=force))
        archived += document.archived_at is not None
    _tell(session, source, folder, done, archived)
    return FAILED if any(each.outcome in ("differs", "failed") for each in done) else None


def _print(session: Session, document: Exported) -> None:
    """The bytes themselves; to a terminal nothing that could drive it."""
    if session.screen.terminal:
        sys.stdout.write(visible(document.payload.decode("utf-8", "replace")))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(document.payload)
    sys.stdout.flush()


def _tell(session: Session, source: str, folder: Path, done: Sequence[Written], archived: int) -> None:
    from knowledge_pipeline.stages.export import counts_of

    counts = counts_of(done)
    screen = session.screen
    if screen.as_json:
        told = [_row(each) for each in done if each.outcome in ("differs", "failed")]
        screen.answer(
            {"source": source, "folder": str(folder), **counts, "archived": archived, "problems": told}
        )
        return
    for each in done:
        if each.outcome == "differs":
            screen.say(f"{each.file} differs and is left as it is: what is stored is in {each.stored}")
        elif each.outcome == "failed":
            screen.say(f"{each.file} was not written: {each.why}")
        elif screen.verbose:
            screen.say(f"{each.file}: {each.outcome}")
    named = [f"{count:,} {outcome}" for outcome, count in counts.items() if count and outcome != "differs"]
    if counts["differs"]:
        named.append(f"{counts['differs']:,} left as they were (--force overwrites them)")
    told_archived = f", {archived:,} of them archived" if archived else ""
    screen.say(
        f"{counted(len(done), 'document')} of {source}{told_archived}: {', '.join(named) or 'nothing'}"
    )


def _row(each: Written) -> dict[str, Any]:
    return {
        "uri": each.uri,
        "outcome": each.outcome,
        "file": str(each.file),
        "stored": str(each.stored) if each.stored else None,
        "why": each.why or None,
    }
