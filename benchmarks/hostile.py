"""What a normal search waits for while one token asks the worst that it may.

    python -m benchmarks.hostile [--chunks N] [--seconds S] [--attackers N] [--only NAME ...] [--json]

Indexes sources of this interpreter's packages with their code graph, pages of wide tables, and a year of
logged queries; a real `knowledge serve` process answers with its default settings. One client searches all
the time, a fresh question after the other, and reads a file of the page after each, with a token of its own.
Phases alternate: rest, one attack, rest, the next attack. An attack is some connections that send the worst
accepted input to one route, as fast as they are answered, all with one other token, of each attack its own,
and its usual rate limit. A ratio is that of a p99 to the mean of the phases of rest around it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa

from benchmarks.figures import describe_machine, measure_memory, print_rows
from benchmarks.scale_corpus import repositories
from benchmarks.serve_load import (
    DIMENSIONS,
    KEY_VARIABLE,
    endpoint_process,
    iter_questions,
    serving,
)
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake

API = "/api/v1/knowledge"
GOAL = 2.0  # p99 under attack, of that at rest
_STATIC_FILE = "/static/page.css"
_LOGGED = 200_000  # queries of a year
_WIDE_COLUMNS, _WIDE_TABLES = 400, 40
_SHAPES = (
    *("why was ", "where is ", "+1111111111111111111111x ", "[a](", "a@", "<a ", "| a ", "`a", "aB"),
    *("path:'", "lang:a ", "a:b ", "http://a", "((((", "::a"),
)

Attack = Callable[[httpx2.AsyncClient, int], Awaitable[Any]]
"""One request, or one held connection, by its number."""


@dataclass
class Phase:
    """The searches of one phase, and the server's memory."""

    name: str
    took_ms: list[float] = field(default_factory=list[float])
    static_ms: list[float] = field(default_factory=list[float])  # files of the page
    memory_mb: float = 0.0  # the most
    failed: int = 0  # searches and files that got another answer than 200
    sent: Counter[str] = field(default_factory=Counter[str])  # attacks, by status

    def percentile(self, percent: int) -> float:
        """Milliseconds that so many percent of the searches did not exceed."""
        return _percentile(self.took_ms, percent)


def _percentile(took_ms: Sequence[float], percent: int) -> float:
    if len(took_ms) < 2:
        return max(took_ms, default=float("nan"))
    return statistics.quantiles(took_ms, n=100, method="inclusive")[percent - 1]


def main() -> None:
    """Build, attack, print."""
    options = _read_arguments()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = options.folder or Path(temporary)
        endpoint = stack.enter_context(endpoint_process(folder / "port"))
        settings = declare(folder, endpoint, options.chunks)
        chunks = build(settings)
        tokens = TokenStore(Lake(settings.store))
        victim = tokens.create("victim", requests_per_minute=1_000_000)[1]
        url, pid = stack.enter_context(serving(folder))
        attacks = {name: each for name, each in ATTACKS.items() if not options.only or name in options.only}
        attackers = {name: tokens.create(name)[1] for name in attacks}  # each with a whole minute's rate
        how = (options.seconds, options.attackers)
        phases = asyncio.run(_alternate(url, pid, victim, attackers, attacks, *how))
    rows = list(_compare(phases))
    if options.json:
        print(json.dumps({"machine": describe_machine(), "chunks": chunks, "rows": rows}, indent=2))
        return
    title = f"{chunks:,} chunks, {options.attackers} connections attack, {describe_machine()}"
    print_rows(title, rows, width=170)


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, default=16_000, help="of code, about")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase")
    parser.add_argument("--attackers", type=int, default=8, help="connections that attack at once")
    parser.add_argument("--only", nargs="*", choices=tuple(ATTACKS), help="some of the attacks")
    parser.add_argument("--folder", type=Path, help="keeps the store, for another run")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def declare(folder: Path, endpoint: tuple[str, str], chunks: int) -> Settings:
    """A code repository and pages of wide tables; everything of the server as it is by default."""
    import os

    url, os.environ[KEY_VARIABLE] = endpoint
    (repository,) = repositories(folder / "repositories", chunks)
    pages = folder / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    header = "|" + " a |" * _WIDE_COLUMNS + "\n|" + "-|" * _WIDE_COLUMNS + "\n"
    wide = "\n".join(f"## Table {n}\n\n{header}| b |\n| c |\n" for n in range(_WIDE_TABLES))
    (pages / "wide.md").write_text(f"# Wide\n\n{wide}")
    (pages / "colons.md").write_text(f"# Colons\n\n```ini\n{':::: ' * 12_000}\n```\n")
    source = {"type": "git", "url": str(repository), "branch": "main"}
    declared = {
        "store": "store",
        "embedding": {
            **{"provider": "openai", "model": "generated", "base_url": url, "dimensions": DIMENSIONS},
            "api_key": f"${{{KEY_VARIABLE}}}",
        },
        "query": {"cache": {"ttl_minutes": 0}},
        "sources": [
            {"id": "code", "type": "code", "connection": source},
            {"id": "pages", "type": "markdown", "connection": {"type": "local", "path": str(pages)}},
        ],
    }
    (folder / "knowledge.yaml").write_text(json.dumps(declared))
    return file.load_settings(folder / "knowledge.yaml")


