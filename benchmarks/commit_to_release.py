"""Seconds from `git commit` to the release that has it, by each way in which a commit is noticed.

    python -m benchmarks.commit_to_release [--files 60] [--repeats 5] [--ways sensor hook webhook]

sensor: the real Dagster daemon with its `changed_sources`, at random moments between two ticks.
hook, recorded_hook: what `knowledge hooks install` put into the repository, without and with `--dagster`.
webhook: a signed push of GitHub to `knowledge serve`, whose refresh is recorded in Dagster.

Vectors come from a small local server. The clock stops when the release is live. Other work on the machine
makes all of it slower: compare the best and the median, and give both.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import httpx2
from rich.console import Console
from rich.table import Table

from benchmarks.overhead import Bench, time_steps
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.defs.recorded_refresh import open_local_instance
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.daemon import running
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

_KEY, _SECRET = "BENCH_EMBEDDING_KEY", "BENCH_WEBHOOK_SECRET"
_URL = "https://code.example.com/bench/library.git"
_LONGEST_S = 180.0
_PROGRAM = [sys.executable, "-m", "knowledge_pipeline.cli"]

Timed = dict[str, float]
"""Seconds of each part, and of all."""


class Clock:
    """Commits, and waits for the release of it."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.lake = bench, Lake(load_settings(bench.path).store)

    def _release(self) -> int:
        live = find_live_release(self.lake)
        return live.release if live else 0

    def time(self, notify: Callable[[str], None] = lambda commit: None) -> tuple[float, float]:
        """When a commit was made, and how many seconds later its release was live."""
        before, begun = self._release(), time.time()
        notify(self.bench.edit())
        while self._release() == before:
            if time.time() - begun > _LONGEST_S:
                raise SystemExit(f"nothing was released within {_LONGEST_S:g} s")
            time.sleep(0.05)
        return begun, time.time() - begun


def by_sensor(bench: Bench, repeats: int) -> list[Timed]:
    """The daemon looks; commits come at random moments."""
    moments, found = random.Random(0), []
    with running(bench.root / "home", bench.path) as daemon:
        daemon.until(
            lambda: '"stood":{"' in daemon.cursor("changed_sources") and daemon.idle(), "the first look"
        )
        for _ in range(repeats):
            time.sleep(moments.uniform(5.0, 10.0))
            begun, total = Clock(bench).time()
            daemon.until(daemon.idle, "the run's end")
            found.append(_explain(daemon.instance, begun, total, "the sensor notices"))
    return found


def by_hook(bench: Bench, repeats: int, *words: str) -> list[Timed]:
    """Git starts the refresh."""
    home = bench.root / ".dagster"
    os.environ.pop("DAGSTER_HOME", None)
    subprocess.run([*_PROGRAM, "hooks", "install", *words], cwd=bench.root, check=True, capture_output=True)
    found: list[Timed] = []
    for _ in range(repeats):
        begun, total = Clock(bench).time()
        time.sleep(3.0)  # the process ends after the release
        if words:
            with open_local_instance(home) as instance:
                found.append(_explain(instance, begun, total, "a process starts and loads the definitions"))
            os.environ.pop("DAGSTER_HOME", None)
        else:
            found.append({"all": total})
    return found


def by_webhook(bench: Bench, repeats: int) -> list[Timed]:
    """A server is told, and starts a recorded refresh."""
    home, found = bench.root / "server_home", []
    with open_local_instance(home) as instance, serving(bench) as url:
        for _ in range(repeats):
            begun, total = Clock(bench).time(lambda commit: _push(url, commit))
            time.sleep(3.0)
            found.append(
                _explain(instance, begun, total, "the server starts a process, which loads the definitions")
            )
    os.environ.pop("DAGSTER_HOME", None)
    return found


@contextmanager
def serving(bench: Bench) -> Iterator[str]:
    """The address of `knowledge serve`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (bench.root / "serve.log").open("wb") as log:
        server = subprocess.Popen(
            [*_PROGRAM, "serve", "--port", str(port)], cwd=bench.root, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        while not _is_up(url):
            time.sleep(0.2)
        yield url
    finally:
        server.terminate()
        server.wait()


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz").status_code < 500
    except httpx2.TransportError:
        return False


def _push(url: str, commit: str) -> None:
    repository = {"clone_url": _URL, "default_branch": "main", "pushed_at": int(time.time())}
    body = json.dumps({"ref": "refs/heads/main", "after": commit, "repository": repository}).encode()
    signature = hmac.new(os.environ[_SECRET].encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "push"}
    headers |= {"X-GitHub-Delivery": commit, "Content-Type": "application/json"}
    response = httpx2.post(f"{url}/webhooks/github", content=body, headers=headers)
    if response.status_code != 202 or not response.json().get("refreshes"):
        raise SystemExit(f"the webhook was refused: {response.text}")


def _explain(instance: dg.DagsterInstance, begun: float, total: float, first: str) -> Timed:
    newest = next(iter(instance.get_runs(limit=1)))
    return time_steps(instance, newest.run_id, begun, first=first) | {"all": total}


_WAYS: dict[str, Callable[[Bench, int], list[Timed]]] = {
    "sensor": by_sensor,
    "hook": by_hook,
    "recorded_hook": lambda bench, repeats: by_hook(bench, repeats, "--dagster"),
    "webhook": by_webhook,
}


def _measure(way: str, server: OpenAIServer, files: int, repeats: int) -> list[Timed]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        secret = f"serve: {{webhooks: {{github_secret: '${{{_SECRET}}}'}}}}\n"
        told = {"url": _URL, "settings": secret} if way == "webhook" else {}
        leads = root / "gitconfig"
        leads.write_text(f'[url "file://{root / "repository"}"]\n\tinsteadOf = {_URL}\n')
        os.environ["GIT_CONFIG_GLOBAL"] = str(leads)
        bench = Bench(root, files, server, **told)
        bench.stages_alone()
        return _WAYS[way](bench, repeats)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=list(_WAYS), default=list(_WAYS))
    options = parser.parse_args()
    with OpenAIServer() as server:
        os.environ |= {_KEY: server.key, _SECRET: "bench-secret-of-no-service"}
        for way in options.ways:
            timed = _measure(way, server, options.files, options.repeats)
            table = Table(
                "what", "best s", "median s", "worst s", title=f"From a commit to its release: {way}"
            )
            for name in timed[0]:
                seconds = [each[name] for each in timed]
                figures = (min(seconds), statistics.median(seconds), max(seconds))
                table.add_row(name, *(f"{each:.2f}" for each in figures))
            Console().print(table)


if __name__ == "__main__":
    main()
