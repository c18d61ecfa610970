"""`--dagster`: the same refresh, recorded; the command line itself never imports Dagster."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Run

pytestmark = [pytest.mark.slow, pytest.mark.storage, pytest.mark.usefixtures("dagster_home")]


def test_a_recorded_refresh_leaves_what_a_plain_one_would(indexed: Path, shop: Path, run_program: Run):
    (shop / "src" / "new.py").write_text("def brand_new():\n    return 7\n")
    recorded = run_program("refresh", "--source", "shop-code", "--dagster", "--json").json
    assert recorded["failure"] is None
    plain = run_program("refresh", "--source", "shop-code", "--json").json
    assert plain["release"]["release"] == 2 and plain["release"]["new"] is False
    assert plain["sources"][0]["added"] == plain["sources"][0]["changed"] == 0
    told = run_program("refresh", "--source", "shop-code", "--dagster")
    assert "The run is recorded" in told.out


def test_a_recorded_failure_is_one_sentence_and_a_code(indexed: Path, shop: Path, run_program: Run):
    (shop / "docs" / "guide.md").unlink()
    failed = run_program("refresh", "--source", "shop-docs", "--dagster", "--json", code=1).json
    assert "--allow-empty" in failed["failure"]
    assert [(each["source"], each["temporary"]) for each in failed["failures"]] == [("shop-docs", False)]
    done = run_program("refresh", "--source", "shop-docs", "--dagster", "--allow-empty", "--json").json
    assert done["failure"] is None