def build(settings: Settings) -> int:
    """The store and its log, unless they are there; how many chunks it has."""
    lake, started = Lake(settings.store), time.perf_counter()
    outcome = pipeline.refresh(lake, settings, settings.sources)
    for error in outcome.failures.values():
        raise error
    log: Any = lake.log_table("queries")
    if not log.exists:
        log.append(_log_a_year(log.schema))
    print(f"built in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    ((space, dimensions),) = lake.list_spaces().items()
    return lake.index(space, dimensions).count_rows()


def _log_a_year(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    now = datetime.now(UTC)
    for start in range(0, _LOGGED, 10_000):
        rows = [
            {
                **{"query_id": f"q{number}", "at": now - timedelta(minutes=number * 2.5), "type": "semantic"},
                **{"text": "how is a session signed", "interface": "http", "token": None, "tenant": None},
                **{"principals": [], "release": 1, "results": 5, "took_ms": 12.5},
                **{"cached": False, "degraded": []},
            }
            for number in range(start, start + 10_000)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


async def _alternate(
    url: str,
    pid: int,
    victim: str,
    attackers: dict[str, str],
    attacks: dict[str, Attack],
    seconds: float,
    connections: int,
) -> list[Phase]:
    phases: list[Phase] = []
    words = ["session", "retry", "payment", "parser", "socket", "thread", "cache", "token", "index", "path"]
    questions = iter_questions([f"{one} {other}" for one in words for other in words])
    async with _client(url, victim) as http:
        for _ in range(30):  # what is opened once is opened
            await _search(http, next(questions))
        for name, attack in attacks.items():
            phases.append(await _measure(Phase("rest"), http, questions, pid, seconds))
            async with _client(url, attackers[name]) as hostile:
                phases.append(
                    await _under_attack(name, attack, hostile, http, questions, pid, seconds, connections)
                )
            await asyncio.sleep(1)
        phases.append(await _measure(Phase("rest"), http, questions, pid, seconds))
    return phases


def _client(url: str, token: str) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=1_000)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits, trust_env=False)


async def _search(http: httpx2.AsyncClient, question: str) -> bool:
    return (await http.post(f"{API}/search", json={"query": question})).is_success


async def _measure(
    phase: Phase, http: httpx2.AsyncClient, questions: Iterator[str], pid: int, seconds: float
) -> Phase:
    ends = time.perf_counter() + seconds
    while (asked := time.perf_counter()) < ends:
        phase.failed += not await _search(http, next(questions))
        answered = time.perf_counter()
        phase.failed += not (await http.get(_STATIC_FILE)).is_success
        phase.took_ms.append((answered - asked) * 1000)
        phase.static_ms.append((time.perf_counter() - answered) * 1000)
        phase.memory_mb = max(phase.memory_mb, measure_memory(pid))
    print(f"{phase.name}: p99 {phase.percentile(99):.0f} ms", file=sys.stderr)
    return phase


async def _under_attack(
    name: str,
    attack: Attack,
    hostile: httpx2.AsyncClient,
    http: httpx2.AsyncClient,
    questions: Iterator[str],
    pid: int,
    seconds: float,
    connections: int,
) -> Phase:
    phase = Phase(name)

    async def attack_again(number: int) -> None:
        while True:
            try:
                answer = await attack(hostile, number)
                status = getattr(answer, "status_code", "held")
            except (httpx2.HTTPError, OSError) as error:
                status = type(error).__name__
            phase.sent[str(status)] += 1
            number += connections
            await asyncio.sleep(0.05 if status == 429 else 0)  # a refusal costs the attacker, too

    attacking = [asyncio.create_task(attack_again(number)) for number in range(connections)]
    await asyncio.sleep(0.5)
    try:
        return await _measure(phase, http, questions, pid, seconds)
    finally:
        for each in attacking:
            each.cancel()
        await asyncio.gather(*attacking, return_exceptions=True)


def _compare(phases: Sequence[Phase]) -> Iterator[dict[str, Any]]:
    """One row a phase: an attack beside the phases of rest around it."""
    for at, phase in enumerate(phases):
        row: dict[str, Any] = {
            **{"phase": phase.name, "searches": len(phase.took_ms), "failed": phase.failed},
            **{"p50 ms": round(phase.percentile(50), 1), "p99 ms": round(phase.percentile(99), 1)},
            **{"static p99 ms": round(_percentile(phase.static_ms, 99), 1)},
            **{"p50 ratio": "", "p99 ratio": "", "static p99 ratio": "", "memory MB": round(phase.memory_mb)},
            "answers to the attack": ", ".join(f"{count} x {what}" for what, count in phase.sent.items()),
        }
        if phase.name != "rest":
            around = (phases[at - 1], phases[at + 1])
            for percent in (50, 99):
                rest = statistics.mean(each.percentile(percent) for each in around)
                row[f"p{percent} ratio"] = round(phase.percentile(percent) / rest, 2)
            rest = statistics.mean(_percentile(each.static_ms, 99) for each in around)
            row["static p99 ratio"] = round(_percentile(phase.static_ms, 99) / rest, 2)
        yield row


async def _send_regex_hostile(http: httpx2.AsyncClient, number: int) -> httpx2.Response:
    shape = _SHAPES[number % len(_SHAPES)]
    chars = 20_000 if number % 2 else 4_000
    path = "similar" if number % 2 else "query"
    text = (shape * chars)[: chars - 12] + f" {number}"
    return await http.post(f"{API}/{path}", json={"text" if number % 2 else "query": text})


async def _send_many_filters(http: httpx2.AsyncClient, number: int) -> httpx2.Response:
    """Twenty are patterns: whole words of names, letter case aside, are the most expensive."""
    names = [f"é{number % 1_000:03} {each:03} " + "ünîcödé " * 21 for each in range(20)]
    ids = [f"{number % 1_000:03}-{each}" for each in range(180)]
    filters = {"authors": names, "tags": ids}
    return await http.post(f"{API}/search", json={"query": f"retry {number}", "filters": filters})


async def _read_wide_tables(http: httpx2.AsyncClient, _: int) -> httpx2.Response:
    return await http.get("/doc?id=pages:wide.md", headers={"Accept": "text/html"})


async def _read_colons(http: httpx2.AsyncClient, _: int) -> httpx2.Response:
    """A fence of which general highlighters take minutes."""
    return await http.get("/doc?id=pages:colons.md", headers={"Accept": "text/html"})


async def _send_slow_headers(http: httpx2.AsyncClient, _: int) -> str:
    """Twenty connections whose headers come a line a second."""
    await _hold(http, 20, b"GET /health HTTP/1.1\r\nHost: x\r\n", b"X-Slow: 1\r\n")
    return "held"


async def _send_unfinished_bodies(http: httpx2.AsyncClient, _: int) -> str:
    """Ten posts of a megabyte, by a known token, that lack their end."""
    token = http.headers["Authorization"]
    head = f"POST {API}/context HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Length: 999000\r\n"
    start = f"{head}Content-Type: application/json\r\n\r\n".encode() + b'{"task": "' + b"x" * 990_000
    await _hold(http, 10, start, b"x")
    return "held"


async def _hold(http: httpx2.AsyncClient, count: int, start: bytes, more: bytes) -> None:
    async with AsyncExitStack() as stack:
        writers: list[asyncio.StreamWriter] = []
        for _ in range(count):
            _, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
            stack.callback(writer.close)
            writer.write(start)
            writers.append(writer)
        for _ in range(10):
            await asyncio.sleep(1)
            for writer in writers:
                if not writer.transport.is_closing():
                    writer.write(more)


async def _ask_stats_of_a_year(http: httpx2.AsyncClient, _: int) -> httpx2.Response:
    return await http.get(f"{API}/stats?hours=8784")


async def _walk_deep(http: httpx2.AsyncClient, number: int) -> httpx2.Response:
    target = ("get", "copy", "update", "close", "read", "write", "__init__", "part00", "part07")[number % 9]
    operation = ("impact", "calls", "dependencies")[number % 3]
    body = {"target": target, "depth": 10, "limit": 1_000}
    if number % 2:
        body["target"] = f"part{number % 100:02}"
    return await http.post(f"{API}/graph/{operation}", json=body)


async def _build_hostile_context(http: httpx2.AsyncClient, number: int) -> httpx2.Response:
    shape = random.Random(number).choice(_SHAPES)
    task = (f"{number} retry the session of a parser " + shape * 200_000)[:200_000]
    body = {"task": task, "snippet": (shape * 20_000)[:20_000], "max_tokens": 1_000_000}
    return await http.post(f"{API}/context", json={**body, "kind": "merge_resolution"})


async def _build_long_context(http: httpx2.AsyncClient, number: int) -> httpx2.Response:
    body = {"task": f"retry the session of parser {number}", "max_tokens": 1_000_000}
    return await http.post(f"{API}/context", json=body)


ATTACKS: dict[str, Attack] = {
    "regex-hostile texts": _send_regex_hostile,
    "200 filters": _send_many_filters,
    "wide tables": _read_wide_tables,
    "hostile fences": _read_colons,
    "slow headers": _send_slow_headers,
    "unfinished bodies": _send_unfinished_bodies,
    "a year of stats": _ask_stats_of_a_year,
    "deep graph walks": _walk_deep,
    "hostile tasks": _build_hostile_context,
    "contexts of a million tokens": _build_long_context,
}

if __name__ == "__main__":
    main()
