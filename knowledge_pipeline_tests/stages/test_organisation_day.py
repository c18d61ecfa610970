"""A small organisation for a day: events and polls leave what a full index does, and nobody sees more."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.organisation_day import run_day
from knowledge_pipeline_tests.fakes.organisation_day import DAY
from knowledge_pipeline_tests.fakes.organisation_services import MemberKind

HOURS = (0, 3, 6, 9, 8, 15, 12, 20)


@pytest.mark.slow
def test_a_day_of_events_and_polls_leaves_what_a_full_index_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    sizes: dict[MemberKind, int] = {"repository": 4, "project": 2, "space": 2, "channel": 3}
    report = run_day(tmp_path, sizes, hours=[DAY[each] for each in HOURS], hours_at_once=4)
    assert report.problems == []
    assert {"edit", "deletion", "lost permission", "new permission"} <= report.searchable_s.keys()
    assert report.after_kill_s and report.readers_checked and report.rows and sum(report.healed)
