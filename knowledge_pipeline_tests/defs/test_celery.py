"""The same sources and jobs by Celery: a real broker and workers, some of which are killed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus

from knowledge_pipeline.defs.event_log import RELEASE
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.backfilling import KEYS, Partitions, daemon_of
from knowledge_pipeline_tests.defs.conftest import EMBEDDING, Workplace
from knowledge_pipeline_tests.defs.daemon import Daemon
from knowledge_pipeline_tests.defs.test_backfill import equals_a_plain_refresh
from knowledge_pipeline_tests.defs.workers import Workers, begun
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.rabbitmq import NotInstalled, RabbitServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.storage,
    pytest.mark.waits,
    pytest.mark.timeout(2400),
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning"),  # in Dagster
]

WAIT_S = 400.0  # for what takes seconds where nothing else runs
COUNT, SOURCES_PER_RUN = 4, 2
TEXTS_WITH_A_TURN = 70  # more than a source embeds without waiting for its turn


def small(source: str) -> str:
    """A function that is the only text of a source."""
    return f"def {source}():\n    return {source!r}\n"


def function(source: str, number: int) -> str:
    """A function that is long enough to be a text of its own."""
    lines = "".join(f"    value_{line} = compute_{source}({number}, {line})\n" for line in range(8))
    return f"def f{number}():\n{lines}    return value_0\n\n\n"


def large(source: str) -> str:
    """So many functions that a source waits for its turn to embed them."""
    return "".join(function(source, number) for number in range(TEXTS_WITH_A_TURN))


def declare(place: Workplace, name: str, text: Callable[[str], str]) -> list[str]:
    """Add some sources of one file, and return their ids."""
    sources = [f"{name}{number}" for number in range(COUNT)]
    for id_ in sources:
        place.declare(id_, a_py=text(id_))
    return sources


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """An endpoint that a test makes slow."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A project with small sources."""
    monkeypatch.setenv("TEST_EMBEDDING_KEY", server.key)
    (tmp_path / "project").mkdir()
    place = Workplace(tmp_path / "project", EMBEDDING.format(url=server.url, dimensions=server.dimensions))
    declare(place, "shared", small)
    return place


@pytest.fixture
def broker() -> Iterator[RabbitServer]:
    """Where there is none, the test skips; in CI it fails."""
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


def backfill(
    daemon: Daemon, place: Workplace, sources: list[str], meanwhile: Callable[[], None] = lambda: None
) -> set[str]:
    """Ask for sources and the release as the UI does, wait until all of it succeeded, and return the runs."""
    place.add_partitions(daemon.instance)
    shown = Partitions(place, daemon.instance)
    asked = shown.launch([*KEYS.values(), dg.AssetKey(RELEASE)], sources)
    meanwhile()
    daemon.until(lambda: shown.ended(asked), "the backfill ends", WAIT_S)
    assert shown.ended(asked) == BulkActionStatus.COMPLETED_SUCCESS
    failed = [run.run_id for run in shown.runs(asked) if run.status != dg.DagsterRunStatus.SUCCESS]
    assert not failed, [told(daemon.instance, run) for run in failed]
    assert shown.missing_or_failed() == []
    assert shown.stale() == {}
    return {run.run_id for run in shown.runs(asked)}


def test_workers_leave_the_tables_of_one_process_whichever_of_them_is_killed(
    daemon: Daemon, place: Workplace, server: OpenAIServer, workers: Workers, tmp_path: Path
) -> None:
    two_share_the_runs(daemon, place, server)
    equals_a_plain_refresh(place, tmp_path / "shared")
    gone = the_other_one_does_what_a_killed_one_had(daemon, place, server, workers)
    equals_a_plain_refresh(place, tmp_path / "killed")
    workers.start("three")
    daemon.until(lambda: workers.ready("three"), "a third worker takes tasks", WAIT_S)
    one_that_replaces_a_killed_one_takes_its_turn_over(daemon, place, server, workers, gone)
    equals_a_plain_refresh(place, tmp_path / "replaced")


def two_share_the_runs(daemon: Daemon, place: Workplace, server: OpenAIServer) -> None:
    server.wait_s = 0.5
    backfill(daemon, place, [source.id for source in place.settings.sources])
    done = begun(daemon.instance, "code")
    assert len(done) == len({run for run, _ in done}) == COUNT / SOURCES_PER_RUN
    assert {worker for _, worker in done} == {"one", "two"}
    release = find_live_release(place.lake)
    assert release is not None
    assert release.rows == COUNT


def the_other_one_does_what_a_killed_one_had(
    daemon: Daemon, place: Workplace, server: OpenAIServer, workers: Workers
) -> str:
    """Returns who was killed."""
    server.wait_s = 3.0
    before, killed = set(begun(daemon.instance, "code")), list[str]()

    def kill_the_first() -> None:
        daemon.until(lambda: set(begun(daemon.instance, "code")) - before, "a worker begins", WAIT_S)
        run, worker = min(set(begun(daemon.instance, "code")) - before)
        workers.kill(worker)
        killed.extend([run, worker])
        server.wait_s = 0.0

    backfill(daemon, place, declare(place, "killed", small), kill_the_first)
    run, worker = killed
    of_the_run = [by for of, by in begun(daemon.instance, "code") if of == run]
    assert of_the_run == [worker, ({"one", "two"} - {worker}).pop()]
    return worker


def one_that_replaces_a_killed_one_takes_its_turn_over(
    daemon: Daemon, place: Workplace, server: OpenAIServer, workers: Workers, gone: str
) -> None:
    # The first to have its turn still has it when the other one waits for its own.
    server.wait_s = 10.0
    before = set(begun(daemon.instance, "code"))
    places = daemon.instance.event_log_storage

    def holders() -> set[str]:
        pool = places.get_concurrency_info("127.0.0.1")
        return {slot.run_id for slot in pool.claimed_slots}

    def kill_the_holder() -> None:
        daemon.until(
            lambda: holders() and len(set(begun(daemon.instance, "code")) - before) == 2,
            "a worker has its turn and another one waits for it",
            WAIT_S,
        )
        (held,) = holders()
        (worker,) = [by for run, by in begun(daemon.instance, "code") if run == held]
        assert worker != gone
        workers.kill(worker)
        assert holders() == {held}
        workers.start("four")  # as whatever looks after the workers does
        daemon.until(lambda: workers.ready("four"), "the new worker takes tasks", WAIT_S)
        server.wait_s = 0.0

    runs = backfill(daemon, place, declare(place, "replaced", large), kill_the_holder)
    assert "four" in {by for run, by in begun(daemon.instance, "code") if run in runs}
