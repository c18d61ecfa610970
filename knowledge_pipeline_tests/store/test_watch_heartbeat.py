"""What others can tell of a watcher: that it is well, hangs, was killed, or has ended."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from knowledge_pipeline.serve.status import check_watchers
from knowledge_pipeline.store.progress import PublishedHeartbeat, create_heartbeat, list_watchers

KILLED = """
import os, pathlib, sys
from knowledge_pipeline.store.progress import PublishedHeartbeat, create_heartbeat
held = PublishedHeartbeat(pathlib.Path(sys.argv[1]), create_heartbeat())
os.kill(os.getpid(), 9)
"""


def problems(folder: Path) -> list[str | None]:
    return [each.problem for each in list_watchers(folder)]


def test_a_watcher_is_known_while_it_lives_and_missed_when_it_was_killed(tmp_path: Path) -> None:
    assert (problems(tmp_path), check_watchers(tmp_path, with_counts=True).status) == ([], "absent")
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert problems(tmp_path) == ["it was killed: start `knowledge watch` again"]
    held = PublishedHeartbeat(tmp_path, create_heartbeat())
    assert problems(tmp_path) == [None]  # what the other has left is gone
    held.heartbeat.behind, held.heartbeat.sources = ("secret-source",), 3
    held.heartbeat.last_error = "secret-source: gone"
    held.write()
    health = check_watchers(tmp_path, with_counts=True)
    assert (health.status, health.watchers[0].behind, health.watchers[0].sources) == ("ok", 1, 3)
    assert "secret" not in str(health.as_json())
    health = check_watchers(tmp_path, with_counts=False)  # as anybody may ask
    assert (health.status, health.watchers[0].behind, health.watchers[0].sources) == ("ok", None, None)
    assert "behind" not in (health.detail or "")
    held.remove()
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    ("state", "silent_s", "polled_s", "problem"),
    [
        ("waiting", 30, 30, None),
        ("waiting", 90, 30, "not looked for changes for 90 s"),
        ("refreshing", 90, 30, None),
        ("refreshing", 2_000, 30, "not made progress for 2000 s"),
        ("starting", 90, None, None),
        ("waiting", 1, 400, "not checked remote repositories for 400 s"),
    ],
)
def test_one_that_hangs_is_told_within_a_stated_time(
    tmp_path: Path, state, silent_s, polled_s, problem
) -> None:
    beat = create_heartbeat()
    beat.state, beat.looked_at = state, time.time() - silent_s
    if polled_s is not None:
        beat.poll_s, beat.polled_at = 30.0, time.time() - polled_s
    held = PublishedHeartbeat(tmp_path, beat)
    (found,) = problems(tmp_path)
    held.remove()
    assert found is None if problem is None else problem in (found or "")
