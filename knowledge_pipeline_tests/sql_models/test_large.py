"""Many rows are modelled within the memory that DuckDB may take, beside the rest of a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 400_000
MOST_MB = 900  # without a limit, it takes 1,100


def large_store(*arguments: str) -> str:
    command = [sys.executable, "-m", "knowledge_pipeline_tests.stages.large_store", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=3000).stdout


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_all_models_over_many_rows_stay_within_the_memory_that_they_may_take(tmp_path: Path) -> None:
    large_store("make", str(tmp_path), str(ROWS))
    told = json.loads(large_store("run", str(tmp_path)))
    assert told["made"]["stg_chunks"][0] == told["made"]["stg_index"][0] == ROWS
    assert told["made"]["document_links"][0] > ROWS
    assert told["peak_mb"] < MOST_MB, told
