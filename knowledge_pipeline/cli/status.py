"""`status`: what is live, what is stored of each source, and what it takes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from knowledge_pipeline.cli.render import store_summary
from knowledge_pipeline.cli.render.terminal_text import one_line, shortened, spoken_size, spoken_time
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
    from knowledge_pipeline.store.lance_storage import size
    from knowledge_pipeline.store.release import live

    release = live(session.lake)
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
        "sources": store_summary.of_sources(
            session.lake, session.settings_without_secrets, detailed=detailed
        ),
    }
    if detailed:
        found["spaces"] = store_summary.of_spaces(session.lake)
        found["code_graph"] = store_summary.of_graph(session.lake)
        found["disk_bytes"] = size(session.lake.root)
    if session.as_json:
        session.screen.answer(found)
    else:
        _show(session, found, detailed=detailed)


def _show(session: Session, found: dict[str, Any], *, detailed: bool) -> None:
    screen, release, sources = session.screen, found["release"], found["sources"]
    if release:
        created = spoken_time(release["created"])
        screen.say(f"Release {release['release']} of {created} is live: {release['rows']:,} rows.")
    elif sources:
        screen.say("Nothing is released yet: run `knowledge index`.")
    screen.say(f"Configuration {found['config']}, store {found['store']}")
    if not sources:
        screen.say("No source is declared: run `knowledge index --repo PATH_OR_URL`.")
    numbers = ("documents", "archived", "skipped", "chunks", "rows", "versions", "disk")
    screen.table([_spoken(row) for row in sources], right=numbers)
    if not detailed:
        return
    screen.table([_spoken(row) for row in found["spaces"]], right=("rows", "unindexed", "versions", "disk"))
    screen.table([_spoken(row) for row in found["code_graph"]], right=("rows", "versions", "disk"))
    for row in sources:
        for reason, count in list(row["skipped_reasons"].items())[:5]:
            screen.say(f"{row['source']}: skipped {count:,}: {shortened(one_line(reason), 200)}")
    screen.say(f"The store takes {spoken_size(found['disk_bytes'])}.")


def _spoken(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people: sizes with units, lists left to programs."""
    spoken = {name: value for name, value in row.items() if name not in ("skipped_reasons", "disk_bytes")}
    if "last_change" in spoken:
        spoken["last_change"] = spoken_time(spoken["last_change"])
    return spoken | ({"disk": spoken_size(row["disk_bytes"])} if "disk_bytes" in row else {})
