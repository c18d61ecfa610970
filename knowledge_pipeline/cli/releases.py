"""`releases`, `rollback`, `purge`: what queries see, and what is erased for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.options import Yes, complete_source_ids
from knowledge_pipeline.cli.render.terminal_text import format_count, format_time
from knowledge_pipeline.cli.session import Session, WrongUsage, example

if TYPE_CHECKING:
    from knowledge_pipeline.store.release import Release


@example("""
    knowledge releases
    knowledge releases --json
""")
def releases(session: Session) -> None:
    """List the releases, the live one first."""
    from knowledge_pipeline.store.release import list_releases as read_releases

    found = list(reversed(read_releases(session.lake)))
    screen = session.screen
    rows = [_release_row(release, live=release is found[0]) for release in found]
    if screen.as_json:
        screen.print_json({"releases": rows})
    elif not rows:
        screen.print_text("Nothing is released yet: run `knowledge index`.")
    else:
        screen.print_table([_format_row(row) for row in rows], right_aligned=("release", "rows"))


@example("""
    knowledge releases
    knowledge rollback 3
""")
def rollback(
    session: Session,
    release: Annotated[int, typer.Argument(metavar="N", help="The release to go back to.", min=1)],
) -> None:
    """Make an earlier release live again, at once.

    It becomes a new release with the old content. The next refresh releases the newest
    content again.
    """
    from knowledge_pipeline.stages.release import roll_back_release as roll_back

    made = roll_back(session.lake, session.settings_without_secrets, release)
    if session.as_json:
        session.screen.print_json(_release_row(made, live=True))
    else:
        session.screen.print_text(
            f"Release {made.release} is live: the content of release {release} ({made.rows:,} rows)."
        )
        session.screen.print_text("The next refresh releases the newest content again.")


@example("""
    knowledge purge --source flask-docs --archived
    knowledge purge --source flask-docs --uri docs/secret.md --yes
    knowledge purge --source flask-docs --yes
""")
def purge(
    session: Session,
    source: Annotated[
        str,
        typer.Option(
            "--source", "-s", metavar="ID", help="Whose content to erase.", autocompletion=complete_source_ids
        ),
    ],
    uri: Annotated[str | None, typer.Option("--uri", metavar="URI", help="Only this document.")] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Only documents that the source no longer has.")
    ] = False,
    yes: Yes = False,
) -> int | None:
    """Erase content for good.

    Documents, vectors, index rows, old versions and all earlier releases go.
    The source stays in knowledge.yaml: a document that it still has comes back with the
    next refresh, unless it is excluded there.
    """
    from knowledge_pipeline.maintenance.purge import purge_documents, purge_source

    if uri is not None and archived:
        raise WrongUsage("give --uri or --archived, not both")
    which = f"the document {uri!r}" if uri else "all archived documents" if archived else "everything"
    if not confirm(session, f"Erase {which} of source {source!r}, and all earlier releases?", yes=yes):
        return FAILED
    if uri is not None or archived:
        count = purge_documents(session.lake, session.settings_without_secrets, source, uri=uri)
    else:
        count = purge_source(session.lake, session.settings_without_secrets, source)
    if session.as_json:
        session.screen.print_json({"source": source, "documents": count})
    else:
        session.screen.print_text(f"Erased {format_count(count, 'document')} of {source}.")
    return None


def confirm(session: Session, question: str, *, yes: bool) -> bool:
    """Whether the person agrees; where nobody can be asked, only `--yes` agrees.

    Raises:
        WrongUsage: nobody can be asked.
    """
    if yes:
        return True
    if not session.screen.is_interactive:
        raise WrongUsage("this cannot be undone, and nobody is here to be asked: add --yes")
    if typer.confirm(question, err=True):
        return True
    session.screen.print_note("Nothing was done.")
    return False


def _release_row(release: Release, *, live: bool) -> dict[str, Any]:
    return {
        "release": release.release,
        "live": live,
        "created": release.created_at.isoformat(timespec="seconds"),
        "rows": release.rows,
        "restores": release.restores,
        "spaces": dict(release.tables),
    }


def _format_row(row: dict[str, Any]) -> dict[str, Any]:
    tables = ", ".join(f"{space} at version {version}" for space, version in row["spaces"].items())
    return {**row, "created": format_time(row["created"]), "spaces": tables}
