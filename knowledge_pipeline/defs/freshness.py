"""How old an asset may become before the UI says so."""

from collections.abc import Collection
from datetime import timedelta

import dagster as dg

from knowledge_pipeline.config.settings import Settings, Trigger, resolve_trigger
from knowledge_pipeline.contract.types import SourceType

_DAILY = (timedelta(hours=26), timedelta(hours=50))
_WINDOWS: dict[Trigger, tuple[timedelta, timedelta]] = {
    "hourly": (timedelta(minutes=75), timedelta(hours=3)),
    "realtime": _DAILY,  # nothing may have changed for long; the daily reconcile records it anyway
    "on_commit": _DAILY,
    "daily": _DAILY,
    "weekly": (timedelta(days=8), timedelta(days=15)),
}
"""Warn and fail windows, the tightest first: one missed tick warns, a second one fails."""


def build_freshness_policy(source_type: SourceType, settings: Settings) -> dg.FreshnessPolicy:
    """The window for a type's `index`, by the tightest trigger among its sources.

    Dagster judges an asset by the newest of its partitions; that a single source fell behind is for
    a check to tell.
    """
    return _build_policy(
        {resolve_trigger(source) for source in settings.sources if source.type == source_type}
    )


def build_release_freshness_policy(settings: Settings) -> dg.FreshnessPolicy:
    """The window for the release, which follows every refresh: the tightest of all sources."""
    return _build_policy({resolve_trigger(source) for source in settings.sources})


def _build_policy(triggers: Collection[Trigger]) -> dg.FreshnessPolicy:
    warn, fail = next((window for trigger, window in _WINDOWS.items() if trigger in triggers), _DAILY)
    return dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn)
