"""The PostgreSQL deployment as it is run: its commands as processes, over a real server that goes away."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.conftest import EMBEDDING, Workplace
from knowledge_pipeline_tests.deploy.served import Served
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.postgres import PostgresServer
from knowledge_pipeline_tests.fakes.storage import POSTGRES_YAML

pytestmark = [pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(2400)]
SOURCES = [f"s{number:02}" for number in range(12)]


@pytest.fixture
def workplace(tmp_path: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Twelve sources of one file each."""
    monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
    (tmp_path / "project").mkdir()
    settings = EMBEDDING.format(url=embedding_server.url, dimensions=embedding_server.dimensions)
    workplace = Workplace(tmp_path / "project", settings)
    for source in SOURCES:
        workplace.declare(source, a_py=f"def {source}():\n    return {source!r}\n")
    return workplace


@pytest.fixture
def served(
    workplace: Workplace, tmp_path: Path, postgres: PostgresServer, empty_history: str
) -> Iterator[Served]:
    with postgres.database(like=empty_history) as variables:
        variables["KNOWLEDGE_CONFIG"] = str(workplace.path)
        with Served(tmp_path / "home", variables, POSTGRES_YAML) as served:
            yield served


def test_a_backfill_goes_on_when_the_daemon_is_killed_and_postgresql_restarts(
    workplace: Workplace, served: Served, postgres: PostgresServer
) -> None:
    served.until(lambda: served.partitions("code") == SOURCES)  # the daemon's sensor
    backfill = served.backfill("code", SOURCES)
    served.until(lambda: "STARTED" in served.runs().values(), timeout_s=120)
    served.stop("daemon", signal.SIGKILL)
    postgres.stop()
    postgres.start()
    served.start("daemon")
    served.until(lambda: served.backfill_status(backfill) != "REQUESTED", timeout_s=1500)
    assert served.backfill_status(backfill) == "COMPLETED_SUCCESS", (
        served.runs(),
        served.log("daemon")[-4000:],
    )
    assert sorted(served.until(lambda: served.materialized("code"))) == SOURCES
    assert "SUCCESS" in served.runs().values()
    release = served.until(lambda: find_live_release(workplace.lake))
    assert release is not None
    assert release.rows == len(SOURCES)
    assert "FAILURE" not in served.ticks("sources_in_config")
