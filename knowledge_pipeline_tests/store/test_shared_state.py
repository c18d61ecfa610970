"""What processes share: counted once, whole after a kill, and gone when it is over."""

from __future__ import annotations

import gc
import multiprocessing
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.store import local_state as shared_state
from knowledge_pipeline.store.local_state import FILE, SharedState, has_waiting_rows, leave_rows
from knowledge_pipeline_tests.full_disk import limited_files

ROW = {"query_id": "first", "at": datetime(2026, 1, 2, tzinfo=UTC)}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[SharedState]:
    with closing(SharedState(tmp_path)) as opened:
        yield opened


def count_requests(folder: Path, times: int, allowed: multiprocessing.Queue) -> None:
    with closing(SharedState(folder)) as state:
        allowed.put(sum(state.count_request("token", per_minute=60) is None for _ in range(times)))


def test_processes_that_ask_at_once_get_the_rate_and_not_one_more(tmp_path: Path, state: SharedState) -> None:
    spawn = multiprocessing.get_context("spawn")
    allowed = spawn.Queue()
    processes = [spawn.Process(target=count_requests, args=(tmp_path, 50, allowed)) for _ in range(3)]
    for each in processes:
        each.start()
    counts = [allowed.get(timeout=240) for _ in processes]
    for each in processes:
        each.join()
    assert sum(counts) == 60
    wait_s = state.count_request("token", per_minute=60)
    assert wait_s is not None
    assert 0 <= wait_s <= 60
    assert state.count_request("another", per_minute=60) is None


