"""Times and durations as people, services and files write them. A time without a zone is UTC."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from knowledge_pipeline.errors import ConfigError, InvalidQuery

_DURATION = re.compile(r"(\d{1,5})\s*([a-z]+)")
_DATE = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?")
_SOURCE_UNITS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 365.25 / 12, "year": 365.25}
_QUERY_UNITS = {"d": 1.0, "w": 7.0, "m": 30.0, "y": 365.0}
_AGE_UNITS = {
    **{"s": 1 / 86400, "m": 1 / 1440, "min": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0},
}
_MIN_EPOCH_S = 1_000_000_000  # a smaller number is seconds from now, a larger one a time
_MAX_EPOCH_S = 4_000_000_000.0  # the year 2096: datetime cannot hold every later time, nor infinity


def ensure_zone(moment: datetime) -> datetime:
    """The same moment; one without a zone is in UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_time(text: str) -> datetime:
    """An ISO 8601 date or time. Raises ValueError."""
    return ensure_zone(datetime.fromisoformat(text))


def parse_duration(text: str, days_per_unit: Mapping[str, float]) -> timedelta | None:
    """A duration such as "12h" or "180 days", in one of the units given; None if it is none."""
    match = _DURATION.fullmatch(text)
    days = days_per_unit.get(match[2]) if match else None
    return timedelta(days=int(match[1]) * days) if match and days else None


def parse_age(text: str) -> timedelta:
    """A span such as "180d", "26 weeks" or "2 years". Raises ValueError."""
    units = {**_SOURCE_UNITS, **_QUERY_UNITS}
    age = parse_duration(re.sub(r"(?<=[a-z])s$", "", text.strip().lower()), units)
    if age is None:
        raise ValueError(f"found {text[:40]!r}; allowed: a span such as 180d, 26 weeks or 2 years")
    return age


def parse_since(since: str, now: datetime | None = None) -> datetime:
    """The moment of a source's `since`: a date, a time, or a duration before `now` ("180 days").

    Raises `ConfigError`: it is none of these.
    """
    text = since.strip()
    try:
        duration = parse_duration(re.sub(r"s?( ago)?$", "", text.lower()), _SOURCE_UNITS)
        return (now or datetime.now(UTC)) - duration if duration is not None else parse_time(text)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"since is {since!r}, which is not a date: write it like 2024-01-31, "
            "or as a duration like 180 days"
        ) from error


def parse_query_time(name: str, value: str, now: datetime | None = None) -> datetime:
    """The moment of a query's `since` or `until`: a date, a month, a year, or a span before now ("30d").

    A name that ends with `since` means the start of a period, one with `until` its end.

    Raises `InvalidQuery`: it is none of these.
    """
    try:
        if (duration := parse_duration(value, _QUERY_UNITS)) is not None:
            return (now or datetime.now(UTC)) - duration
        if (date := _DATE.fullmatch(value)) is None:
            return parse_time(value)
        start = datetime(int(date[1]), int(date[2] or 1), int(date[3] or 1), tzinfo=UTC)
        if name.endswith("since"):
            return start
        if date[3]:
            return start + timedelta(days=1)
        return (start + timedelta(days=31)).replace(day=1) if date[2] else start.replace(year=start.year + 1)
    except (ValueError, OverflowError):
        raise InvalidQuery(
            f"found {name}:{value[:40]}; allowed: a date such as {name}:2024-01-31, "
            f"or a span such as {name}:30d"
        ) from None


def parse_max_age(text: str) -> timedelta:
    """How old an answer may be: `15m`, `2h`, `1d`. Raises `InvalidQuery`: it is no such span."""
    age = parse_duration(text.strip().lower(), _AGE_UNITS)
    if age is None:
        raise InvalidQuery(f"found max_age {text[:40]!r}; allowed: a span such as 30s, 15m, 2h or 1d")
    return age


def format_span(span: timedelta) -> str:
    """`40 s`, `12 min`, `3 h`, `2 days`."""
    seconds = max(0, round(span.total_seconds()))
    for unit_s, unit, most in ((1, "s", 100), (60, "min", 100), (3600, "h", 48)):
        if seconds < unit_s * most:
            return f"{seconds // unit_s} {unit}"
    return f"{seconds // 86400} days"


def parse_retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header (RFC 9110 §10.2.3) asks a client to wait; None if it says nothing.

    The header holds seconds or a date. Limits of services are also given as Unix times and as ISO 8601
    times. A time gets one second more, because clocks differ.
    """
    value = (value or "").strip()
    with suppress(ValueError):
        number = min(float(value), _MAX_EPOCH_S)
        return max(0.0, number - time.time() + 1.0) if number > _MIN_EPOCH_S else max(0.0, number)
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, OverflowError):
            return max(0.0, ensure_zone(parse(value)).timestamp() - time.time() + 1.0)
    return None


def format_rate(per_second: float) -> str:
    """`22/s`, or two digits if it is slow."""
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.2g}/s"


def format_duration(seconds: float) -> str:
    """`0:21`, `12:05`, `2:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
