"""What processes share: counted once, whole after a kill, and gone when it is over."""

from __future__ import annotations

import gc
import multiprocessing
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.store import local_state as shared_state
from knowledge_pipeline.store.local_state import SharedState


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
    monkeypatch.setattr(shared_state.time, "time", lambda: now)
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
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        SharedState(tmp_path / "file")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "shared.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StoreUnavailable, match="cannot be opened: file is not a database"):
        SharedState(tmp_path / "damaged")  # and leaves no connection open, which would be a warning
    gc.collect()


def test_a_state_that_another_program_damaged_is_told(tmp_path: Path, state: SharedState) -> None:
    with closing(sqlite3.connect(tmp_path / "shared.sqlite")) as other:
        other.execute("drop table requests")
    with pytest.raises(StoreUnavailable):
        state.count_request("token", per_minute=2)
