"""Rows that wait for their table are all found, but for one that a kill has cut off."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from knowledge_pipeline.store.lake import Lake, add_pending_rows, read_pending_rows

AT = datetime(2026, 3, 31, 12, tzinfo=UTC)


def test_a_row_that_a_kill_cut_off_spoils_no_other(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rows = [{"at": AT, "source": f"docs{number}"} for number in range(3)]
    add_pending_rows(lake, "refreshes", rows[:2])
    file = tmp_path / "logs" / "refreshes.pending.jsonl"
    file.write_bytes(file.read_bytes()[:-5])
    add_pending_rows(lake, "refreshes", rows[2:])
    assert read_pending_rows(lake, "refreshes") == [rows[0], rows[2]]