def test_a_minute_later_requests_count_no_longer(state: SharedState, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(shared_state.time, "monotonic", lambda: now)
    assert [state.count_request("token", per_minute=2) for _ in range(3)] == [None, None, 60.0]
    now += 59.0
    assert state.count_request("token", per_minute=2) == pytest.approx(1.0)
    now += 1.0
    assert state.count_request("token", per_minute=2) is None


def test_values_are_kept_until_they_are_over_and_by_kind(
    state: SharedState, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(shared_state.time, "time", lambda: now)
    assert state.put("session", "a", b"1", ttl_s=10)
    assert not state.put("session", "a", b"2", ttl_s=10)
    assert (state.get("session", "a"), state.get("answer", "a")) == (b"2", None)
    now += 10.0
    assert state.get("session", "a") is None
    assert state.put("session", "a", b"3", ttl_s=10)
    assert state.remove("session", "a")
    assert not state.remove("session", "a")


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with SharedState(tmp_path / "file") as state, pytest.raises(StoreUnavailable, match="cannot be used"):
        state.put("session", "a", b"1", ttl_s=10)
    assert not leave_rows(tmp_path / "file", "refreshes", [ROW])
    assert not has_waiting_rows(tmp_path / "file", "refreshes")


def test_a_file_that_is_damaged_is_begun_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 100)
    with SharedState(tmp_path) as state:
        assert state.get("session", "a") is None
    assert "is damaged, and begun anew" in caplog.text
    with SharedState(tmp_path) as state:
        for number in range(200):
            state.put("session", str(number), bytes(500), ttl_s=100)
    content = bytearray((tmp_path / FILE).read_bytes())
    content[5_000:60_000] = b"x" * 55_000
    (tmp_path / FILE).write_bytes(content)
    with SharedState(tmp_path, server="8321") as server, SharedState(tmp_path) as state:
        server.begin_server()
        assert state.list_items("session") == []
        assert state.put("session", "a", b"1", ttl_s=10)
    gc.collect()  # leaves no connection open, which would be a warning


def test_reading_makes_no_file_and_a_file_that_was_removed_is_made_again(tmp_path: Path) -> None:
    with SharedState(tmp_path / "store") as state:
        assert (state.get("session", "a"), state.list_items("session")) == (None, [])
        assert not state.has_rows("queries") and not state.take_rows("queries").rows
        assert not (tmp_path / "store").exists()
        state.put("session", "a", b"1", ttl_s=10)
        (tmp_path / "store" / FILE).unlink()
        assert state.get("session", "a") is None
        assert state.put("session", "a", b"1", ttl_s=10)
    assert (tmp_path / "store" / FILE).stat().st_mode & 0o777 == 0o600


def test_on_a_file_system_of_a_network_there_is_no_log_of_writes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(shared_state, "_is_on_network", lambda path: True)
    with SharedState(tmp_path) as state, SharedState(tmp_path) as other:
        state.put("session", "a", b"1", ttl_s=10)
        assert other.get("session", "a") == b"1" and other.count_request("token", per_minute=1) is None
        assert not (tmp_path / f"{FILE}-wal").exists()


def test_those_that_are_over_soonest_make_room_for_one_more(tmp_path: Path) -> None:
    with SharedState(None) as alone, SharedState(tmp_path) as state:
        for each in (alone, state):
            each.put("other", "a", b"", ttl_s=1)
            for number in range(5):
                each.put("session", str(number), b"", ttl_s=100 - number, max_entries=3)
            assert {key for key, _ in each.list_items("session")} == {"0", "1", "4"}
            assert each.get("other", "a") == b""


def test_a_server_begins_without_what_the_one_before_it_left(tmp_path: Path) -> None:
    with SharedState(tmp_path, server="1") as one, SharedState(tmp_path, server="2") as other:
        for state in (one, other):
            state.put("session", "a", b"1", ttl_s=10)
            state.count_request("token", per_minute=1)
        one.begin_server()
        assert (one.get("session", "a"), one.count_request("token", per_minute=1)) == (None, None)
        assert other.get("session", "a") == b"1" and other.count_request("token", per_minute=1) is not None


def test_what_a_full_disk_did_not_take_is_an_error_and_spoils_no_other(tmp_path: Path) -> None:
    with SharedState(tmp_path) as state:
        state.add_rows("queries", [ROW])
        size = (tmp_path / f"{FILE}-wal").stat().st_size
        with limited_files(size + 10), pytest.raises(StoreUnavailable):
            state.add_rows("queries", [{**ROW, "text": "x" * 10_000}])
        state.add_rows("queries", [{**ROW, "query_id": "third"}])
        assert [row["query_id"] for row in state.take_rows("queries").rows] == ["first", "third"]


def test_rows_that_were_taken_when_a_process_was_killed_may_be_in_the_table(tmp_path: Path) -> None:
    with SharedState(tmp_path) as state:
        state.add_rows("queries", [ROW, ROW])
        assert state.take_rows("queries").repeated == 0
        state.add_rows("queries", [ROW])
        taken = state.take_rows("queries")
        assert (len(taken.rows), taken.repeated) == (3, 2)
        state.add_rows("queries", [ROW])
        state.remove_taken("queries", taken)
        left = state.take_rows("queries")
        assert (left.rows, left.repeated) == ([ROW], 0)


def test_more_than_are_worth_a_commit_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_state, "MAX_WAITING_BYTES", 100)
    many = [ROW] * 10
    assert leave_rows(tmp_path, "refreshes", many) and has_waiting_rows(tmp_path, "refreshes")
    assert not leave_rows(tmp_path, "refreshes", many)
    assert leave_rows(tmp_path, "events", many)


def test_who_takes_a_value_over_takes_it_alone(state: SharedState) -> None:
    state.put("refresh", "a", b"1")
    assert state.replace("refresh", "a", b"1", b"2")
    assert not state.replace("refresh", "a", b"1", b"3")
    assert state.get("refresh", "a") == b"2"


def test_a_state_that_another_program_damaged_is_told(tmp_path: Path, state: SharedState) -> None:
    assert state.count_request("token", per_minute=2) is None
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        other.execute("drop table requests")
    with pytest.raises(StoreUnavailable):
        state.count_request("token", per_minute=2)


def test_where_a_folder_takes_no_file_what_is_there_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SharedState(tmp_path) as state:
        state.put("session", "a", b"1", ttl_s=10)

    def refuse(path: Path) -> sqlite3.Connection:
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error

    monkeypatch.setattr(shared_state, "_connect", refuse)
    with SharedState(tmp_path) as state:
        assert state.get("session", "a") == b"1"
    with SharedState(tmp_path) as state, pytest.raises(StoreUnavailable, match="unable to open"):
        state.put("session", "a", b"2", ttl_s=10)
