"""The journal of a log, on a disk that takes a part of a line and then no more."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge_pipeline.store.journal import Journal
from knowledge_pipeline_tests.full_disk import limited_files


def test_a_line_that_a_full_disk_cut_is_an_error_and_spoils_no_other(tmp_path: Path) -> None:
    journal, at = Journal(tmp_path), datetime(2026, 1, 2, tzinfo=UTC)
    journal.append({"query_id": "first", "at": at})
    (written,) = tmp_path.glob("*.jsonl")
    with limited_files(written.stat().st_size + 10), pytest.raises(OSError):
        journal.append({"query_id": "second", "at": at})
    journal.append({"query_id": "third", "at": at})
    journal.close()
    (rows,) = [rows for _, rows in Journal(tmp_path).iter_orphaned()]
    assert [row["query_id"] for row in rows] == ["first", "third"]
