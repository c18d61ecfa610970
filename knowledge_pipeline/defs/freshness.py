"""How old an asset may become before the UI warns."""

from datetime import timedelta

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources.source import Trigger, resolve_trigger
from knowledge_pipeline.contract.types import SourceType

_DAILY = (timedelta(hours=26), timedelta(hours=50))
_WINDOWS: dict[Trigger, tuple[timedelta, timedelta]] = {
    "hourly": (timedelta(minutes=75), timedelta(hours=3)),
    "realtime": _DAILY,  # even without a change, the daily refresh is recorded
    "on_commit": _DAILY,
    "daily": _DAILY,
    "weekly": (timedelta(days=8), timedelta(days=15)),
}
"""Warn and fail windows, the tightest first: one missed tick warns, two fail."""


def build_freshness_policy(settings: Settings, source_type: SourceType | None = None) -> dg.FreshnessPolicy:
    """The window for a type's `index`, or for the release: by the tightest trigger among the sources.

    Dagster judges an asset by its newest partition; the check `fresh` finds a single source that is late.
    """
    triggers = {resolve_trigger(source) for source in settings.sources if source_type in (source.type, None)}
    warn, fail = next((window for trigger, window in _WINDOWS.items() if trigger in triggers), _DAILY)
    return dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn)
