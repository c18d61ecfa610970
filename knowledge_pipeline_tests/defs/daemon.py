"""A real Dagster daemon over a project, in processes of its own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
from dagster._core.scheduler.instigation import SensorInstigatorData

OURS = Path(__file__).parent.parent.parent / "dagster.yaml"
FINISHED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}


class Daemon:
    """`dagster-daemon run` on an instance with the project's `dagster.yaml`, or another one."""

    def __init__(self, home: Path, config: Path, instance_file: Path = OURS) -> None:
        home.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(instance_file, home / "dagster.yaml")
        os.environ["DAGSTER_HOME"] = str(home)  # dagster.yaml reads it, here and in the daemon
        self.home, self.log = home, home / "daemon.log"
        self.environment = {**os.environ, "KNOWLEDGE_CONFIG": str(config)}
        self.instance = dg.DagsterInstance.from_config(str(home))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; what it and its runs print goes to one file."""
        program = Path(sys.executable).with_name("dagster-daemon")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, "run", "-m", "knowledge_pipeline.definitions"],
                env=self.environment,
                cwd=self.home,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it with everything it started, as a power cut would."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

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
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"{what} within {timeout_s:g} s: {self.story()}"
            assert self._process is None or self._process.poll() is None, f"the daemon died: {self.log}"
            time.sleep(0.5)

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


@contextmanager
def running(
    home: Path, config: Path, environment: Mapping[str, str] | None = None, instance_file: Path = OURS
) -> Iterator[Daemon]:
    """A daemon for the time of a test."""
    daemon = Daemon(home, config, instance_file)
    daemon.environment.update(environment or {})
    with daemon.instance:
        daemon.start()
        try:
            yield daemon
        finally:
            daemon.kill()
