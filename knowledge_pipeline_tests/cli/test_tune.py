"""`knowledge tune`, as people and programs see it."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import publish_ranker
from knowledge_pipeline_tests.cli.conftest import Run
from knowledge_pipeline_tests.stages.tuning.test_tune import MISLED, MISLED_WEIGHTS, write_misleading_names


def test_tuning_shows_what_it_learned_and_a_rollback_takes_it_back(tmp_path: Path, home: Path, run: Run):
    write_misleading_names(tmp_path / "app")
    run("index", "--repo", str(tmp_path / "app"))
    publish_ranker(Lake(home / ".knowledge"), MISLED.to_json(), keep=10)
    shown = run("tune", "--dry-run").out
    assert "all held out" in shown and "file_name" in shown
    assert "The learned weights are better: `knowledge tune` releases them." in shown
    made = run("tune", "--json").json
    assert made["released"] == made["asked_release"] + 1 and made["problem"] is None
    assert made["held_out"]["verdict"] == "better" and made["pairs"] == {"commit": 70}
    newest, *_ = run("releases", "--json").json["releases"]
    assert newest["ranker"]["one_family"]["weights"]["file_name"] == made["weights"]["learned"]["file_name"]
    assert "tuned" in run("releases").out
    run("rollback", str(made["asked_release"]))
    restored, *_ = run("releases", "--json").json["releases"]
    assert restored["ranker"]["one_family"]["weights"]["file_name"] == MISLED_WEIGHTS["file_name"]
    refused = run("tune", code=4)
    assert "is pinned" in refused.err and "--dry-run" in refused.err


def test_tuning_an_empty_store_is_one_sentence(home: Path, run: Run):
    assert "nothing is released yet: run `knowledge index`" in run("tune", code=3).err
