"""How long it takes from starting the process to the answer, and which imports take it.

    python -m benchmarks.startup [--config FILE] [--times N] [--imports N] [--json]

Starts `knowledge --help`, `--version`, `status`, `search`, `refresh` without a change and `serve` (until it
is ready) several times each, and gives the median of the clock and, because other programs may be at work,
of the processor time of the process and its children. Without `--config` it asks a small store of its
own, whose vectors an endpoint in a process of its own makes, so that no model is loaded; with it,
whatever the project has. The heaviest imports are those of one more start, with what they import.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.figures import print_rows

_KEY = "KNOWLEDGE_STARTUP_KEY"
_QUESTION = "how is a payment retried"
_ENDPOINT = """
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
with OpenAIServer() as server:
    print(server.url, server.key, server.dimensions, flush=True)
    input()
"""
_LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|( +)(\S+)")

Started = Callable[[list[str]], None]
"""Starts a command line, and waits for what is measured."""


def main() -> None:
    """Measure, print."""
    asked = _arguments()
    with ExitStack() as stack:
        config = asked.config or stack.enter_context(_project())
        rows = list(_measure(config, asked.times))
        imports = {
            name: _imports(_command(config, *given), asked.imports)
            for name, given in (
                ("search", ("search", _QUESTION)),
                ("refresh", ("refresh",)),
                ("help", ("--help",)),
            )
        }
    if asked.json:
        print(json.dumps({"rows": rows, "imports": imports}, indent=2))
        return
    print_rows("Startup, median", rows)
    for name, heaviest in imports.items():
        print_rows(f"Imports of {name}", heaviest)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--config", type=Path, help="knowledge.yaml of a project with a release")
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--imports", type=int, default=15, help="how many are told")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _measure(config: Path, times: int) -> Iterator[dict[str, Any]]:
    starts: tuple[tuple[str, list[str], Started], ...] = (
        ("python -c pass", [sys.executable, "-c", "pass"], _run),
        ("knowledge --help", _command(config, "--help"), _run),
        ("knowledge --version", _command(config, "--version"), _run),
        ("knowledge status", _command(config, "status"), _run),
        ("knowledge search", _command(config, "search", _QUESTION, "--json"), _run),
        ("knowledge refresh, no change", _command(config, "refresh"), _run),
        ("knowledge serve, until ready", _command(config, "serve", "--port", "0"), _serve),
    )
    for name, command, start in starts:
        start(command)  # from then on the files are in memory, and what a cache keeps is kept
        taken = [_time_start(start, command) for _ in range(times)]
        wall_s, cpu_s = (statistics.median(each) for each in zip(*taken, strict=True))
        yield {"start": name, "clock ms": round(wall_s * 1000), "processor ms": round(cpu_s * 1000)}


def _time_start(start: Started, command: list[str]) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    start(command)
    took_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _command(config: Path, *given: str) -> list[str]:
    return [sys.executable, "-m", "knowledge_pipeline.cli", "--config", str(config), *given]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _serve(command: list[str]) -> None:
    """Until `/ready` answers; the end is not waited for by the clock of a user, and takes a moment here."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr
        url = next(found[1] for line in child.stderr if (found := re.search(r"Answering on (\S+)", line)))
        while not _is_ready(url):
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/ready", timeout=10, trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False


def _imports(command: list[str], count: int) -> list[dict[str, Any]]:
    """The heaviest top-level packages, by their own modules' time."""
    traced = [command[0], "-X", "importtime", *command[1:]]
    told = subprocess.run(traced, check=True, capture_output=True, text=True).stderr
    own: dict[str, int] = {}
    for line in told.splitlines():
        if found := _LINE.match(line):
            package = found[4].partition(".")[0]
            own[package] = own.get(package, 0) + int(found[1])
    heaviest = sorted(own.items(), key=lambda each: -each[1])[:count]
    total = {"package": "all", "own ms": round(sum(own.values()) / 1000, 1)}
    return [total, *({"package": name, "own ms": round(us / 1000, 1)} for name, us in heaviest)]


@contextmanager
def _project() -> Iterator[Path]:
    """A small one with a release."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([sys.executable, "-c", _ENDPOINT], text=True, **pipes) as child,
    ):
        assert child.stdout
        try:
            url, os.environ[_KEY], dimensions = child.stdout.readline().split()
            config = Path(folder) / "knowledge.yaml"
            _write(config, {"base_url": url, "api_key": f"${{{_KEY}}}", "dimensions": int(dimensions)})
            _run(_command(config, "index"))
            yield config
        finally:
            child.kill()


def _write(config: Path, embedding: dict[str, Any]) -> None:
    sources = [("docs", "markdown"), ("code", "code")]
    told = {
        "embedding": {"provider": "openai", "model": "hashed-words", **embedding},
        "sources": [
            {"id": name, "type": kind, "connection": {"type": "local", "path": name}}
            for name, kind in sources
        ],
    }
    config.write_text(json.dumps(told))
    for name, file, text in (
        ("docs", "retries.md", "# Retries\n\nA payment is retried three times.\n"),
        ("code", "pay.py", "def retry(payment):\n    return payment\n"),
    ):
        (config.parent / name).mkdir()
        (config.parent / name / file).write_text(text)


if __name__ == "__main__":
    main()
