"""What an earlier version kept in files is taken over once: nothing that waited or was promised is lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import filelock

from knowledge_pipeline.serve.refresh_history import RefreshHistory
from knowledge_pipeline.serve.targets import Target, TargetPosition
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.local_state import FILE, SharedState, has_waiting_rows
from knowledge_pipeline.store.logs import append_rows, open_log
from knowledge_pipeline.store.progress import list_watchers

AT = datetime(2026, 3, 31, 12, tzinfo=UTC)
OWNER, LIVING = "0123456789abcdef" * 2, "fedcba9876543210" * 2
TARGET = Target("https://hooks.example/", bytes(32), ())


def write_lines(path: Path, *rows: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({**row, "at": AT.isoformat()}) + "\n" for row in rows) + '{"cut')


def judgement(result: str) -> dict:
    return {"query_id": "1", "result_id": result, "judgement": "useful", "tenant": None}


def test_rows_that_waited_are_in_their_tables_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    append_rows(lake, "feedback", [{**judgement("written"), "at": AT}])  # by the process that was killed then
    event = {"id": "evt_1", "type": "index.refreshed", "source": "docs", "release": None, "content": "{}"}
    write_lines(tmp_path / "logs" / "events.pending.jsonl", event)
    journal = tmp_path / "logs" / "judgements"
    write_lines(journal / f"{OWNER}.000001.jsonl", judgement("written"), judgement("waited"))
    write_lines(journal / f"{LIVING}.000001.jsonl", judgement("later"))
    with filelock.FileLock(journal / f"{LIVING}.lock"):
        rows = open_log(lake, "feedback").read_rows(["result_id"])["result_id"].to_pylist()
        assert sorted(rows) == ["waited", "written"]
        assert [path.name for path in journal.glob("*.jsonl")] == [f"{LIVING}.000001.jsonl"]
    assert open_log(lake, "feedback").count_rows() == 3
    assert open_log(lake, "events").count_rows() == 1
    assert not has_waiting_rows(tmp_path, "feedback") and not journal.exists()
    assert not list((tmp_path / "logs").glob("*.jsonl"))


def test_promised_refreshes_and_positions_go_on_and_the_rest_is_removed(tmp_path: Path) -> None:
    row = {"id": "r1", "sources": ["jira"], "reason": "jira", "documents": ["jira/1"], "relist": False}
    write_lines(tmp_path / "refreshes" / f"{OWNER}.000001.jsonl", row)
    write_lines(tmp_path / "refreshes" / f"{OWNER}.000002.jsonl", {**row, "documents": ["jira/2"]})
    write_lines(tmp_path / "refreshes" / f"{OWNER}.000003.jsonl", {**row, "id": "r2", "relist": True})
    TargetPosition(tmp_path, TARGET).save(7)
    with SharedState(tmp_path) as state:
        ((key, _),) = state.list_items("position")
        state.remove("position", key)
    for path in ("refreshes/history/shared.sqlite", f"watch/{OWNER}.json", "cache/counts.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    (tmp_path / "watch" / "notes.json").write_text("not ours")
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / f"{key}.json").write_text('{"position": 42}')
    secret = tmp_path / "serve" / "8321" / "shared.sqlite"
    secret.parent.mkdir(parents=True)
    secret.write_text("answers")

    assert TargetPosition(tmp_path, TARGET).load() == 42
    history = RefreshHistory(tmp_path)
    assert {refresh.status for refresh in history.list_all()} == {"interrupted"}
    first, second = history.take_over()
    assert (first.id, first.sources, first.documents, first.requested_at) == (
        *("r1", ("jira",), ("jira/1", "jira/2"), AT),
    )
    assert (second.id, second.relist) == ("r2", True) and history.take_over() == []
    history.close()
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in left if not path.startswith(("locks/", FILE))} == {"watch/notes.json"}
    assert list_watchers(tmp_path) == []
