"""Many sources in one Dagster instance: first refresh, backfill, ticks, memory.

    python -m benchmarks.many_sources [--sources 2000] [--files 20] [--keep FOLDER]

Local folders of small Python files, vectors from a small local server, SQLite, the real
daemon. The first refresh is what `sources_in_config` requests by itself; then every
partition of the type is backfilled, as from the UI.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.load_target import ModuleTarget
from rich.console import Console
from rich.table import Table

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.defs.assets import stage_asset_keys
from knowledge_pipeline.defs.event_log import RELEASE
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.defs.daemon import Daemon, running
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

_KEY = "BENCH_EMBEDDING_KEY"
_MODULE = "knowledge_pipeline.definitions"


def project(root: Path, server: OpenAIServer, sources: int, files: int) -> Path:
    """Write the folders and the `knowledge.yaml`."""
    lines = [
        "version: 1",
        "store: store",
        f"embedding: {{provider: openai, model: hashed-words, base_url: {server.url}, "
        f'api_key: "${{{_KEY}}}", dimensions: {server.dimensions}}}',
        "sources:",
    ]
    for number in range(sources):
        folder = root / "folders" / f"s{number:05}"
        folder.mkdir(parents=True)
        for file in range(files):
            text = f"def f_{number}_{file}(left, right):\n    return left * {number} + right * {file}\n"
            (folder / f"m{file}.py").write_text(text)
        lines.append(
            f"  - {{id: s{number:05}, type: code, connection: {{type: local, path: 'folders/s{number:05}'}}}}"
        )
    path = root / "knowledge.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def backfill_all(daemon: Daemon, path: Path, name: str) -> PartitionBackfill:
    """Request a backfill of every partition of the type, as the UI does."""
    os.environ["KNOWLEDGE_CONFIG"] = str(path)
    target = ModuleTarget(_MODULE, attribute=None, working_directory=None, location_name="knowledge_pipeline")
    with create_test_daemon_workspace_context(target, daemon.instance) as context:
        request = context.create_request_context()
        backfill = PartitionBackfill.from_asset_partitions(
            backfill_id=name,
            asset_graph=request.asset_graph,
            partition_names=[source.id for source in load_settings(path).sources],
            asset_selection=[*stage_asset_keys("code").values(), dg.AssetKey(RELEASE)],
            backfill_timestamp=time.time(),
            tags={},
            dynamic_partitions_store=daemon.instance,
            all_partitions=False,
            title="all",
            description=None,
            run_config=None,
        )
    daemon.instance.add_backfill(backfill)
    return backfill


@contextmanager
def memory() -> Iterator[dict[str, float]]:
    """Largest resident size of each kind of process, in MiB, while the block runs."""
    largest: dict[str, float] = defaultdict(float)
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(2.0):
            listed = subprocess.run(["ps", "-eo", "rss,args"], capture_output=True, text=True).stdout
            for line in listed.splitlines()[1:]:
                rss, _, command = line.strip().partition(" ")
                kind = _kind(command)
                if kind:
                    largest[kind] = max(largest[kind], int(rss) / 1024)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield largest
    finally:
        stop.set()
        thread.join()


def _kind(command: str) -> str | None:
    if "dagster-daemon" in command:
        return "daemon"
    if "multiprocessing.spawn" in command or "execute_run" in command:
        return "run worker"
    return "code server" if "dagster" in command and "grpc" in command else None


def ticks(instance: dg.DagsterInstance) -> dict[str, tuple[int, float, float]]:
    """Number, median and longest seconds of every sensor's ticks."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for state in instance.all_instigator_state():
        for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id):
            if tick.end_timestamp:
                seconds[state.instigator_name].append(tick.end_timestamp - tick.timestamp)
    return {name: (len(all_), statistics.median(all_), max(all_)) for name, all_ in seconds.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sources", type=int, default=2000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="a folder for the project and the instance, kept")
    options = parser.parse_args()
    with OpenAIServer() as server, tempfile.TemporaryDirectory() as folder:
        os.environ[_KEY] = server.key
        root = options.keep or Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        path = project(root, server, options.sources, options.files)
        with running(root / "home", path) as daemon:
            _measure(daemon, path, options.sources)


def _measure(daemon: Daemon, path: Path, sources: int) -> None:
    console, lake = Console(), Lake(load_settings(path).store)
    with memory() as largest:
        started = time.time()
        daemon.until(
            lambda: len(lake.list_stored_sources()) == sources and daemon.idle(), "the first refresh", 5400
        )
        runs = len(daemon.runs(trigger="added"))
        console.print(f"first refresh: {time.time() - started:.0f} s in {runs} runs")
        before = {run.run_id for run in daemon.instance.get_runs()}
        started = time.time()
        backfill = backfill_all(daemon, path, "all")
        daemon.until(lambda: _is_done(daemon, backfill.backfill_id), "the backfill", 5400)
        runs = len({run.run_id for run in daemon.instance.get_runs()} - before)
        console.print(f"backfill of all, nothing changed: {time.time() - started:.0f} s in {runs} runs")
    table = Table("sensor", "ticks", "median s", "longest s")
    for name, (count, median, longest) in sorted(ticks(daemon.instance).items()):
        table.add_row(name, str(count), f"{median:.2f}", f"{longest:.2f}")
    console.print(table)
    for kind, mebibytes in largest.items():
        console.print(f"{kind}: {mebibytes:.0f} MiB at most")
    console.print(f"index: {lake.index(*next(iter(lake.list_spaces().items()))).count_rows()} rows")


def _is_done(daemon: Daemon, backfill_id: str) -> bool:
    backfill = daemon.instance.get_backfill(backfill_id)
    return backfill is not None and backfill.status.value.startswith("COMPLETED")


if __name__ == "__main__":
    main()
