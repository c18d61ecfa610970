"""What a source's `since` means: a date, a time, or a span before now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from knowledge_pipeline.errors import ConfigError

_DURATION = re.compile(r"^(?P<count>\d{1,5}) ?(?P<unit>hour|day|week|month|year)s?(?: ago)?$", re.IGNORECASE)
_DAYS_PER_UNIT = {"hour": 1 / 24, "day": 1, "week": 7, "month": 365.25 / 12, "year": 365.25}


def parse_since(since: str, now: datetime | None = None) -> datetime:
    """The moment that a `since` names: a date ("2024-01-31"), a time, or a span before `now` ("180 days").

    Raises:
        ConfigError: it is neither; git would take it for the present moment.
    """
    span = _DURATION.match(since.strip())
    try:
        if span:
            days = int(span["count"]) * _DAYS_PER_UNIT[span["unit"].lower()]
            return (now or datetime.now(UTC)) - timedelta(days=days)
        moment = datetime.fromisoformat(since.strip())
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"since is {since!r}, which is no date: write it like 2024-01-31, or as a span like 180 days"
        ) from error
