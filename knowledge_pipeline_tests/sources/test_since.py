"""What a source's `since` means."""

from datetime import UTC, datetime, timedelta

import pytest

from knowledge_pipeline.sources.time_window import parse_since

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "moment"),
    [
        ("2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("2024-01-31T10:00:00Z", datetime(2024, 1, 31, 10, tzinfo=UTC)),
        ("180 days", NOW - timedelta(days=180)),
        ("2 weeks ago", NOW - timedelta(days=14)),
        ("1 year", NOW - timedelta(days=365.25)),
    ],
)
def test_since_is_a_date_or_a_span(since, moment):
    assert parse_since(since, NOW) == moment
