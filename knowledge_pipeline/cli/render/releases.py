"""Releases as rows, for programs and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.terminal_text import format_time

if TYPE_CHECKING:
    from knowledge_pipeline.store.release import Release


def release_json(release: Release, *, live: bool) -> dict[str, Any]:
    """A release for programs."""
    return {
        "release": release.release,
        "live": live,
        "created": release.created_at.isoformat(timespec="seconds"),
        "rows": release.rows,
        "restores": release.restores,
        "spaces": dict(release.tables),
    }


def format_release_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `release_json` for people."""
    tables = ", ".join(f"{space} at version {version}" for space, version in row["spaces"].items())
    return {**row, "created": format_time(row["created"]), "spaces": tables}
