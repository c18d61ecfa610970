"""How many cores work, and what they work off."""

from __future__ import annotations

import os
import threading

import pytest

from knowledge_pipeline.embedding.parallel import count_usable_cores, map_on_cores


@pytest.mark.parametrize(("limit", "cores"), [("", 6), ("4,2", 4), ("8", 6), ("0", 1), ("many", 6)])
def test_the_cores_of_the_process_are_used_up_to_the_limit_of_openmp(
    monkeypatch: pytest.MonkeyPatch, limit: str, cores: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)), raising=False)
    assert count_usable_cores() == cores


def test_where_a_process_has_no_cores_of_its_own_those_of_the_machine_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    counted = []
    for known in (3, None):
        monkeypatch.setattr(os, "cpu_count", lambda known=known: known)
        counted.append(count_usable_cores())
    assert counted == [3, 1]


def test_results_come_in_the_order_of_what_was_given_and_from_several_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    both = threading.Barrier(2)

    def double(number: int) -> int:
        both.wait(60)  # until another thread works too
        return 2 * number

    assert map_on_cores(double, [3, 1]) == [6, 2]
    assert map_on_cores(len, ["one"]) == [3] and map_on_cores(len, []) == []
