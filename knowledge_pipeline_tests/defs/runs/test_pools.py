"""Turns in pools, on an instance with the limits of the project's `dagster.yaml`."""

import threading
import time
from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import embeddings, index
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline_tests.defs.conftest import Workplace

pytestmark = pytest.mark.storage

OTHER = "another run"


@pytest.fixture(autouse=True)
def _every_turn_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for work that is shorter than a turn."""
    monkeypatch.setattr(embeddings, "SLOT_MIN_TEXTS", 0)
    monkeypatch.setattr(index, "SLOT_MIN_ROWS", 0)


@pytest.fixture
def limited(dagster_home: Path):
    """An instance whose pools have one place each."""
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        yield instance


def until(condition) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.sampled
@pytest.mark.parametrize("pool", ["index", "127.0.0.1"])
def test_a_step_waits_for_its_turn_and_gives_it_back(
    workplace: Workplace, limited: dg.DagsterInstance, pool: str
) -> None:
    workplace.declare("one", a_py="def f():\n    return 1\n")
    storage = limited.event_log_storage
    storage.set_concurrency_slots(pool, 1)
    assert storage.claim_concurrency_slot(pool, OTHER, "step").is_claimed
    waited = []

    def free_once_it_waits() -> None:
        until(lambda: storage.get_concurrency_info(pool).pending_step_count)
        waited.append(limited.get_runs()[0].status)
        storage.free_concurrency_slots_for_run(OTHER)

    freeing = threading.Thread(target=free_once_it_waits)
    freeing.start()
    assert workplace.run(limited, "refresh_code", "one").success
    freeing.join()
    assert waited == [dg.DagsterRunStatus.STARTED]
    held = storage.get_concurrency_info(pool)
    assert (held.active_slot_count, held.pending_step_count) == (0, 0)


@pytest.mark.slow
def test_a_limit_that_a_person_set_is_left_alone(workplace: Workplace, limited: dg.DagsterInstance) -> None:
    workplace.declare("one", a_py="def f():\n    return 1\n")
    limited.event_log_storage.set_concurrency_slots("index", 3)
    assert workplace.run(limited, "refresh_code", "one").success
    assert limited.event_log_storage.get_concurrency_info("index").slot_count == 3


@pytest.mark.slow
def test_a_turn_is_given_back_when_the_stage_fails(
    workplace: Workplace, limited: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.declare("one", a_py="def f():\n    return 1\n")

    def failing(this):
        with this.turn("index"):
            raise KnowledgeError("it broke")

    monkeypatch.setitem(STAGES, "index", failing)
    assert not workplace.run(limited, "refresh", None).success
    assert limited.event_log_storage.get_concurrency_info("index").active_slot_count == 0


@pytest.mark.slow
def test_an_unchanged_source_takes_no_turn(workplace: Workplace, limited: dg.DagsterInstance) -> None:
    workplace.declare("one", a_py="def f():\n    return 1\n")
    workplace.run(limited, "refresh_code", "one")
    storage = limited.event_log_storage
    assert storage.claim_concurrency_slot("index", OTHER, "step").is_claimed
    assert storage.claim_concurrency_slot("127.0.0.1", OTHER, "step").is_claimed
    assert workplace.run(limited, "refresh_code", "one").success
