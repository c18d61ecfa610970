"""A command that waits for another process says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knowledge_pipeline.store import locks
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.cli.conftest import Run


@contextmanager
def held_a_while(lake: Lake, source: str, seconds: float) -> Iterator[None]:
    held = threading.Event()

    def hold() -> None:
        with lake.lock_source(source):
            held.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    yield
    thread.join()


def test_a_refresh_that_waits_names_the_source(indexed: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(locks, "WARN_AFTER_S", 0.25)
    with held_a_while(Lake(indexed / ".knowledge"), "shop-docs", 5):
        told = run("refresh", "--source", "shop-docs").err
    assert "another process is working on source 'shop-docs': waiting for it, at most 599.75 s" in told
    with held_a_while(Lake(indexed / ".knowledge"), "shop-docs", 5):
        assert run("refresh", "--source", "shop-docs", "--json").err == ""
