"""A real Dagster daemon over a project, in processes of its own.

A daemon that is told a module starts a server of code for it, and another one each minute, which all
import the project: where tests wait for each other's processor, that is a quarter of what a daemon takes.
So it can have a server that stays, as in `deploy/`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
import yaml
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.scheduler.instigation import SensorInstigatorData
from dagster._grpc.client import DagsterGrpcClient

MODULE = "knowledge_pipeline.definitions"
OURS = Path(__file__).parent.parent.parent / "dagster.yaml"
FINISHED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}


class Daemon:
    """`dagster-daemon run` on an instance with the project's `dagster.yaml`, or another one.

    Args:
        home: its `DAGSTER_HOME`.
        config: the project's `knowledge.yaml`.
        instance_file: its `dagster.yaml`.
        code_stays: it asks one server of code, and starts none.
    """

    def __init__(
        self, home: Path, config: Path, instance_file: Path = OURS, *, code_stays: bool = False
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(instance_file, home / "dagster.yaml")
        os.environ["DAGSTER_HOME"] = str(home)  # dagster.yaml reads it, here and in the daemon
        self.home, self.log = home, home / "daemon.log"
        self.environment = {**os.environ, "KNOWLEDGE_CONFIG": str(config)}
        self.instance = dg.DagsterInstance.from_config(str(home))
        self._code_stays = code_stays
        self._process: subprocess.Popen[bytes] | None = None
        self._code: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; what it and its runs print goes to one file."""
        target = self._serve_code() if self._code_stays else ["-m", MODULE]
        self._process = self._open("dagster-daemon", "run", *target)

    def _open(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [Path(sys.executable).with_name(program), *words],
                env=self.environment,
                cwd=self.home,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _serve_code(self) -> list[str]:
        """Start a server of code, and return what tells a daemon to ask it."""
        socket = f"{tempfile.mkdtemp()}/code"  # a short path, as sockets need
        self._code = self._open("dagster", "api", "grpc", "-m", MODULE, "--socket", socket)
        client, deadline = DagsterGrpcClient(socket=socket), time.monotonic() + 600.0
        while not _answers(client):
            assert time.monotonic() < deadline, f"the server of code does not answer: {self.log}"
            assert self._code.poll() is None, f"the server of code died: {self.log}"
            time.sleep(0.2)
        server = {"socket": socket, "location_name": MODULE}
        workspace = self.home / "workspace.yaml"
        workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
        return ["-w", str(workspace)]

    def kill(self) -> None:
        """End it with everything it started, as a power cut would."""
        for process in filter(None, (self._process, self._code)):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._process = self._code = None

    def runs(self, **tags: str) -> list[dg.DagsterRun]:
        """Runs with such tags (`trigger="commit"` is `knowledge/trigger`), the newest first."""
        wanted = {f"knowledge/{name}": value for name, value in tags.items()}
        return list(self.instance.get_runs(dg.RunsFilter(tags=wanted)))

    def worker(self, run_id: str) -> int:
        """The process that does a started run, by the tag that it wrote."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return int(run.tags["knowledge/process"].split(":")[1])

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = 600.0) -> None:
        """Wait for something to become true, or fail and say what it was."""
        began = time.monotonic()
        deadline = began + timeout_s
        while not condition():
            now = time.monotonic()
            assert now < deadline, f"{what} within {timeout_s:g} s: {self.story()}"
            assert self._process is None or self._process.poll() is None, f"the daemon died: {self.log}"
            time.sleep(max(0.5, 2 * (now - began)))  # leave the processor to what is waited for
            began = time.monotonic()

    def idle(self) -> bool:
        """Whether every run that was ever requested is finished."""
        return all(run.status in FINISHED for run in self.instance.get_runs())

    def cursor(self, sensor: str) -> str:
        """What a sensor remembers; nothing before its first tick."""
        for state in self.instance.all_instigator_state():
            if state.instigator_name == sensor and isinstance(state.instigator_data, SensorInstigatorData):
                return state.instigator_data.cursor or ""
        return ""

    def story(self) -> list[str]:
        """Every run in the order of its request: job, why, and how it ended."""
        return [
            f"{run.job_name} {run.tags.get('knowledge/trigger', '')}: {run.status.value}"
            for run in reversed(self.instance.get_runs())
        ]


def _answers(client: DagsterGrpcClient) -> bool:
    try:
        client.ping("")
    except DagsterUserCodeUnreachableError:
        return False
    return True


@contextmanager
def running(
    home: Path,
    config: Path,
    environment: Mapping[str, str] | None = None,
    instance_file: Path = OURS,
    *,
    code_stays: bool = False,
) -> Iterator[Daemon]:
    """A daemon for the time of a test."""
    daemon = Daemon(home, config, instance_file, code_stays=code_stays)
    daemon.environment.update(environment or {})
    with daemon.instance:
        daemon.start()
        try:
            yield daemon
        finally:
            daemon.kill()
