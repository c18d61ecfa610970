"""The programs of deploy/postgres/compose.yaml as processes of this machine, and their GraphQL API.

What compose would do with containers is done with folders and ports: the commands, the environment
and the files are those of the deployment.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
import yaml

ROOT = Path(__file__).parent.parent.parent
POSTGRES = ROOT / "deploy" / "postgres"
Answer = TypeVar("Answer")
LOCATION = {"repositoryLocationName": "knowledge_pipeline", "repositoryName": "__repository__"}


class Served:
    """Code server, webserver and daemon over one `DAGSTER_HOME`; a context manager."""

    def __init__(self, home: Path, variables: Mapping[str, str], dagster_yaml: Path) -> None:
        self.home = home
        self._ports = {"4000": str(_free_port()), "3000": str(_free_port())}
        self._services = yaml.safe_load((POSTGRES / "compose.yaml").read_text())["services"]
        self._variables = dict(variables)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(dagster_yaml, home / "dagster.yaml")
        shutil.copy(POSTGRES / "workspace.yaml", home)

    def __enter__(self) -> Self:
        try:
            for name in ("code", "webserver", "daemon"):
                self.start(name)
            self.until(self._is_loaded, timeout_s=600)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._processes)):
            self.stop(name, signal.SIGTERM)

    def start(self, name: str) -> None:
        """Start one service of the compose file."""
        service = self._services[name]
        with (self.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [self._here(word) for word in service["command"]],
                env={
                    **os.environ,
                    **{key: value for key, value in service["environment"].items() if "$" not in value},
                    **self._variables,
                    "DAGSTER_HOME": str(self.home),
                    "KNOWLEDGE_CODE_HOST": "127.0.0.1",
                    "KNOWLEDGE_CODE_PORT": self._ports["4000"],
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                },
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,
            )

    def stop(self, name: str, how: signal.Signals) -> None:
        """End one service with all it started, as a container ends: SIGTERM is given a while."""
        process = self._processes.pop(name)
        if how != signal.SIGKILL:
            process.send_signal(how)
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)

    def log(self, name: str) -> str:
        """What a service wrote."""
        return (self.home / f"{name}.log").read_text()

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Ask the GraphQL API.

        Raises:
            RuntimeError: the answer has errors.
        """
        url = f"http://127.0.0.1:{self._ports['3000']}/graphql"
        answer = httpx2.post(url, json={"query": query, "variables": variables}, timeout=60).json()
        if "errors" in answer:
            raise RuntimeError(str(answer["errors"])[:1000])
        return answer["data"]

    def until(self, found: Callable[[], Answer], *, timeout_s: float = 240, pause_s: float = 1.0) -> Answer:
        """Ask again and again until the answer is true; one without what was asked for is asked again."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if answer := found():
                    return answer
                problem = f"{found} gave {answer!r}"
            except (httpx2.HTTPError, RuntimeError, LookupError, ValueError) as error:
                problem = repr(error)
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout_s:g} s: {problem}")
            time.sleep(pause_s)  # each question to the webserver costs it as much as a run

    def _here(self, word: str) -> str:
        local = self._ports.get(word, word).replace("/opt/dagster", str(self.home))
        return "127.0.0.1" if local == "0.0.0.0" else local

    def _is_loaded(self) -> bool:
        entries = self.ask(_LOCATIONS)["workspaceOrError"]["locationEntries"]
        return [entry["locationOrLoadError"]["__typename"] for entry in entries] == ["RepositoryLocation"]

    def partitions(self, source_type: str) -> list[str]:
        """The partitions that a type has now."""
        return self._index_of(source_type)["partitionKeys"]

    def materialized(self, source_type: str) -> list[str]:
        """The partitions whose index Dagster holds as materialized."""
        return self._index_of(source_type)["assetPartitionStatuses"]["materializedPartitions"]

    def _index_of(self, source_type: str) -> dict[str, Any]:
        return self.ask(_PARTITIONS, key={"path": [source_type, "index"]})["assetNodeOrError"]

    def backfill(self, source_type: str, partitions: list[str]) -> str:
        """Ask for a type's chain and the release over partitions, as the UI does; the backfill's id."""
        stages = ("snapshot", "chunks", "embeddings", "index")
        selection = [*({"path": [source_type, stage]} for stage in stages), {"path": ["release"]}]
        params = {"assetSelection": selection, "partitionNames": partitions}
        return self.ask(_LAUNCH, params=params)["launchPartitionBackfill"]["backfillId"]

    def launch(self, job: str, run_config: dict[str, Any]) -> str:
        """Launch a run of a job, as the launchpad does; its id."""
        selector = {**LOCATION, "jobName": job}
        launched = self.ask(_LAUNCH_JOB, params={"selector": selector, "runConfigData": run_config})[
            "launchRun"
        ]
        if "run" not in launched:
            raise RuntimeError(str(launched))
        return launched["run"]["id"]

    def backfill_status(self, backfill_id: str) -> str:
        """`REQUESTED`, then `COMPLETED_SUCCESS` or another end."""
        return self.ask(_BACKFILL, id=backfill_id)["partitionBackfillOrError"]["status"]

    def runs(self) -> dict[str, str]:
        """The status of every run by its id."""
        return {run["id"]: run["status"] for run in self.ask(_RUNS)["runsOrError"]["results"]}

    def ticks(self, sensor: str) -> list[str]:
        """The status of the latest ticks of a sensor, newest first."""
        answer = self.ask(_TICKS, selector={**LOCATION, "sensorName": sensor})
        return [tick["status"] for tick in answer["sensorOrError"]["sensorState"]["ticks"]]


_LOCATIONS = """{ workspaceOrError { ... on Workspace {
    locationEntries { locationOrLoadError { __typename } } } } }"""
_PARTITIONS = """query ($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
    partitionKeys
    assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions } } } } }"""
_LAUNCH = """mutation ($params: LaunchBackfillParams!) {
    launchPartitionBackfill(backfillParams: $params) {
        __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_LAUNCH_JOB = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { id } } ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } } } }"""
_BACKFILL = """query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
    ... on PartitionBackfill { status } } }"""
_RUNS = "{ runsOrError { ... on Runs { results { id status } } } }"
_TICKS = """query ($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) {
    ... on Sensor { sensorState { ticks(limit: 20) { status } } } } }"""


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
