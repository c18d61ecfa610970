"""What an idle `dagster dev` of this project costs, beside that of a trivial one, over the same minutes.

    python -m benchmarks.idle [--minutes 5] [--json]

Ours has six small sources, refreshed and released before the clock starts; the trivial project is one asset
on Dagster's own settings. Counted are the processor seconds and the memory of all processes of each:
`dagster dev`, webserver, daemon, code server, and what they start.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.figures import describe_machine, print_rows
from knowledge_pipeline_tests.defs.daemon import FINISHED, OURS
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

_KEY = "BENCH_EMBEDDING_KEY"
_TRIVIAL = "import dagster as dg\n\n@dg.asset\ndef one() -> None: ...\n\ndefs = dg.Definitions([one])\n"
_SETTLED_S = 90.0  # without a run, before the clock starts
_PROCESSES = {"dagster-webserver": "webserver", "dagster-daemon": "daemon", "dagster_webserver": "webserver"}
_PROCESSES |= {"dagster._daemon": "daemon", " grpc ": "code server", "code-server": "code server"}


def write_ours(root: Path, server: OpenAIServer) -> None:
    """Six sources of two files: two repositories, four folders."""
    lines = [
        "version: 1\nstore: store",
        f"embedding: {{provider: openai, model: hashed-words, base_url: {server.url}, "
        f'api_key: "${{{_KEY}}}", dimensions: {server.dimensions}}}\nsources:',
    ]
    for number, type_ in enumerate(["code", "code", "code", "markdown", "markdown", "markdown"]):
        folder = root / f"folder{number}"
        folder.mkdir()
        (folder / "one.py").write_text(f"def f{number}(left):\n    return left * {number}\n")
        (folder / "two.md").write_text(f"# Folder {number}\n\nWhat it is for.\n")
        connection = f"{{type: local, path: folder{number}}}"
        if number < 2:
            git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.com", "-C", str(folder)]
            for words in (["init", "-qb", "main"], ["add", "."], ["commit", "-qm", "first"]):
                subprocess.run([*git, *words], check=True)
            connection = f"{{type: git, url: '{folder}', branch: main}}"
        lines.append(f"  - {{id: s{number}, type: {type_}, connection: {connection}}}")
    (root / "knowledge.yaml").write_text("\n".join(lines) + "\n")


@contextmanager
def running(root: Path, *words: str) -> Iterator[dg.DagsterInstance]:
    """`dagster dev` in a folder that has its `home`."""
    home = root / "home"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("dagster")
    command = [program, "dev", *words, "--port", str(port)]
    environment = os.environ | {"DAGSTER_HOME": str(home), "KNOWLEDGE_CONFIG": str(root / "knowledge.yaml")}
    with (root / "dev.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log)
    os.environ["DAGSTER_HOME"] = str(home)  # dagster.yaml reads it
    try:
        with dg.DagsterInstance.from_config(str(home)) as instance:
            yield instance
    finally:  # where a script runs it in the background, it ignores SIGINT and SIGTERM
        for folder, _ in list_processes(home):
            with suppress(ProcessLookupError):
                os.kill(int(folder.name), signal.SIGKILL)
        process.wait()


def list_processes(home: Path) -> list[tuple[Path, str]]:
    """The folder in /proc and the command of each process that has this DAGSTER_HOME."""
    wanted, processes = f"DAGSTER_HOME={home}".encode(), list[tuple[Path, str]]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is another user's
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                processes.append((folder, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
    return processes


def measure(home: Path) -> dict[str, tuple[float, float]]:
    """Processor seconds until now, and resident MB, of each kind of process that has this DAGSTER_HOME.

    What a process has waited for, such as git, is counted with it.
    """
    figures = defaultdict[str, tuple[float, float]](lambda: (0.0, 0.0))
    for folder, command in list_processes(home):
        try:
            values = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        name = next((name for part, name in _PROCESSES.items() if part in command), "dagster dev")
        seconds = sum(map(int, values[11:15])) / os.sysconf("SC_CLK_TCK")
        megabytes = int(values[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        figures[name] = (figures[name][0] + seconds, figures[name][1] + megabytes)
    return figures


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look once a second, for ten minutes at most."""
    deadline = time.monotonic() + 600.0
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within ten minutes")
        time.sleep(1.0)


def count_ticks(instance: dg.DagsterInstance, since_s: float) -> dict[str, int]:
    """How many times each sensor was evaluated since a time."""
    counts: dict[str, int] = {}
    for state in instance.all_instigator_state():
        found = instance.get_ticks(state.instigator_origin_id, state.selector_id, after=since_s)
        counts[state.instigator_name] = len(found)
    return {name: count for name, count in sorted(counts.items()) if count}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with OpenAIServer() as server, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ[_KEY] = server.key
        ours, trivial = Path(folder) / "ours", Path(folder) / "trivial"
        for root in (ours, trivial):
            (root / "home").mkdir(parents=True)
        shutil.copyfile(OURS, ours / "home" / "dagster.yaml")
        write_ours(ours, server)
        (trivial / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        (trivial / "trivial.py").write_text(_TRIVIAL)
        stack.enter_context(running(trivial, "-m", "trivial"))
        instance = stack.enter_context(running(ours, "-m", "knowledge_pipeline.definitions"))
        _settle(instance)
        rows, ticks = _compare(
            {"trivial": trivial / "home", "ours": ours / "home"}, instance, options.minutes
        )
    if options.json:
        print(json.dumps({"machine": describe_machine(), "rows": rows, "ticks": ticks}, indent=2))
        return
    print_rows(f"Processor seconds a minute over {options.minutes:g} minutes, {describe_machine()}", rows)
    print(", ".join(f"{name} {count}" for name, count in ticks.items()))


def _settle(instance: dg.DagsterInstance) -> None:
    wait_until(lambda: bool(instance.get_runs(dg.RunsFilter(job_name="sql_models"))), "the first release")
    wait_until(lambda: all(run.status in FINISHED for run in instance.get_runs()), "the end of all runs")
    if failed := instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])):
        errors = [event.step_failure_data.error for run in failed for event in _list_failures(instance, run)]
        raise SystemExit(
            f"{[run.job_name for run in failed]} failed: {[error and error.message for error in errors]}"
        )
    time.sleep(_SETTLED_S)


def _list_failures(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[dg.DagsterEvent]:
    entries = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return [entry.get_dagster_event() for entry in entries]


def _compare(
    homes: dict[str, Path], instance: dg.DagsterInstance, minutes: float
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    began_s, before = time.time(), {name: measure(home) for name, home in homes.items()}
    runs = instance.get_runs_count()
    time.sleep(60.0 * minutes)
    if instance.get_runs_count() != runs:
        raise SystemExit("a run was started meanwhile")
    after, rows = {name: measure(home) for name, home in homes.items()}, list[dict[str, Any]]()
    for kind in ("dagster dev", "webserver", "daemon", "code server"):
        row: dict[str, Any] = {"process": kind}
        for name in homes:
            row[name] = round((after[name][kind][0] - before[name][kind][0]) / minutes, 2)
            row[f"{name} MB"] = round(after[name][kind][1])
        rows.append(row)
    total: dict[str, Any] = {"process": "all"}
    rows.append(total | {key: round(sum(row[key] for row in rows), 2) for key in rows[0] if key != "process"})
    return rows, count_ticks(instance, began_s)


if __name__ == "__main__":
    main()
