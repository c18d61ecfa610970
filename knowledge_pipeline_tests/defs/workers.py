"""Celery workers as processes of this machine, each as deploy/celery/compose.yaml starts one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import dagster as dg
import yaml

COMPOSE = Path(__file__).parent.parent.parent / "deploy" / "celery" / "compose.yaml"


class Workers:
    """A context manager: what was started in it is ended with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = yaml.safe_load(COMPOSE.read_text())["services"]["worker"]["command"]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.kill(name)

    def start(self, name: str) -> None:
        """Start one, with the environment that the test has now."""
        command = [Path(sys.executable).with_name(self._command[0]), *self._command[1:]]
        with self.log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*command, "--hostname", f"{name}@here"],
                env=dict(os.environ),
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """End one with its children, as a power cut would."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(120)

    def log(self, name: str) -> Path:
        """What one prints."""
        return self._folder / f"{name}.log"

    def ready(self, *names: str) -> bool:
        """Whether these take tasks."""
        return all(f"{name}@here ready" in self.log(name).read_text() for name in names)


def begun(instance: dg.DagsterInstance, step: str) -> list[tuple[str, str]]:
    """Run and worker of every time that a worker began a step, in order within a run."""
    found: list[tuple[str, str]] = []
    for run in instance.get_runs():
        for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
            event = entry.dagster_event
            worker: Any = event.event_specific_data.metadata.get("Celery worker") if event else None
            if worker is not None and entry.step_key == step:
                found.append((run.run_id, worker.value.removesuffix("@here")))
    return found
