"""What Dagster adds to the refresh of one changed file, step by step.

    python -m benchmarks.overhead [--files 350] [--repeats 5] [--json]

The same edit is refreshed four ways, side by side in one run: by the stages alone, as a
recorded run in the same process, as a recorded run of a new process (`--dagster`), and by a
commit that the daemon's sensor notices. Vectors come from a small local server, so that
what is left is the pipeline and Dagster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console
from rich.table import Table

from benchmarks.refresh import Repository, standard_library
from knowledge_pipeline.config import file
from knowledge_pipeline.defs.commit_sensors import parse_cursor
from knowledge_pipeline.defs.jobs import build_source_jobs
from knowledge_pipeline.defs.recorded_refresh import open_local_instance
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.defs.daemon import Daemon, running
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

_KEY = "BENCH_EMBEDDING_KEY"


class Bench:
    """One project over one repository, read at its path, or at another address that git leads there."""

    def __init__(
        self, root: Path, files: int, server: OpenAIServer, *, url: str = "", settings: str = ""
    ) -> None:
        self.root, self.edits = root, 0
        self.repository: Repository = standard_library(root / "repository", files)
        self.path = root / "knowledge.yaml"
        self.path.write_text(
            f"version: 1\nstore: store\n{settings}"
            f"embedding: {{provider: openai, model: hashed-words, base_url: {server.url}, "
            f'api_key: "${{{_KEY}}}", dimensions: {server.dimensions}}}\n'
            "sources:\n  - {id: library, type: code, connection: {type: git, "
            f"url: '{url or root / 'repository'}', branch: main}}}}\n"
        )

    def edit(self) -> str:
        """Change one function of one file, commit, and return the commit."""
        self.edits += 1
        path = self.repository.files[0]
        path.write_text(path.read_text() + f"\n\ndef edit_{self.edits}():\n    return {self.edits}\n")
        self.repository.commit()
        return self.repository.git("rev-parse", "HEAD")

    def stages_alone(self) -> float:
        """Seconds of the stages and the release, in this process."""
        settings = file.load_settings(self.path)
        started = time.perf_counter()
        outcome = pipeline.refresh(Lake(settings.store), settings, settings.sources)
        if outcome.failures:
            raise SystemExit(str(outcome.failures))
        return time.perf_counter() - started

    def run_in_process(self, instance: dg.DagsterInstance) -> float:
        """Seconds of the job `refresh` in this process, recorded in SQLite."""
        project = ProjectResource(config_path=str(self.path))
        started = time.perf_counter()
        result = build_source_jobs()[0].execute_in_process(
            {"loggers": {"console": {"config": {"log_level": "WARNING"}}}},
            instance,
            resources={"project": project},
        )
        if not result.success:
            raise SystemExit("the recorded run failed")
        return time.perf_counter() - started

    def command(self, *words: str) -> float:
        """Seconds of a `knowledge` command."""
        started = time.perf_counter()
        program = Path(sys.executable).with_name("knowledge")
        subprocess.run([program, *words], cwd=self.root, check=True, capture_output=True)
        return time.perf_counter() - started


def launched(bench: Bench, home: Path, repeats: int) -> list[dict[str, float]]:
    """Seconds of each step between a commit and its release, with a daemon that looks for commits."""
    found: list[dict[str, float]] = []
    with running(home, bench.path) as daemon:
        daemon.until(lambda: _has_looked(daemon) and daemon.idle(), "the first look")
        for _ in range(repeats):
            commit, begun = bench.edit(), time.time()
            daemon.until(lambda commit=commit: daemon.runs(commit=commit) and daemon.idle(), "the commit")
            (run,) = daemon.runs(commit=commit)
            found.append(_steps(daemon.instance, run.run_id, begun))
    return found


def _has_looked(daemon: Daemon) -> bool:
    """Whether the source has its first refresh, and the sensor knows where the repository stands."""
    stood = parse_cursor(daemon.cursor("changed_sources"))[0].stood
    return bool(daemon.runs(trigger="added")) and any(stood.values())


def _steps(instance: dg.DagsterInstance, run_id: str, begun: float) -> dict[str, float]:
    return time_steps(instance, run_id, begun, first="the sensor notices")


def time_steps(instance: dg.DagsterInstance, run_id: str, begun: float, *, first: str) -> dict[str, float]:
    """Seconds of each part of a run since `begun`; `first` names what came before its first event.

    A run that no queue admitted has no such parts: its first event is its start.
    """
    seen: dict[str, float] = {}
    for record in instance.get_records_for_run(run_id).records:
        kind = record.event_log_entry.dagster_event_type
        if kind is not None:
            seen.setdefault(kind.value, record.timestamp)
    order = [
        ("", "PIPELINE_ENQUEUED"),
        ("the queue lets it through", "PIPELINE_STARTING"),
        ("a process starts and loads the definitions", "PIPELINE_START"),
        ("the step begins", "STEP_START"),
        ("the step: stages, records, release", "STEP_SUCCESS"),
        ("the run ends", "PIPELINE_SUCCESS"),
    ]
    steps: dict[str, float] = {}
    last = begun
    for name, kind in order:
        if kind in seen:
            steps[name if steps else first], last = seen[kind] - last, seen[kind]
    return steps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=350)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    with OpenAIServer() as server, tempfile.TemporaryDirectory() as folder:
        os.environ[_KEY] = server.key
        bench = Bench(Path(folder), options.files, server)
        bench.stages_alone()
        figures = _measure(bench, options.repeats)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for title, rows in figures.items():
        table = Table("what", "seconds", title=title)
        for name, value in rows.items():
            table.add_row(name, f"{value:.2f}")
        Console().print(table)


def _measure(bench: Bench, repeats: int) -> dict[str, Any]:
    ways: dict[str, list[float]] = {"stages alone": [], "recorded, same process": []}
    with open_local_instance(bench.root / "in_process") as instance:
        bench.run_in_process(instance)
        for _ in range(repeats):
            bench.edit()
            ways["stages alone"].append(bench.stages_alone())
            bench.edit()
            ways["recorded, same process"].append(bench.run_in_process(instance))
    del os.environ["DAGSTER_HOME"]
    commands = {"knowledge refresh": ["refresh"], "knowledge refresh --dagster": ["refresh", "--dagster"]}
    for name, words in commands.items():
        ways[name] = []
        for _ in range(repeats):
            bench.edit()
            ways[name].append(bench.command(*words))
    steps = launched(bench, bench.root / "home", repeats)
    return {
        "One edited file, refreshed and released": {
            name: statistics.median(seconds) for name, seconds in ways.items()
        },
        "From a commit to its release, with a daemon": {
            name: statistics.median(step[name] for step in steps) for name in steps[0]
        },
    }


if __name__ == "__main__":
    main()
