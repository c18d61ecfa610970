"""The model that tells which sources are stale, over a real store and over a log of refreshes."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.sql_models import run
from knowledge_pipeline.sql_models.configured_sources import build_configured_sources
from knowledge_pipeline.sql_models.files import load_models
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.code_versions import compute_code_versions
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.pipeline import SourceRefresh
from knowledge_pipeline.stages.store_summary import list_failures
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append_rows
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.sql_models.test_run import called, refreshed

NOW = datetime.now(UTC)
STAGES = ("snapshot", "chunks", "graph", "index")
CODE = compute_code_versions("code")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration that was written two hours ago."""
    path = tmp_path / "knowledge.yaml"
    path.write_text("")
    written = (NOW - timedelta(hours=2)).timestamp()
    os.utime(path, (written, written))
    return path


def read(lake: Lake, settings: Settings, config: Path | None) -> dict[str, dict[str, Any]]:
    sources = build_configured_sources(settings, config, compute_code_versions)
    rows = run.query_model(lake, load_models(), "stale_sources", limit=None, sources=sources).rows
    return {row["source"]: row for row in rows.to_pylist()}


def test_a_source_is_stale_for_what_changed_since_its_last_refresh(
    project: Project, tmp_path: Path, config: Path
) -> None:
    cases: dict[str, tuple[float, dict[str, str], dict[str, str], tuple[str, ...], str]] = {
        # hours since the refresh, other digests, other code, stages of a later refresh, reason
        "same": (3, {}, {}, (), ""),
        "later": (
            1,
            {"source": "0", "model": "0", "access": "0"},
            {},
            (),
            "",
        ),  # it applied them
        "filters": (3, {"source": "0"}, {}, (), "configuration changed"),
        "cutting": (3, {"chunking": "0"}, {}, (), "configuration changed"),
        "model": (3, {"model": "0"}, {}, (), "configuration changed"),
        "readers": (3, {"access": "0"}, {}, (), "configuration changed"),
        "chunker": (1, {}, {"chunks": "4-00000000"}, (), "code changed"),
        "resolver": (1, {}, {"graph": "4-1-1.0"}, (), "code changed"),
        "migrated": (1, {}, {"index": CODE["index"].replace("4-", "3-")}, (), ""),  # no row differs by that
        "overdue": (27, {}, {}, (), "overdue (on_commit)"),
        "stopped": (1, {}, {}, ("snapshot", "chunks"), "last refresh did not finish"),
        "all": (
            30,
            {"access": "0"},
            {"chunks": "4-0"},
            ("snapshot",),
            "configuration changed; code changed; overdue (on_commit); last refresh did not finish",
        ),
    }
    for name in (*cases, "new"):
        project.declare(name, "code", tmp_path, refresh={"trigger": "on_commit"})
    settings, rows = project.settings, list[dict[str, Any]]()
    for name, (hours, digests, code, later, _) in cases.items():
        (source,) = settings.select_sources([name])
        recorded = json.dumps(compute_settings_digests(settings, source) | digests, sort_keys=True)
        at = NOW - timedelta(hours=hours)
        rows += [
            refreshed(
                name, at, stage=stage, code=f"1.0-rc {({**CODE, **code})[stage]}", settings=recorded, run="r1"
            )
            for stage in STAGES
        ]
        rows += [refreshed(name, at + timedelta(minutes=5), stage=stage, run="r2") for stage in later]
    append_rows(project.lake, "refreshes", rows)
    found = read(project.lake, settings, config)
    assert {name: found[name]["reason"] for name in cases} == {name: case[4] for name, case in cases.items()}
    assert {row["state"] for row in found.values() if row["reason"]} == {"stale"}
    assert {row["state"] for row in found.values() if not row["reason"]} == {"fresh"}
    assert found["new"]["reason"] == "never refreshed" and next(iter(found)) == "new"
    assert (found["stopped"]["last_run"], found["same"]["last_run"]) == ("r2", "r1")


def test_what_is_stored_of_a_source_is_told_with_its_state(
    project: Project, tmp_path: Path, config: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nThe zeppelin leaves at noon.\n")
    for name in ("b", "c"):
        (folder / f"{name}.md").write_bytes(b"\x00\x01" * 100)
    project.declare("main", "markdown", folder)
    project.refresh()
    project.declare("killed", "markdown", folder)
    (source,) = project.settings.select_sources(["killed"])
    for _ in SourceRefresh(RefreshContext(project.lake, project.settings, source)).cut_and_index_words():
        pass  # nothing of it is in the log
    assert read(project.lake, project.settings, config)["killed"]["reason"] == "not finished yet"
    append_rows(project.lake, "llm_calls", [called(NOW, 0.5, kind="embedding", source="main")])
    row = read(project.lake, project.settings, config)["main"]
    assert (row["state"], row["reason"], row["rows"], row["unembedded"]) == ("fresh", "", 1, 0)
    assert (row["skipped"], row["cost"], row["last_run"]) == (2, 0.5, None)
    assert row["skipped_reasons"].endswith(": 2")
    project.sources["main"]["chunking"] = {"max_tokens": 64}
    os.utime(config)
    assert read(project.lake, project.settings, config)["main"]["reason"] == "configuration changed"
    project.refresh()
    assert read(project.lake, project.settings, config)["main"]["state"] == "fresh"
    del project.sources["main"]
    row = read(project.lake, project.settings, config)["main"]
    assert (row["state"], row["trigger"], row["source_type"]) == ("fresh", None, "markdown")


def test_a_source_whose_last_refresh_failed_says_since_when_and_why(
    project: Project, tmp_path: Path, config: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nThe zeppelin leaves at noon.\n")
    project.declare("main", "markdown", folder)
    project.refresh()
    folder.rename(tmp_path / "away")
    for _ in range(2):
        outcome = pipeline.refresh(project.lake, project.settings, project.settings.sources)
        assert "main" in outcome.failures
    row = read(project.lake, project.settings, config)["main"]
    assert row["state"] == "stale" and re.match(
        rf"failed since \d{{4}}-\d\d-\d\d \d\d:\d\d because the folder {folder} does not exist", row["reason"]
    )
    (failure,) = list_failures(project.lake)
    assert failure["source"] == "main" and "does not exist" in failure["problem"]
    failures = project.lake.log_table("refreshes").read_rows(["at"], eq("stage", "failed"))
    assert datetime.fromisoformat(failure["since"]) <= min(failures["at"].to_pylist())
    (tmp_path / "away").rename(folder)
    project.refresh()  # which changes nothing
    assert read(project.lake, project.settings, config)["main"]["state"] == "fresh"
    assert list_failures(project.lake) == []
