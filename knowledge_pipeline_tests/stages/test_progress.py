"""What is reported while a source is embedded, and how long the rest is said to take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_pipeline.stages import embeddings
from knowledge_pipeline.stages.progress import ProgressCallback, StagePace
from knowledge_pipeline.store.local_state import SharedState
from knowledge_pipeline.store.progress import RefreshProgress, SourceProgress, list_running_refreshes
from knowledge_pipeline_tests.conftest import Project


def test_the_share_of_the_work_follows_the_length_of_texts(
    project: Project, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "TEXTS_PER_COMMIT", 4)
    made = tmp_path / "made"
    made.mkdir()
    for number in range(4):
        (made / f"a{number}.md").write_text(f"# Long {number}\n\n" + f"Many words of number {number}. " * 30)
        (made / f"b{number}.md").write_text(f"# Short {number}\n\nFew.\n")
    project.declare("docs", "markdown", made)
    reports: list[tuple[int, int | None, float | None]] = []
    shown: list[RefreshProgress] = []  # as another process reads it

    def report(stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
        shown.extend(list_running_refreshes(project.lake.folder))
        if stage == "embeddings":
            reports.append((done, total, share))

    def report_of(source: object) -> ProgressCallback:
        return report

    project.refresh(report=report_of)
    assert [(done, total) for done, total, _ in reports] == [(4, 8), (8, 8)]
    halfway, whole = (share for *_, share in reports)
    assert halfway is not None
    assert 0.7 < max(halfway, 1 - halfway) < 0.95
    assert whole == 1.0
    assert {each.source for each in shown} == {"docs"}
    assert [stage for stage in dict.fromkeys(each.stage for each in shown) if stage][:2] == [
        "snapshot",
        "chunks",
    ]
    assert list_running_refreshes(project.lake.folder) == []


KILLED = """
import os, pathlib, sys
from knowledge_pipeline.store.progress import SourceProgress
SourceProgress(pathlib.Path(sys.argv[1]), "docs").show()
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_not_shown_and_the_next_one_removes_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    progress = SourceProgress(tmp_path, "code")
    assert list_running_refreshes(tmp_path) == []
    with SharedState(tmp_path) as state:
        assert len(state.list_items("progress")) == 1
    progress.show()
    progress.report("chunks", 1, 9, 0.0, None)
    progress.report("chunks", 2, 9, 4.0, 2.0)  # too soon after the first
    (shown,) = list_running_refreshes(tmp_path)
    assert (shown.source, shown.stage, shown.done, shown.total) == ("code", "chunks", 1, 9)
    with SharedState(tmp_path) as state:
        assert len(state.list_items("progress")) == 1
    progress.hide()
    progress.report("chunks", 9, 9, 4.0, 0.0)
    assert list_running_refreshes(tmp_path) == []


def test_the_time_left_is_at_the_pace_since_the_first_report() -> None:
    pace = StagePace(100.0, 64, 640, 0.2)  # the model was loaded for the first 64
    assert pace.estimate_seconds_left(100.0, 64, 640, 0.2) is None
    assert pace.estimate_seconds_left(110.0, 128, 640, 0.4) == pytest.approx(30.0)
    assert pace.compute_rate(110.0, 128) == pytest.approx(6.4)


def test_of_an_unknown_number_no_time_is_left() -> None:
    pace = StagePace(0.0, 0, None, None)
    assert pace.estimate_seconds_left(10.0, 500, None, None) is None
