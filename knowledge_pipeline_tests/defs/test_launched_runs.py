"""What only launched runs show: backfills by the real daemon, and both executors."""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.backfill import execute_backfill_iteration

from knowledge_pipeline.defs.assets import stage_asset_keys
from knowledge_pipeline.defs.event_log import RELEASE
from knowledge_pipeline.defs.runs import read_sources_per_run
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.defs.test_assets import content

pytestmark = [pytest.mark.slow, pytest.mark.storage]

MODULE = "knowledge_pipeline.definitions"


@pytest.fixture
def home(workplace: Workplace, dagster_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `DAGSTER_HOME` with the `dagster.yaml` of the repository, for the test's project."""
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(workplace.path))
    return dagster_home


@pytest.mark.filterwarnings("ignore")  # of the daemon's own
def test_a_backfill_of_130_sources_takes_two_runs(workplace: Workplace, home: Path) -> None:
    for number in range(130):
        workplace.declare(f"s{number:03}", a_py=f"def f{number}():\n    return {number}\n")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        workplace.add_partitions(instance)
        target = ModuleTarget(
            MODULE, attribute=None, working_directory=None, location_name="knowledge_pipeline"
        )
        with create_test_daemon_workspace_context(target, instance) as context:
            request = context.create_request_context()
            backfill = PartitionBackfill.from_asset_partitions(
                backfill_id="all",
                asset_graph=request.asset_graph,
                partition_names=[source.id for source in workplace.settings.sources],
                asset_selection=[*stage_asset_keys("code").values(), dg.AssetKey(RELEASE)],
                backfill_timestamp=0.0,
                tags={},
                dynamic_partitions_store=instance,
                all_partitions=False,
                title=None,
                description=None,
                run_config=None,
            )
            instance.add_backfill(backfill)
            list(execute_backfill_iteration(context, logging.getLogger("backfill")))
        tags = [run.tags for run in instance.get_runs()]
        ranges = {
            (tag["dagster/asset_partition_range_start"], tag["dagster/asset_partition_range_end"])
            for tag in tags
        }
        assert read_sources_per_run() == 100
        assert ranges == {("s000", "s099"), ("s100", "s129")}


def test_both_executors_leave_the_same_tables(workplace: Workplace, home: Path, tmp_path: Path) -> None:
    workplace.declare("one", a_py="def f():\n    return 1\n", b_py="class C:\n    x = 1\n")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        workplace.add_partitions(instance)
    found = []
    for executor in ("in_process", "multiprocess"):
        environment = {**os.environ, "KNOWLEDGE_EXECUTOR": executor}
        command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", MODULE]
        run = subprocess.run(
            [*command, "--select", 'group:"code"', "--partition", "one"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert ("Executing steps using multiprocess executor" in run.stderr) == (executor == "multiprocess")
        found.append(content(workplace.lake))
        shutil.rmtree(workplace.lake.root)
    assert found[0] == found[1]
    assert len(found[0]["chunks one"]) == 2
