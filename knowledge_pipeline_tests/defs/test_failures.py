"""What a step does about an error: fails at once, or is tried again."""

from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa

from knowledge_pipeline.defs.checks import run_step
from knowledge_pipeline.errors import PermanentError, SourceUnavailable

POLICY = dg.RetryPolicy(max_retries=2, delay=0.0)


class ConnectionRefused(Exception):
    """As dagster-postgres says that it has tried often enough."""


def ask_a_lost_database(folder: Path) -> None:
    sa.create_engine(f"sqlite:///{folder / 'gone' / 'history.db'}").connect()


def ask_it_often(folder: Path) -> None:
    try:
        ask_a_lost_database(folder)
    except sa.exc.OperationalError as error:
        raise ConnectionRefused from error


def ask_a_source(_: Path) -> None:
    raise SourceUnavailable("it did not answer")


def run(ask, folder: Path, *, failing_tries: int) -> tuple[dg.ExecuteInProcessResult, int]:
    """Execute a step that asks in its first tries; the result, and how often it was tried."""
    tries = 0

    @dg.op
    def step(context: dg.OpExecutionContext) -> None:
        nonlocal tries
        tries += 1
        with run_step(context, POLICY):
            if tries <= failing_tries:
                ask(folder)

    @dg.job
    def job() -> None:
        step()

    return job.execute_in_process(raise_on_error=False), tries


@pytest.mark.parametrize("ask", [ask_a_lost_database, ask_it_often, ask_a_source])
def test_what_may_pass_is_tried_again(ask, tmp_path: Path) -> None:
    result, tries = run(ask, tmp_path, failing_tries=2)
    assert result.success
    assert tries == 3


def test_a_database_that_stays_away_fails_with_one_sentence(tmp_path: Path) -> None:
    result, tries = run(ask_a_lost_database, tmp_path, failing_tries=9)
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert tries == 3
    assert "Dagster's database went away" in str(failure.step_failure_data.error)


@pytest.mark.parametrize("kind", [PermanentError, ValueError])
def test_what_cannot_pass_is_not_tried_again(kind: type[Exception], tmp_path: Path) -> None:
    def ask(_: Path) -> None:
        raise kind("wrong")

    result, tries = run(ask, tmp_path, failing_tries=1)
    assert not result.success
    assert tries == 1
