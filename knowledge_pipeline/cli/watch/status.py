"""`watch --status`: how the watchers of a store are."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

import typer

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.watch.heartbeat import WatcherReport, list_watchers

_TIMES = ("started_at", "looked_at", "last_error_at", "polled_at")


def show_watchers(session: Session) -> None:
    """Print each watcher; end with exit code 1 if one is unhealthy, or none runs."""
    reports = list_watchers(Lake(session.settings.store).folder)
    is_healthy = bool(reports) and all(each.problem is None for each in reports)
    if session.as_json:
        watchers = [_to_json(each) for each in reports]
        session.screen.print_json({"healthy": is_healthy, "watchers": watchers})
    elif not reports:
        session.screen.print_text("No watcher runs on this store: start `knowledge watch`.")
    else:
        session.screen.print_table([_to_row(each) for each in reports])
        for each in reports:
            for sentence in filter(None, (each.problem, each.heartbeat.last_error)):
                session.screen.print_text(f"{each.heartbeat.pid}: {sentence}")
    if not is_healthy:
        raise typer.Exit(FAILED)


def _to_json(report: WatcherReport) -> dict[str, Any]:
    values = asdict(report.heartbeat)
    for name in _TIMES:
        at = values[name]
        values[name] = None if at is None else datetime.fromtimestamp(at).astimezone().isoformat()
    return {**values, "healthy": report.problem is None, "problem": report.problem}


def _to_row(report: WatcherReport) -> dict[str, Any]:
    beat = report.heartbeat
    doing = f"refreshes {', '.join(beat.refreshing)}" if beat.refreshing else f"waits for {beat.waits_for}"
    return {
        "pid": str(beat.pid),
        "health": "unhealthy" if report.problem else "ok",
        "looked": f"{datetime.fromtimestamp(beat.looked_at):%H:%M:%S}",
        "doing": doing if beat.state != "starting" else "starts",
        "sources": beat.sources,
        "behind": ", ".join(beat.behind) or "none",
    }
