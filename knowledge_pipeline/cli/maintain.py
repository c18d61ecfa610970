"""`maintain`: the store stays small and fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_pipeline.cli.render.progress import ProgressLines
from knowledge_pipeline.cli.render.terminal_text import format_count, format_size
from knowledge_pipeline.cli.session import Session, example

if TYPE_CHECKING:
    from knowledge_pipeline.maintenance.work import Action, ActionResult, MaintenanceReport

_ACTION_LABELS: dict[Action, str] = {
    "vectors": "unused vectors collected",
    "compaction": "fragments merged",
    "indexes": "indexes brought up to date",
    "releases": "old releases forgotten",
    "versions": "old versions dropped",
    "logs": "old log entries deleted",
    "leftovers": "leftovers removed",
}


@example("""
    knowledge maintain
    knowledge maintain --dry-run
    knowledge maintain --grace 0 --json
""")
def maintain(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            metavar="MINUTES",
            min=0,
            help="How long a version stays after another one took its place, for those who still read it.",
        ),
    ] = 10.0,
    keep_vectors: Annotated[
        bool, typer.Option("--keep-vectors", help="Keep vectors of texts that are gone, however many.")
    ] = False,
) -> None:
    """Make the store small and fast again.

    Unused vectors, old versions, old log entries and leftovers go; scattered tables are
    merged, and indexes brought up to date. Search answers the same before, meanwhile and
    after, and every kept release can still be rolled back to. A source that is being
    refreshed is left for the next time. It may be stopped at any moment.
    """
    from knowledge_pipeline.maintenance import maintain
    from knowledge_pipeline.maintenance.work import MaintenanceOptions

    lines = ProgressLines(session.screen.print_note)
    done = maintain.refresh(
        session.lake,
        session.settings_without_secrets,
        options=MaintenanceOptions(collect_vectors=not keep_vectors, grace_s=grace * 60, dry_run=dry_run),
        report=lambda stage, count, total: lines.report("maintenance", stage, count, total),
    )
    if session.as_json:
        session.screen.print_json(done.as_metadata())
    else:
        _show_maintenance(session, done)


def _show_maintenance(session: Session, maintained: MaintenanceReport) -> None:
    screen = session.screen
    screen.print_table(
        [_action_row(done) for done in maintained.actions.values()],
        right_aligned=("tables", "removed", "before", "after", "seconds"),
    )
    if screen.verbose or maintained.dry_run:
        for done in maintained.actions.values():
            for path in done.touched:
                screen.print_text(f"{done.action}: {path}")
    for what, why in maintained.skipped.items():
        screen.print_text(f"{what}: skipped: {why}")
    if maintained.release:
        screen.print_text(f"Release {maintained.release.release} is live: the same rows, in fewer pieces.")
    screen.print_text(_format_summary(maintained))


def _action_row(action: ActionResult) -> dict[str, Any]:
    return {
        "what": _ACTION_LABELS[action.action],
        "tables": action.touched_count,
        "removed": action.removed or None,
        "before": format_size(action.bytes_before),
        "after": format_size(action.bytes_after),
        "seconds": action.seconds,
    }


def _format_summary(maintained: MaintenanceReport) -> str:
    looked = f"{format_count(maintained.sources, 'source')} looked at in {maintained.seconds:.1f} s"
    if not maintained.has_changes:
        return f"Nothing to do: {looked}."
    if maintained.dry_run:
        return f"Nothing was done: {looked}."
    if maintained.freed_bytes < 0:
        return (
            f"{format_size(-maintained.freed_bytes)} more for now, because what was rewritten still has its old "
            f"version beside it, which the next maintenance drops: {looked}."
        )
    return f"{format_size(maintained.freed_bytes)} freed: {looked}."
