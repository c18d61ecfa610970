"""What `knowledge migrate` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_pipeline.cli.render.terminal_text import format_count

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.store.migration.migrate import MigrationState, StoreVersions

_STATES: dict[MigrationState, str] = {
    "current": "The store is of the present schema: there is nothing to migrate.",
    "older": "An earlier version wrote the store: `knowledge migrate` brings it up to date.",
    "half": "A migration was interrupted: `knowledge migrate` completes it, `--undo` takes it back.",
    "migrated": "The store is migrated. `knowledge migrate --commit` makes it final, `--undo` takes it back.",
}


def show_plan(screen: Screen, versions: StoreVersions) -> None:
    """Show every table that an earlier schema wrote, and where the store stands."""
    older = [each for each in versions.tables if each.needs_migration]
    rows = [{"table": each.name, "schema": each.version, "rows": each.count_rows()} for each in older]
    screen.print_json({"state": versions.state, "tables": rows})
    screen.print_table(rows, right_aligned=("schema", "rows"))
    screen.print_text(_STATES[versions.state])


def show_migrated(screen: Screen, before: StoreVersions, tables: Sequence[str]) -> None:
    """Show how many tables were migrated, and what may be done then."""
    screen.print_json({"from": before.oldest, "tables": list(tables)})
    if not tables:
        screen.print_text(_STATES["migrated" if before.state == "migrated" else "current"])
        return
    screen.print_text(
        f"Migrated {format_count(len(tables), 'table')} from schema version {before.oldest}.\n"
        "Try it: `knowledge search`, `knowledge refresh`. `knowledge migrate --undo` takes it back, "
        "`--commit` makes it final."
    )


def show_undone(screen: Screen, tables: Sequence[str]) -> None:
    """Show how many tables are again what they were."""
    screen.print_json({"tables": list(tables)})
    screen.print_text(
        f"{format_count(len(tables), 'table')} from before the migration again: "
        "use the program that wrote them, or `knowledge migrate`."
    )


def show_committed(screen: Screen, tables: Sequence[str]) -> None:
    """Show how many tables have no way back now."""
    screen.print_json({"tables": list(tables)})
    screen.print_text(
        f"The migration of {format_count(len(tables), 'table')} is final: "
        "`knowledge maintain` deletes the versions from before."
        if tables
        else "There is no migration to commit."
    )
