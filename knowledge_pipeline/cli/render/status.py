"""What `knowledge status` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.terminal_text import format_size, format_time, one_line, truncate
from knowledge_pipeline.query.describe import format_share

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen


def show_status(screen: Screen, found: dict[str, Any], *, detailed: bool) -> None:
    """Show what `status --json` prints."""
    screen.print_json(found)
    release, sources = found["release"], found["sources"]
    if release:
        created = format_time(release["created"])
        share = release["embedded_share"]
        embedded = f", {format_share(share)} of them embedded so far" if share < 1 else ""
        screen.print_text(
            f"Release {release['release']} of {created} is live: {release['rows']:,} rows{embedded}."
        )
        if pin := release["pin"]:
            screen.print_text(f"R{pin[1:]}: refreshes publish nothing until `knowledge releases --unpin`.")
    elif sources:
        screen.print_text("Nothing is released yet: run `knowledge index`.")
    screen.print_text(f"Configuration {found['config']}, store {found['store']}")
    organisations = found.get("organisations", ())
    screen.print_table(list(organisations), right_aligned=("members", "listed"))
    if not sources and not organisations:
        screen.print_text("No source is declared: run `knowledge index --repo PATH_OR_URL`.")
    numbers = ("documents", "archived", "skipped", "chunks", "rows", "embedded", "versions", "disk")
    screen.print_table([_format_row(row) for row in sources], right_aligned=numbers)
    screen.print_table([_format_event(row) for row in found.get("events", ())])
    if not detailed:
        return
    for table in ("spaces", "code_graph"):
        numbers = ("rows", "unindexed", "versions", "disk")
        screen.print_table([_format_row(row) for row in found[table]], right_aligned=numbers)
    states = [
        _format_state(row) for row in found.get("states", ())
    ]  # those of a federation are in its stores
    screen.print_table(states, right_aligned=("age_hours", "skipped", "cost"))
    for row in sources:
        for reason, count in list(row["skipped_reasons"].items())[:5]:
            screen.print_text(f"{row['source']}: skipped {count:,}: {truncate(one_line(reason), 200)}")
    screen.print_text(f"The store takes {format_size(found['disk_bytes'])}.")


def _format_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people: sizes with units, without lists."""
    cells = {name: value for name, value in row.items() if name not in ("skipped_reasons", "disk_bytes")}
    if "last_change" in cells:
        cells["last_change"] = format_time(cells["last_change"])
    return cells | ({"disk": format_size(row["disk_bytes"])} if "disk_bytes" in row else {})


def _format_event(row: dict[str, Any]) -> dict[str, Any]:
    """When the last event came, and what became of it."""
    state = "taken in" if row["state"] == "done" else row["state"]
    outcome = f"{state}: {truncate(one_line(row['error']), 200)}" if row["error"] else state
    return {
        **{"source": row["source"], "last_event": format_time(row["at"])},
        **{"service": row["service"], "kind": row["kind"], "outcome": outcome},
    }


def _format_state(row: dict[str, Any]) -> dict[str, Any]:
    """The run as its page, where the address of Dagster is known."""
    cells = {name: value for name, value in row.items() if name != "last_run_url"}
    return cells | {"cost": f"{row['cost']:.2f}", "last_run": row["last_run_url"] or row["last_run"]}
