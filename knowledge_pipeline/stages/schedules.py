"""The sources that a schedule refreshes, by `knowledge.yaml` alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from knowledge_pipeline.config.connections.repositories import GitConnection
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources.source import SourceConfig, Trigger, resolve_trigger

Schedule = Literal["hourly", "daily", "weekly", "weekly_reindex", "monthly_reindex"]

_TRIGGERS: dict[Schedule, frozenset[Trigger]] = {
    "hourly": frozenset({"hourly"}),
    # The last three catch up on an overlooked commit, or a file that changed while nothing watched.
    "daily": frozenset({"daily", "on_commit", "realtime", "hourly"}),
    "weekly": frozenset({"weekly"}),
}
_REINDEX_INTERVALS: dict[Schedule, str] = {"weekly_reindex": "weekly", "monthly_reindex": "monthly"}


def list_scheduled_sources(settings: Settings, schedule: Schedule) -> list[SourceConfig]:
    """The sources that a schedule refreshes, those of one repository together."""
    if interval := _REINDEX_INTERVALS.get(schedule):
        sources = [source for source in settings.sources if source.refresh.full_reindex == interval]
    else:
        sources = [source for source in settings.sources if resolve_trigger(source) in _TRIGGERS[schedule]]
    return sort_by_repository(sources)


def sort_by_repository(sources: Iterable[SourceConfig]) -> list[SourceConfig]:
    """Sort sources by address and branch, or by folder, so that those of one repository are adjacent."""

    def key(source: SourceConfig) -> tuple[str, str]:
        connection = source.connection
        if isinstance(connection, GitConnection):
            return connection.url.removesuffix("/").removesuffix(".git"), connection.branch or ""
        return connection.location, ""

    return sorted(sources, key=key)
