"""`status`: what is live, what is stored of each source, and what it takes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from knowledge_pipeline.cli.render import store_summary
from knowledge_pipeline.cli.render.terminal_text import format_size, format_time, one_line, truncate
from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge status
    knowledge status --detailed
""")
def status(
    session: Session,
    detailed: Annotated[
        bool, typer.Option("--detailed", help="Also disk, versions, spaces, and reasons of skips.")
    ] = False,
) -> None:
    """Show what is live and what is stored of every source."""
    from knowledge_pipeline.store.lance_storage import compute_size
    from knowledge_pipeline.store.release import find_live_release

    release = find_live_release(session.lake)
    found = {
        "config": str(session.config_path),
        "store": str(session.settings_without_secrets.store),
        "release": {
            "release": release.release,
            "created": release.created_at.isoformat(timespec="seconds"),
            "rows": release.rows,
            "restores": release.restores,
        }
        if release
        else None,
        "sources": store_summary.summarize_sources(
            session.lake, session.settings_without_secrets, detailed=detailed
        ),
    }
    if detailed:
        found["spaces"] = store_summary.summarize_spaces(session.lake)
        found["code_graph"] = store_summary.summarize_code_graph(session.lake)
        found["disk_bytes"] = compute_size(session.lake.root)
    if session.as_json:
        session.screen.print_json(found)
    else:
        _show_status(session, found, detailed=detailed)


def _show_status(session: Session, found: dict[str, Any], *, detailed: bool) -> None:
    screen, release, sources = session.screen, found["release"], found["sources"]
    if release:
        created = format_time(release["created"])
        screen.print_text(f"Release {release['release']} of {created} is live: {release['rows']:,} rows.")
    elif sources:
        screen.print_text("Nothing is released yet: run `knowledge index`.")
    screen.print_text(f"Configuration {found['config']}, store {found['store']}")
    if not sources:
        screen.print_text("No source is declared: run `knowledge index --repo PATH_OR_URL`.")
    numbers = ("documents", "archived", "skipped", "chunks", "rows", "versions", "disk")
    screen.print_table([_format_row(row) for row in sources], right_aligned=numbers)
    if not detailed:
        return
    screen.print_table(
        [_format_row(row) for row in found["spaces"]], right_aligned=("rows", "unindexed", "versions", "disk")
    )
    screen.print_table(
        [_format_row(row) for row in found["code_graph"]], right_aligned=("rows", "versions", "disk")
    )
    for row in sources:
        for reason, count in list(row["skipped_reasons"].items())[:5]:
            screen.print_text(f"{row['source']}: skipped {count:,}: {truncate(one_line(reason), 200)}")
    screen.print_text(f"The store takes {format_size(found['disk_bytes'])}.")


def _format_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people: sizes with units, lists left to programs."""
    spoken = {name: value for name, value in row.items() if name not in ("skipped_reasons", "disk_bytes")}
    if "last_change" in spoken:
        spoken["last_change"] = format_time(spoken["last_change"])
    return spoken | ({"disk": format_size(row["disk_bytes"])} if "disk_bytes" in row else {})
