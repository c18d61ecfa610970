"""Progress lines: rare, with a rate and the time left."""

import logging
from typing import Any

import pytest

from knowledge_pipeline.defs.runs import build_progress_report


def lines(caplog: pytest.LogCaptureFixture, steps: list[tuple[Any, ...]]) -> list[str]:
    """What is written when these reports come at these seconds."""
    now = [0.0]
    caplog.set_level(logging.INFO)
    report = build_progress_report(logging.getLogger("progress"), "docs", clock=lambda: now[0])
    for second, *progress in steps:
        now[0] = second
        report(*progress)
    return [record.getMessage() for record in caplog.records]


def test_quick_work_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, [(0.1, "chunks", 1, 2), (4.9, "chunks", 2, 2)]) == []


def test_long_work_writes_a_line_every_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    written = lines(caplog, [(second / 2, "chunks", second * 10, 1000) for second in range(61)])
    assert len(written) == 6
    assert written[1] == "docs: chunks 200 of 1000, 20 a second, 40 s left"


def test_an_unknown_total_tells_no_time_left(caplog: pytest.LogCaptureFixture) -> None:
    written = lines(caplog, [(0.0, "listing", 0, None), (10.0, "listing", 5000, None)])
    assert written == ["docs: listing 5000, 500 a second"]


def test_the_time_left_follows_the_share_of_the_work_where_some_take_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = lines(caplog, [(0.0, "embeddings", 0, 100, 0.0), (10.0, "embeddings", 20, 100, 0.5)])
    assert written == ["docs: embeddings 20 of 100, 2 a second, 10 s left"]
