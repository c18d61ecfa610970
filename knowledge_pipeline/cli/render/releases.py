"""Releases as rows, for programs and for people."""

from __future__ import annotations

import json
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
        "pinned_since": release.pinned_since and release.pinned_since.isoformat(timespec="seconds"),
        "ranker": release.ranker and json.loads(release.ranker),
        "spaces": dict(release.tables),
    }


def format_release_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `release_json` for people."""
    tables = ", ".join(f"{space} at version {version}" for space, version in row["spaces"].items())
    times = {name: format_time(row[name]) for name in ("created", "pinned_since")}
    ranker = "tuned" if row["ranker"] else "shipped"
    return {**row, **times, "ranker": ranker, "spaces": tables}
