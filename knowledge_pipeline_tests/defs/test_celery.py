"""The same sources and jobs by Celery: a real broker and two workers, one of which is killed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus

from knowledge_pipeline.defs.runs.event_log import RELEASE
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.backfilling import KEYS, Partitions, daemon_of
from knowledge_pipeline_tests.defs.conftest import EMBEDDING, Workplace
from knowledge_pipeline_tests.defs.daemon import Daemon
from knowledge_pipeline_tests.defs.test_backfill import equals_a_plain_refresh
from knowledge_pipeline_tests.defs.workers import Workers, begun
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.rabbitmq import NotInstalled, RabbitServer

pytestmark = [
    pytest.mark.storage,
    pytest.mark.timeout(2400),
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning"),  # in Dagster
]

WAIT_S = 400.0  # for what takes seconds where nothing else runs
SOURCES = [f"s{number}" for number in range(4)]
SOURCES_PER_RUN = 2
TEXTS_WITH_A_TURN = 70  # more than a source embeds without waiting for its turn


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """An endpoint that a test makes slow."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Four small sources."""
    monkeypatch.setenv("TEST_EMBEDDING_KEY", server.key)
    (tmp_path / "project").mkdir()
    place = Workplace(tmp_path / "project", EMBEDDING.format(url=server.url, dimensions=server.dimensions))
    for id_ in SOURCES:
        place.declare(id_, a_py=f"def {id_}():\n    return {id_!r}\n")
    return place


@pytest.fixture(scope="module")
def broker() -> Iterator[RabbitServer]:
    """One broker; where there is none, these tests skip; in CI they fail."""
    try:
        server = RabbitServer()
    except NotInstalled as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture
def workers(
    broker: RabbitServer, place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workers]:
    """None yet, in an environment that a deployment would have."""
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(place.path))
    monkeypatch.setenv("KNOWLEDGE_EXECUTOR", "celery")
    monkeypatch.setenv("KNOWLEDGE_CELERY_BROKER", broker.url)
    monkeypatch.setenv("KNOWLEDGE_SOURCES_PER_RUN", str(SOURCES_PER_RUN))
    with Workers(tmp_path) as workers:
        yield workers


@pytest.fixture
def daemon(place: Workplace, workers: Workers, dagster_home: Path, dagster_yaml: Path) -> Iterator[Daemon]:
    """A daemon that has two workers to give steps to."""
    with daemon_of(place, dagster_home, dagster_yaml) as daemon:
        for name in ("one", "two"):
            workers.start(name)
        daemon.until(lambda: workers.ready("one", "two"), "the workers take tasks", WAIT_S)
        yield daemon


def function(source: str, number: int) -> str:
    """A function that is long enough to be a text of its own."""
    lines = "".join(f"    value_{line} = compute_{source}({number}, {line})\n" for line in range(8))
    return f"def f{number}():\n{lines}    return value_0\n\n\n"


def told(instance: dg.DagsterInstance, run: str) -> list[str]:
    """What a run's log says of its engine and its failures, with the time of each entry."""
    kinds = {
        dg.DagsterEventType.ENGINE_EVENT,
        dg.DagsterEventType.STEP_FAILURE,
        dg.DagsterEventType.RUN_FAILURE,
    }
    return [
        f"{entry.timestamp:.1f} {entry.step_key or ''} {entry.user_message or entry.message}"
        for entry in instance.all_logs(run, of_type=kinds)
    ]


def backfill(daemon: Daemon, place: Workplace, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Ask for all sources and the release as the UI does, and wait until all of it succeeded."""
    shown = Partitions(place, daemon.instance)
    asked = shown.launch([*KEYS.values(), dg.AssetKey(RELEASE)], SOURCES)
    meanwhile()
    daemon.until(lambda: shown.ended(asked), "the backfill ends", WAIT_S)
    assert shown.ended(asked) == BulkActionStatus.COMPLETED_SUCCESS
    failed = [run.run_id for run in shown.runs(asked) if run.status != dg.DagsterRunStatus.SUCCESS]
    assert not failed, [told(daemon.instance, run) for run in failed]
    assert shown.missing_or_failed() == []
    assert shown.stale() == {}


@pytest.mark.slow
def test_two_workers_leave_the_tables_of_one_process(
    daemon: Daemon, place: Workplace, server: OpenAIServer, tmp_path: Path
) -> None:
    server.wait_s = 0.5
    backfill(daemon, place)
    done = begun(daemon.instance, "code")
    assert len(done) == len({run for run, _ in done}) == len(SOURCES) / SOURCES_PER_RUN
    assert {worker for _, worker in done} == {"one", "two"}
    release = find_live_release(place.lake)
    assert release is not None
    assert release.rows == len(SOURCES)
    equals_a_plain_refresh(place, tmp_path)


@pytest.mark.slow
def test_what_a_killed_worker_had_is_done_by_the_other_one(
    daemon: Daemon, place: Workplace, server: OpenAIServer, workers: Workers, tmp_path: Path
) -> None:
    server.wait_s = 3.0
    killed: list[str] = []

    def kill_the_first() -> None:
        daemon.until(lambda: begun(daemon.instance, "code"), "a worker begins", WAIT_S)
        run, worker = begun(daemon.instance, "code")[0]
        workers.kill(worker)
        killed.extend([run, worker])
        server.wait_s = 0.0

    backfill(daemon, place, kill_the_first)
    run, worker = killed
    of_the_run = [by for of, by in begun(daemon.instance, "code") if of == run]
    assert of_the_run[0] == worker
    assert of_the_run[1:] == [({"one", "two"} - {worker}).pop()]
    equals_a_plain_refresh(place, tmp_path)


@pytest.mark.cluster
def test_a_turn_that_a_killed_worker_held_is_taken_over_by_the_one_that_replaces_it(
    daemon: Daemon, place: Workplace, server: OpenAIServer, workers: Workers, tmp_path: Path
) -> None:
    for id_ in SOURCES:
        place.declare(id_, a_py="".join(function(id_, number) for number in range(TEXTS_WITH_A_TURN)))
    server.wait_s = 3.0
    places = daemon.instance.event_log_storage

    def holders() -> set[str]:
        pool = places.get_concurrency_info("127.0.0.1")
        return {slot.run_id for slot in pool.claimed_slots}

    def kill_the_holder() -> None:
        daemon.until(holders, "a worker has its turn", WAIT_S)
        (held,) = holders()
        (worker,) = [by for run, by in begun(daemon.instance, "code") if run == held]
        workers.kill(worker)
        assert holders() == {held}
        server.wait_s = 0.0
        workers.start("three")  # as whatever looks after the workers does

    backfill(daemon, place, kill_the_holder)
    assert "three" in {by for _, by in begun(daemon.instance, "code")}
    equals_a_plain_refresh(place, tmp_path)
