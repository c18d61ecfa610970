"""What `knowledge maintain` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.cli.render.terminal_text import format_count, format_size

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.maintenance.work import Action, MaintenanceReport

_ACTION_LABELS: dict[Action, str] = {
    "vectors": "unused vectors collected",
    "compaction": "fragments merged",
    "indexes": "indexes brought up to date",
    "releases": "old releases removed",
    "versions": "old versions removed",
    "logs": "old log entries deleted",
    "leftovers": "leftovers removed",
}


def show_maintenance(screen: Screen, maintained: MaintenanceReport) -> None:
    """Show what each action did, and how much space was freed."""
    screen.print_json(maintained.as_metadata())
    rows = [
        {
            "what": _ACTION_LABELS[result.action],
            "tables": result.touched_count,
            "removed": result.removed or None,
            "before": format_size(result.bytes_before),
            "after": format_size(result.bytes_after),
            "seconds": result.seconds,
        }
        for result in maintained.actions.values()
    ]
    screen.print_table(rows, right_aligned=("tables", "removed", "before", "after", "seconds"))
    if screen.verbose or maintained.dry_run:
        for result in maintained.actions.values():
            for path in result.touched:
                screen.print_text(f"{result.action}: {path}")
    for subject, reason in maintained.skipped.items():
        screen.print_text(f"{subject}: skipped: {reason}")
    if maintained.release:
        screen.print_text(f"Release {maintained.release.release} is live: the same rows, in fewer fragments.")
    screen.print_text(_format_summary(maintained))


def _format_summary(maintained: MaintenanceReport) -> str:
    checked = f"{format_count(maintained.sources, 'source')} checked in {maintained.seconds:.1f} s"
    if not maintained.has_changes:
        return f"Nothing to do: {checked}."
    if maintained.dry_run:
        return f"Dry run, nothing was changed: {checked}."
    if maintained.freed_bytes < 0:
        return (
            f"{format_size(-maintained.freed_bytes)} more for now: rewritten tables keep their old version "
            f"until the next maintenance; {checked}."
        )
    return f"{format_size(maintained.freed_bytes)} freed: {checked}."
