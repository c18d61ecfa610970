"""`maintain`: keep the store small and fast."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.render.progress import ProgressLines
from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge maintain
    knowledge maintain --dry-run
    knowledge maintain --grace 0 --json
""")
def maintain(
    session: Session,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be done.")] = False,
    grace: Annotated[
        float,
        Option(
            metavar="MINUTES", min=0, help="How long to keep a replaced version for those who still read it."
        ),
    ] = 10.0,
    keep_vectors: Annotated[
        bool, Option("--keep-vectors", help="Keep vectors of texts that no longer exist.")
    ] = False,
) -> None:
    """Make the store small and fast again.

    Removes unused vectors, old versions, old log entries and leftovers, merges fragmented
    tables, and updates indexes. Search results stay the same throughout, and every kept
    release can still be rolled back to. Sources that are being refreshed are left for the
    next run. The command can be stopped at any moment.
    """
    from knowledge_pipeline.cli.render.maintain import show_maintenance
    from knowledge_pipeline.maintenance import maintain
    from knowledge_pipeline.maintenance.work import MaintenanceOptions

    lines = ProgressLines(session.screen.print_note)
    report = maintain.refresh(
        session.lake,
        session.settings_without_secrets,
        options=MaintenanceOptions(collect_vectors=not keep_vectors, grace_s=grace * 60, dry_run=dry_run),
        report=partial(lines.report, "maintenance"),
    )
    show_maintenance(session.screen, report)
