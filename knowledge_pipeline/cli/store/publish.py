"""`publish`: copy the live release to a database from which others serve it."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge publish
    knowledge publish --schema search
""")
def publish(
    session: Session,
    schema: Annotated[
        str | None,
        Option(
            "--schema",
            metavar="NAME",
            help="Where in the database; by default KNOWLEDGE_PUBLISH_SCHEMA, or knowledge.",
        ),
    ] = None,
) -> None:
    """Copy the live release to PostgreSQL, by what changed.

    Needs pgvector there, and the address in KNOWLEDGE_PUBLISH_DSN. Readers of the database
    see the release from before until the copy is complete, then the new one. After a
    rollback it copies the difference back. docs/publish.md has queries with filters.
    """
    from knowledge_pipeline.cli.render.terminal_text import format_count
    from knowledge_pipeline.stages.publish import publish
    from knowledge_pipeline.stages.publish.postgres import open_target

    result = publish.refresh(session.lake, session.settings_without_secrets, open_target(schema))
    session.screen.print_json(result.as_metadata())
    changes = f"{result.added:,} added, {result.changed:,} changed, {result.removed:,} removed"
    session.screen.print_text(
        f"Release {result.release} is in {result.target}: {format_count(result.rows, 'row')}, "
        f"{changes if result.has_changes else 'nothing changed'}, in {result.seconds:.1f} s."
    )
