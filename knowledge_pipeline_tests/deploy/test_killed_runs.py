"""What becomes of a run of each job when its process is killed: the table of deploy/postgres/README.md."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from knowledge_pipeline.defs.checks import PROCESS_TAG
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline_tests.defs.conftest import EMBEDDING, Workplace
from knowledge_pipeline_tests.deploy.served import Served
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.postgres import PostgresServer
from knowledge_pipeline_tests.fakes.storage import POSTGRES_YAML

pytestmark = [pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(2400)]

OPS: dict[str, dict[str, Any]] = {
    "refresh": {},
    "release": {},
    "maintenance": {},
    "purge": {"purge_sources": {"config": {"sources": ["gone"]}}},
    "rollback": {"roll_back_release": {"config": {"release": 1}}},
    "migration": {},
    "checks": {},
    "sql_models": {},
}
"""The jobs with what a run of each is configured by; the first five wait for a lock that the test holds."""


@pytest.fixture
def workplace(tmp_path: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Two releases, and a stored source that is configured no more."""
    monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
    (tmp_path / "project").mkdir()
    settings = EMBEDDING.format(url=embedding_server.url, dimensions=embedding_server.dimensions)
    workplace = Workplace(tmp_path / "project", settings)
    for id_ in ("kept", "gone"):
        workplace.declare(id_, "markdown", a_md=f"# {id_}\n")
        assert not pipeline.refresh(workplace.lake, workplace.settings, workplace.settings.sources).failures
    workplace.forget("gone")
    return workplace


@pytest.fixture
def served(
    workplace: Workplace,
    tmp_path: Path,
    postgres: PostgresServer,
    empty_history: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Served]:
    """The deployment, with room for a run of each job at once."""
    instance_file = tmp_path / "dagster.yaml"
    instance_file.write_text(
        POSTGRES_YAML.read_text().replace("max_concurrent_runs: 4", "max_concurrent_runs: 20")
    )
    with postgres.database(like=empty_history) as variables:
        variables["KNOWLEDGE_CONFIG"] = str(workplace.path)
        variables["DAGSTER_GRPC_TIMEOUT_SECONDS"] = "600"  # a run's start takes its time on a busy machine
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with Served(tmp_path / "home", variables, instance_file) as served:
            served.until(lambda: served.partitions("markdown") == ["kept"], timeout_s=900)
            yield served


@pytest.fixture
def instance(served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """The instance of the deployment."""
    monkeypatch.setenv("DAGSTER_HOME", str(served.home))
    with dg.DagsterInstance.from_config(str(served.home)) as instance:
        yield instance


@contextmanager
def locked(workplace: Workplace) -> Iterator[None]:
    """Runs that write the store wait."""
    with workplace.lake.lock_source("kept"), workplace.lake.lock_source("gone"), workplace.lake.lock_index():
        yield


def process_of(instance: dg.DagsterInstance, run_id: str) -> int | None:
    """The process of a run, once its step has said it."""
    run = instance.get_run_by_id(run_id)
    tag = run.tags.get(PROCESS_TAG) if run else None
    return int(tag.split(":")[1]) if tag and tag.endswith(run_id[:8]) else None


def test_a_run_of_each_job_whose_process_is_killed_is_found_and_done_again(
    workplace: Workplace, served: Served, instance: dg.DagsterInstance
) -> None:
    with locked(workplace):
        runs = dict[str, str]()
        for job, ops in OPS.items():
            if job == "purge":  # the test below has it: it erases what others here look at
                continue
            runs[job] = run = served.launch(job, {"ops": ops} if ops else {})
            process = served.until(lambda run=run: process_of(instance, run), timeout_s=600, pause_s=0.05)
            os.kill(process, signal.SIGKILL)
    require_repeated(served, instance, runs)


def test_runs_that_are_killed_with_their_code_server_are_found_and_done_again(
    workplace: Workplace, served: Served, instance: dg.DagsterInstance
) -> None:
    with locked(workplace):
        runs = dict[str, str]()
        for job in ("refresh", "release", "purge", "sql_models"):  # the last waits for no lock
            ops = OPS[job]
            runs[job] = run = served.launch(job, {"ops": ops} if ops else {})
            served.until(lambda run=run: process_of(instance, run), timeout_s=600, pause_s=0.05)
        served.stop("code", signal.SIGKILL)
        served.start("code")
    require_repeated(served, instance, runs)


def require_repeated(served: Served, instance: dg.DagsterInstance, runs: Mapping[str, str]) -> None:
    """Wait until each run is failed and a retry of it is done, and its slots are free."""
    ends = {
        job: served.until(lambda run=run: ended(instance, run), timeout_s=600) for job, run in runs.items()
    }
    assert ends == dict.fromkeys(runs, "FAILURE")
    retries = {
        job: served.until(lambda run=run: retried(instance, run), timeout_s=900) for job, run in runs.items()
    }
    assert retries == dict.fromkeys(runs, "SUCCESS")
    served.until(lambda: instance.event_log_storage.get_concurrency_info("release").active_slot_count == 0)


def ended(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """How a run ended, if it has."""
    run = instance.get_run_by_id(run_id)
    return run.status.value if run and run.is_finished else None


def retried(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """How the last run ended that Dagster started in the place of another, if it has."""
    retries = instance.get_runs(dg.RunsFilter(tags={"dagster/root_run_id": run_id}))
    latest = next((run for run in retries if run.run_id != run_id), None)
    if latest is None or not latest.is_finished:
        return None
    assert latest.status == dg.DagsterRunStatus.SUCCESS, (
        latest.job_name,
        instance.get_run_stats(latest.run_id),
    )
    return latest.status.value
