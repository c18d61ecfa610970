"""What Dagster's records cost a run of many small sources: processor time and events for each.

    python -m benchmarks.recorded_sources [--sources 200] [--files 20]

Local folders of small Python files are refreshed twice, as the job `refresh` in this process on SQLite: all
new, then unchanged. Then the stages alone do both again in another store. Compare processor time between
two commits by alternate runs; the clock follows whatever else the machine does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import dagster as dg
from rich.console import Console
from rich.table import Table

from benchmarks.figures import time_work
from benchmarks.many_sources import project
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.defs.jobs import build_source_jobs
from knowledge_pipeline.defs.recorded_refresh import open_local_instance
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.settings_assets import group_ids_by_type, source_partitions
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

_KEY = "BENCH_EMBEDDING_KEY"


def _run(instance: dg.DagsterInstance, path: Path) -> None:
    result = build_source_jobs()[0].execute_in_process(
        {"loggers": {"console": {"config": {"log_level": "WARNING"}}}},
        instance,
        resources={"project": ProjectResource(config_path=str(path))},
    )
    if not result.success:
        raise SystemExit("the recorded run failed")


def _run_stages(path: Path) -> None:
    settings = load_settings(path)
    outcome = pipeline.refresh(Lake(settings.store), settings, settings.sources)
    if outcome.failures:
        raise SystemExit(str(outcome.failures))


def _count_events(instance: dg.DagsterInstance) -> Counter[str]:
    """Events of the newest run, by their kind."""
    (run,) = instance.get_runs(limit=1)
    kinds = (
        record.event_log_entry.dagster_event_type
        for record in instance.get_records_for_run(run.run_id).records
    )
    return Counter("lines of the log" if kind is None else kind.value for kind in kinds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sources", type=int, default=200)
    parser.add_argument("--files", type=int, default=20)
    options = parser.parse_args()
    table = Table(
        "refresh", "processor ms/source", "s on the clock", "events", "materializations", "index.db MB"
    )
    with OpenAIServer() as server, tempfile.TemporaryDirectory() as folder:
        os.environ[_KEY] = server.key
        root, count = Path(folder), options.sources
        path = project(root, server, count, options.files)
        with open_local_instance(root / "home") as instance:
            for type_, ids in group_ids_by_type(load_settings(path)).items():
                instance.add_dynamic_partitions(str(source_partitions(type_).name), ids)
            for name in ("recorded, all new", "recorded, unchanged"):
                clock, processor = time_work(lambda: _run(instance, path))
                events = _count_events(instance)
                made, size = events["ASSET_MATERIALIZATION"], _measure_index(root / "home")
                figures = (f"{1000 * processor / count:.1f}", f"{clock:.1f}", str(events.total()), str(made))
                table.add_row(name, *figures, f"{size / 1e6:.1f}")
        shutil.rmtree(root / "store")
        for name in ("stages alone, all new", "stages alone, unchanged"):
            clock, processor = time_work(lambda: _run_stages(path))
            table.add_row(name, f"{1000 * processor / count:.1f}", f"{clock:.1f}", "", "", "")
    Console().print(table)


def _measure_index(home: Path) -> int:
    """Bytes of the file that holds the events of assets of all runs."""
    return sum(path.stat().st_size for path in home.rglob("index.db*"))


if __name__ == "__main__":
    main()
