"""The log of events: each once, in one order, whoever records it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge_pipeline.store import logs as event_positions
from knowledge_pipeline.store.filters import at_least
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.local_state import FILE
from knowledge_pipeline.store.logs import find_newest_position, read_event_stamp, read_events, record_event

AT = datetime(2026, 3, 31, 12, tzinfo=UTC)


def refreshed(lake: Lake, source: str, at: datetime) -> None:
    record_event(lake, "index.refreshed", {"source": source}, at=at, source=source)


def test_events_are_read_once_each_in_the_order_of_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    assert (read_events(lake, after=0), find_newest_position(lake)) == ([], 0)
    empty = read_event_stamp(lake)
    for number in range(3):
        refreshed(lake, f"docs{number}", AT - timedelta(hours=number))  # recorded later, though it was before
    assert read_event_stamp(lake) != empty
    first = read_events(lake, after=0)
    assert [event.source for event in first] == ["docs0", "docs1", "docs2"]
    assert first[0].at == AT
    refreshed(lake, "docs1", AT - timedelta(hours=1))  # the same: a kill left its row in the file
    refreshed(lake, "docs1", AT)
    monkeypatch.setattr(event_positions.time, "time_ns", lambda: 1)  # a clock that was set back
    (new,) = read_events(lake, after=first[-1].position)
    assert (new.source, new.position) == ("docs1", find_newest_position(lake))
    assert new.position > first[-1].position and new.id not in {event.id for event in first}


def test_positions_grow_though_every_older_row_is_gone(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    refreshed(lake, "docs", AT)
    (before,) = read_events(lake, after=0)
    lake.log_table("events").delete_where(at_least("position", 0))
    refreshed(lake, "docs", AT + timedelta(seconds=1))
    (after,) = read_events(lake, after=before.position)
    assert after.position > before.position


def test_a_source_that_goes_on_failing_for_one_reason_is_one_event(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    steps = [("gone", 0), ("gone", 30), ("refused", 60), ("gone", 90), (None, 120), ("gone", 150)]
    for error, seconds in steps:
        at = AT + timedelta(seconds=seconds)
        if error is None:
            refreshed(lake, "docs", at)
        else:
            record_event(lake, "source.failed", {"error": error}, at=at, source="docs")
        read_events(lake, after=0)  # moves it into the table
    record_event(lake, "source.failed", {"error": "gone"}, at=at + timedelta(hours=2), source="docs")
    events = read_events(lake, after=0)
    assert [event.content.get("error") for event in events] == [
        "gone",
        "refused",
        "gone",
        None,
        "gone",
        "gone",
    ]


def test_nobody_is_told_where_the_disk_takes_nothing_and_nothing_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("logs", FILE):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.lance").write_text("in the way")
    refreshed(Lake(tmp_path), "docs", AT)
    assert "subscribers are not told of index.refreshed" in caplog.text
