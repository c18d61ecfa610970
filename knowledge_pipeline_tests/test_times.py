"""Times and durations as people and services write them."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from knowledge_pipeline.errors import ConfigError, InvalidQuery
from knowledge_pipeline.times import parse_duration, parse_query_time, parse_retry_after, parse_since

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "moment"),
    [
        ("2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("2024-01-31T10:00:00Z", datetime(2024, 1, 31, 10, tzinfo=UTC)),
        ("180 days", NOW - timedelta(days=180)),
        ("2 Weeks ago", NOW - timedelta(days=14)),
        ("6 months", NOW - timedelta(days=365.25 / 2)),
        ("1 year", NOW - timedelta(days=365.25)),
        ("36 hours", NOW - timedelta(hours=36)),
    ],
)
def test_a_sources_since_is_a_date_or_a_duration(since, moment):
    assert parse_since(since, NOW) == moment


@pytest.mark.parametrize("since", ["soon", "7d", "99999 years", "2024-13-01", ""])
def test_a_sources_since_that_is_neither_is_refused(since):
    with pytest.raises(ConfigError, match="not a date"):
        parse_since(since, NOW)


@pytest.mark.parametrize(
    ("value", "since", "until"),
    [
        ("30d", NOW - timedelta(days=30), NOW - timedelta(days=30)),
        ("2m", NOW - timedelta(days=60), NOW - timedelta(days=60)),
        ("2024", datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        ("2024-12", datetime(2024, 12, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
    ],
)
def test_a_querys_bounds_are_the_start_and_the_end_of_a_period(value, since, until):
    assert parse_query_time("since", value, NOW) == since
    assert parse_query_time("until", value, NOW) == until


@pytest.mark.parametrize("value", ["soon", "180 days", "9999y", "2024-13", ""])
def test_a_querys_bound_that_is_no_time_is_refused(value):
    with pytest.raises(InvalidQuery, match="allowed: a date such as since:2024-01-31"):
        parse_query_time("since", value, NOW)


def test_a_duration_has_only_the_units_that_its_reader_knows():
    assert parse_duration("12h", {"h": 1 / 24}) == timedelta(hours=12)
    assert parse_duration("0h", {"h": 1 / 24}) == timedelta(0)
    assert parse_duration("12d", {"h": 1 / 24}) is None


def test_retry_after_is_seconds_a_date_or_a_unix_time():
    date = datetime.now(UTC) + timedelta(seconds=60)
    assert parse_retry_after("7") == 7
    assert parse_retry_after("-7") == 0
    for value in (format_datetime(date, usegmt=True), date.isoformat(), str(time.time() + 60)):
        assert 55 < (parse_retry_after(value) or 0) < 65


@pytest.mark.parametrize("value", [None, "", "soon"])
def test_retry_after_that_says_nothing_is_none(value):
    assert parse_retry_after(value) is None


def test_even_the_end_of_time_is_a_time():
    assert (parse_retry_after("inf") or 0) > 1e9
    assert (parse_retry_after("99999999999999") or 0) > 1e9
