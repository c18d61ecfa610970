"""What refreshes and releases leave for subscribers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.events import record_failure
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.logs import read_events, record_missing_releases
from knowledge_pipeline_tests.conftest import Project


def test_a_refresh_is_told_by_what_it_changed(project: Project, tmp_path: Path) -> None:
    folder, gone = tmp_path / "docs", tmp_path / "gone"
    for each in (folder, gone):
        each.mkdir()
        (each / "a.md").write_text("# First\n\nWords of ann@example.org.\n")
    project.declare("docs", "markdown", folder)
    project.declare("gone", "markdown", gone)
    shutil.rmtree(gone)

    def new_events() -> list[tuple[str, str | None]]:
        events = read_events(lake, after=seen[-1].position if seen else 0)
        seen.extend(events)
        return [(event.type, event.source) for event in events]

    lake, seen = project.lake, []
    project.refresh()
    expected = [("source.failed", "gone"), ("index.refreshed", "docs"), ("release.published", None)]
    assert new_events() == expected
    failed, refreshed, released = (event.content for event in seen)
    assert failed["kind"] == "SourceRefused" and "\n" not in failed["error"]
    assert refreshed["documents"] == {"added": 1, "changed": 0, "removed": 0}
    assert refreshed["chunks"]["total"] == refreshed["chunks"]["added"] == released["rows"] == 1
    assert (released["release"], released["embedded_share"], len(released["spaces"])) == (1, 1.0, 1)

    project.refresh()
    assert new_events() == []  # nothing changed, and what fails is told already
    (folder / "b.md").write_text("# Second\n")
    project.refresh()
    assert new_events() == [("index.refreshed", "docs"), ("release.published", None)]

    ctx = RefreshContext(lake, project.settings, project.settings.sources[0])
    with pytest.raises(Busy), record_failure(ctx):  # another process refreshes it, which is no failure
        raise Busy("another process refreshes 'docs'")
    assert new_events() == []

    roll_back_release(lake, project.settings, 1)  # nothing but the table of releases says so
    record_missing_releases(lake)
    record_missing_releases(lake)
    assert new_events() == [("release.published", None)]
    assert (seen[-1].content["release"], seen[-1].content["restores"]) == (3, 1)
