"""`migrate`: bring a store that an earlier version wrote up to date."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.session import Session, WrongUsage, example


@example("""
    knowledge migrate --dry-run
    knowledge migrate
    knowledge migrate --undo
    knowledge migrate --commit
""")
def migrate(
    session: Session,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be migrated.")] = False,
    undo: Annotated[bool, Option("--undo", help="Return to the store from before the migration.")] = False,
    commit: Annotated[
        bool, Option("--commit", help="Keep the migrated store, and nothing of the one from before.")
    ] = False,
) -> None:
    """Bring a store that an earlier version wrote up to date, in place.

    Keeps archived documents, vectors, logs, tokens and every release, and embeds nothing
    again. The command can be stopped at any moment, and completes when it is started
    again. Until --commit, --undo returns to the store from before: what was refreshed
    since is dropped there, and what was logged since stays. Stop servers and refreshes
    meanwhile, and back the store up before --commit.
    """
    from knowledge_pipeline.cli.render.migrate import show_committed, show_migrated, show_plan, show_undone
    from knowledge_pipeline.store.migration import migrate

    if dry_run + undo + commit > 1:
        raise WrongUsage("give one of --dry-run, --undo and --commit, or none")
    lake, screen = session.lake, session.screen

    def report(name: str) -> None:
        if screen.verbose:
            screen.print_note(name)

    if undo:
        show_undone(screen, migrate.undo_migration(lake, report=report))
    elif commit:
        show_committed(screen, migrate.commit_migration(lake))
    else:
        versions = migrate.read_versions(lake)
        if dry_run:
            show_plan(screen, versions)
        else:
            show_migrated(screen, versions, migrate.migrate(lake, report=report))
