"""Counts what the isolation suite tries, and how soon revoked access is gone.

    python -m benchmarks.isolation [--attempts N] [--revocations N]

The organisation of the tests: three tenants and the public, each source with a word that is nowhere else.
Every kind of caller sends generated attempts at what it may not see by HTTP, MCP, the page and Python; the
word, the ids or the name of a hidden source in any answer is a canary. Then a source that everybody sees is
made private in knowledge.yaml, with nothing refreshed, and each interface asked until it is gone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.serve_load import machine
from knowledge_pipeline.config import file
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.isolation import (
    CALLERS,
    REFUSED,
    Doors,
    Siege,
    Watch,
    hidden_from,
    secrets_of,
)
from knowledge_pipeline_tests.serve.isolation_attempts import Attempt, Intruder
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import SOURCES, World, build

DOORS = ("http", "mcp", "page", "python")
_REVOKED = next(source for source in SOURCES if source.id == "shop-docs")
_PRIVATE = {"visibility": "private", "tenant": "acme", "principals": ["ann"]}


def main() -> None:
    """Try, revoke, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--attempts", type=int, default=200, help="of each caller")
    parser.add_argument("--revocations", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, OpenAIServer() as embedding:
        root = Path(temporary) / "world"
        root.mkdir()
        world = build(root, embedding)
        os.environ.update(world.environment)
        _print_attempts(world, Path(temporary), options.attempts)
        _print_revocations(world, Path(temporary), options.revocations)


def _print_attempts(world: World, folder: Path, count: int) -> None:
    table = Table(title=f"Attempts by caller and interface, and canaries found, {machine()}")
    for heading in ("caller", *DOORS, "canaries"):
        table.add_column(heading, justify="left" if heading == "caller" else "right")
    with Siege(world, folder, secrets_of(world)) as siege:
        for seed, caller in enumerate((*CALLERS, "admin", *REFUSED)):
            # Python has no tokens: a caller there is whom the program says, and cannot be refused.
            doors = DOORS if caller in CALLERS else DOORS[:3]
            watch, sender = Watch(siege.secrets, hidden_from(caller)), siege.doors(caller)
            tried, found = Counter[str](), 0
            for attempt in siege.attempts(caller, count, seed=1_000 + seed, doors=doors):
                tried[attempt.door] += 1
                found += watch.found(attempt, sender.send(attempt).text) is not None
            table.add_row(caller, *(str(tried[door]) for door in DOORS), str(found))
    Console(width=110).print(table)


def _print_revocations(world: World, folder: Path, count: int) -> None:
    root, secrets = folder / "revoked", secrets_of(world)
    shutil.copytree(world.root, root)
    config, watch = root / "knowledge.yaml", Watch(secrets, [_REVOKED])
    public = config.read_text()
    declared = json.loads(public)
    next(each for each in declared["sources"] if each["id"] == _REVOKED.id)["access"] = _PRIVATE
    took: dict[str, list[float]] = {}
    with Running(file.load_settings(config), config=config) as server:
        doors = Doors(server, world.tokens["public"], Access.public())
        for door, attempt in _find_answers(doors, Intruder(1, [secrets[_REVOKED.id]]), watch).items():
            for _ in range(count):
                config.write_text(public)
                while not watch.found(attempt, doors.send(attempt).text):
                    pass
                config.write_text(json.dumps(declared))
                revoked = time.perf_counter()
                while watch.found(attempt, doors.send(attempt).text):
                    pass
                took.setdefault(door, []).append(time.perf_counter() - revoked)
    table = Table(title=f"Seconds from revoked to first answer without it, of {count}, {machine()}")
    for heading in ("interface", "median", "most"):
        table.add_column(heading, justify="left" if heading == "interface" else "right")
    for door, each in took.items():
        table.add_row(door, f"{statistics.median(each):.2f}", f"{max(each):.2f}")
    Console(width=110).print(table)


def _find_answers(doors: Doors, intruder: Intruder, watch: Watch) -> dict[str, Attempt]:
    """An attempt by each interface that shows the source as long as it is public."""
    seen: dict[str, Attempt] = {}
    for attempt in intruder.attempts(200, DOORS):
        if attempt.door not in seen and watch.found(attempt, doors.send(attempt).text):
            seen[attempt.door] = attempt
    return seen


if __name__ == "__main__":
    main()
