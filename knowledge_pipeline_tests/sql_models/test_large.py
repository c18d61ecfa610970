"""A million rows within one gigabyte, and thousands of small tables within seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 1_000_000
MOST_MB = 1024


def large_store(*arguments: str) -> str:
    command = [sys.executable, "-m", "knowledge_pipeline_tests.stages.large_store", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=3000).stdout


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_all_models_over_a_million_rows_stay_within_one_gigabyte(tmp_path: Path) -> None:
    large_store("make", str(tmp_path), str(ROWS))
    told = json.loads(large_store("run", str(tmp_path)))
    assert told["made"]["stg_chunks"][0] == told["made"]["stg_index"][0] == ROWS
    assert told["made"]["document_links"][0] > ROWS
    assert told["peak_mb"] < MOST_MB, told
