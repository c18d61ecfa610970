"""Locks between real processes."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store import locks
from knowledge_pipeline.store.locks import acquire_lock


def hold(folder: Path, held: Event) -> None:
    with acquire_lock(folder, "index", timeout_s=60):
        held.set()
        time.sleep(600)


def test_a_second_process_is_told_and_a_killed_holder_leaves_nothing_behind(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    held = spawn.Event()
    holder = spawn.Process(target=hold, args=(tmp_path, held))
    holder.start()
    assert held.wait(120)
    with (
        pytest.raises(Busy, match="another process is working on 'index'"),
        acquire_lock(tmp_path, "index", timeout_s=0.1),
    ):
        pass
    holder.kill()
    holder.join()
    assert holder.exitcode == -signal.SIGKILL
    with acquire_lock(tmp_path, "index", timeout_s=60):
        pass


def test_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    with acquire_lock(tmp_path / "locks", "../../x", timeout_s=1):
        pass
    assert [path.parent.name for path in tmp_path.rglob("*.lock")] == ["locks"]


def test_a_long_wait_is_told_and_then_the_lock_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks, "WARN_AFTER_S", 0.2)

    def kill_once_told() -> None:
        while not caplog.records:
            time.sleep(0.01)
        holder.kill()

    spawn = multiprocessing.get_context("spawn")
    held = spawn.Event()
    holder = spawn.Process(target=hold, args=(tmp_path, held))
    holder.start()
    assert held.wait(120)
    killing = threading.Thread(target=kill_once_told)
    killing.start()
    with acquire_lock(tmp_path, "index", timeout_s=120, description="the index"):
        killing.join(60)
        holder.join(60)
        assert holder.exitcode == -signal.SIGKILL
    assert [record.getMessage() for record in caplog.records] == [
        "another process is working on the index: waiting for it, at most 119.8 s"
    ]


def test_a_lock_that_is_free_is_taken_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with acquire_lock(tmp_path, "index", timeout_s=0):
        pass
    assert caplog.records == []
