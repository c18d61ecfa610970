"""What `knowledge serve` stands: many clients at once, beside what LanceDB alone would give them.

    python -m benchmarks.serve_load [--chunks N] [--seconds S] [--clients N] [--folder DIR] [--json]
    python -m benchmarks.serve_load --seconds 3600 --release-every 300    # one load, for its memory

Generates a store: passages of the Python files of this interpreter's packages, generated vectors, five
tenants with public, tenant-wide and private passages. Then, in one run: clients with tokens search over
HTTP, a real `knowledge serve` process answers; and as many tasks ask LanceDB itself for the nearest
vectors and the best words, under the same filters. The store is released anew in the middle of each
load; with `--release-every` that often, during one load alone of distinct questions. Questions are embedded
by an endpoint in a process of its own, which the raw calls do not need.
`processor ms` is what an answer takes in the process that answers, with its share of the release, and
`clients ms` what it takes in the clients, which run on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import pyarrow as pa

from benchmarks.figures import describe_machine, measure_memory, measure_processor, print_rows
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store import indexes, release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import build_payload, open_index
from knowledge_pipeline.store.vectors import VectorMemory
from knowledge_pipeline.words import expand_identifiers

DIMENSIONS = 256
TENANTS = ("acme", "bolt", "core", "dune", "echo")
_SEARCH, _TIMEOUT_S = "/api/v1/knowledge/search", 60
CANDIDATES = 50  # that a search asks of each of its two ways
_LINES, _BATCH, _MOST_ERRORS = 30, 2_000, 5
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_REPEATED = 50  # questions, where clients ask the same again
KEY_VARIABLE = "KNOWLEDGE_LOAD_KEY"  # the variable that knowledge.yaml names
_ENDPOINT = f"""
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
import sys
with OpenAIServer(dimensions={DIMENSIONS}, port=int(sys.argv[1])) as server:
    print(server.url, server.key, flush=True)
    input()
"""

Ask = Callable[[int, str], Awaitable[int]]
"""Asks a question as one of the clients; the release that answered."""


@dataclass
class Load:
    """What one load gave."""

    name: str
    took_ms: list[float] = field(default_factory=list[float])
    ended_s: list[float] = field(default_factory=list[float])  # since the start
    errors: Counter[str] = field(default_factory=Counter[str])
    releases: set[int] = field(default_factory=set[int])
    memory_mb: list[float] = field(default_factory=list[float])  # of the server, once a second
    seconds: float = 0.0
    released_s: float | None = None
    answering_s: float = 0.0  # of the processor, in the process that answers
    asking_s: float | None = None  # and in the clients; None: they are one with it

    def row(self) -> dict[str, Any]:
        """As it is told."""
        cuts = statistics.quantiles(self.took_ms, n=100) if len(self.took_ms) > 1 else [0.0] * 99
        around = [
            took
            for took, at in zip(self.took_ms, self.ended_s, strict=True)
            if self.released_s is not None and abs(at - self.released_s) <= 2
        ]
        return {
            "load": self.name,
            "answers": len(self.took_ms),
            "a second": round(len(self.took_ms) / self.seconds, 1),
            "p50 ms": round(cuts[49], 1),
            "p95 ms": round(cuts[94], 1),
            "p99 ms": round(cuts[98], 1),
            "most ms": round(max(self.took_ms, default=0.0), 1),
            "processor ms": self._each_ms(self.answering_s),
            "clients ms": "" if self.asking_s is None else self._each_ms(self.asking_s),
            "errors": sum(self.errors.values()),
            "releases": len(self.releases),
            "most ms by the release": round(max(around, default=0.0), 1),
            "memory MB": _course(self.memory_mb),
        }

    def _each_ms(self, seconds: float) -> float:
        return round(seconds * 1000 / max(len(self.took_ms), 1), 2)


def main() -> None:
    """Generate, load, print."""
    asked = _arguments()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = asked.folder or Path(temporary)
        endpoint = stack.enter_context(endpoint_process(folder / "port"))
        settings = declare(folder, endpoint, cached=False)
        words = write(settings, asked.chunks)
        loads = list(_loads(folder, endpoint, asked, words))
    if asked.json:
        told = [{**load.row(), "memory_mb": load.memory_mb, "why": dict(load.errors)} for load in loads]
        print(json.dumps({"machine": describe_machine(), "chunks": asked.chunks, "loads": told}, indent=2))
        return
    title = f"{asked.clients} clients, {asked.chunks:,} chunks, {describe_machine()}"
    print_rows(title, [load.row() for load in loads], width=180)
    for load in loads:
        for error, count in load.errors.most_common(_MOST_ERRORS):
            print(f"{load.name}: {count} x {error}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--release-every", type=float, help="seconds, in one load alone")
    parser.add_argument("--folder", type=Path, help="keeps the store, for another run")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.release_every is not None and asked.release_every <= 0:
        parser.error(f"--release-every {asked.release_every:g}: give more than 0 seconds")
    return asked


def _loads(
    folder: Path, endpoint: tuple[str, str], asked: argparse.Namespace, words: list[str]
) -> Iterator[Load]:
    settings = declare(folder, endpoint, cached=False)
    tokens = make_tokens(settings)
    how: dict[str, Any] = {"seconds": asked.seconds, "clients": asked.clients}
    often = asked.release_every
    if not often:
        yield asyncio.run(_raw(settings, words, "LanceDB alone", **how))
    for name, cached, count in (
        ("served, no cache, distinct", False, None),
        *(
            ()
            if often
            else (("served, cache, distinct", True, None), ("served, cache, repeated", True, _REPEATED))
        ),
    ):
        settings = declare(folder, endpoint, cached=cached)
        with serving(folder) as (url, pid):
            questions, release_s = iter_questions(words, count), often or asked.seconds / 2
            yield asyncio.run(
                _served(settings, url, pid, tokens, questions, name, release_s=release_s, **how)
            )
    if not often:
        yield asyncio.run(_raw(settings, words, "LanceDB alone, again", **how))


async def _raw(settings: Settings, words: list[str], name: str, *, seconds: float, clients: int) -> Load:
    lake, space = Lake(settings.store), resolve_space(settings.embedding)
    live = release.find_live_release(lake)
    assert live is not None
    reader = await open_index(lake.root, space.name, live.tables[space.name])
    on_disk = VectorMemory(reader.dataset, reader.dimensions, max_bytes=0, max_rows=0)  # as LanceDB searches
    reader = replace(reader, memory=on_disk)
    vectors = np.random.default_rng(3)
    filters = [compile_filter(access) for access in _accesses()]

    async def ask(client: int, text: str) -> int:
        vector = vectors.standard_normal(DIMENSIONS).astype(np.float32)
        seen = filters[client % len(filters)]
        await asyncio.gather(
            reader.search_vector(vector, seen, limit=CANDIDATES),
            reader.search_text(expand_identifiers(text), seen, limit=CANDIDATES),
        )
        return live.release

    worked = time.process_time()
    load = await _loaded(Load(name), ask, iter_questions(words), seconds, clients)
    load.answering_s = time.process_time() - worked
    return load


async def _served(
    settings: Settings,
    url: str,
    pid: int,
    tokens: list[str],
    questions: Iterator[str],
    name: str,
    *,
    seconds: float,
    clients: int,
    release_s: float,
) -> Load:
    async with open_http(url) as http:

        async def ask(client: int, text: str) -> int:
            answer = await search(http, text, tokens[client % len(tokens)])
            if answer["degraded"]:
                raise RuntimeError(f"without {answer['degraded']}")
            return answer["release"]

        await ask(0, "the first question opens everything")
        load = Load(name)
        watching = asyncio.create_task(_watched(load, pid))
        releasing = asyncio.create_task(_released(load, settings, seconds, release_s))
        answered_s, asked_s = measure_processor(pid), time.thread_time()
        await _loaded(load, ask, questions, seconds, clients)
        load.answering_s, load.asking_s = measure_processor(pid) - answered_s, time.thread_time() - asked_s
        watching.cancel()
        await releasing
    return load


def open_http(url: str) -> aiohttp.ClientSession:
    """A client that takes little of the cores which the server has as well: half a millisecond a request."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0), timeout=timeout)


async def search(http: aiohttp.ClientSession, text: str, token: str) -> Any:
    """The answer to a question.

    Raises:
        aiohttp.ClientError: there is none, or its status says that something is wrong.
        TimeoutError: nothing came in time.
    """
    headers = {"Authorization": f"Bearer {token}"}
    async with http.post(_SEARCH, json={"query": text}, headers=headers, raise_for_status=True) as told:
        return await told.json()


async def _loaded(load: Load, ask: Ask, questions: Iterator[str], seconds: float, clients: int) -> Load:
    """Each client asks one question after the other."""
    started = time.perf_counter()

    async def client(number: int) -> None:
        while (asked := time.perf_counter()) - started < seconds:
            try:
                load.releases.add(await ask(number, next(questions)))
            except (aiohttp.ClientError, TimeoutError, RuntimeError) as error:
                load.errors[f"{type(error).__name__}: {str(error)[:120]}"] += 1
                continue
            now = time.perf_counter()
            load.took_ms.append((now - asked) * 1000)
            load.ended_s.append(now - started)

    await asyncio.gather(*map(client, range(clients)))
    load.seconds = time.perf_counter() - started
    return load


async def _watched(load: Load, pid: int) -> None:
    while True:
        load.memory_mb.append(measure_memory(pid))
        await asyncio.sleep(1)


async def _released(load: Load, settings: Settings, seconds: float, every_s: float) -> None:
    """Some passages more, released each so many seconds while questions are asked."""
    started = time.perf_counter()
    for number in range(1, math.ceil(seconds / every_s)):
        await asyncio.sleep(max(number * every_s - (time.perf_counter() - started), 0.0))
        await asyncio.to_thread(_publish, settings, random.Random(time.time_ns()))
        load.released_s = time.perf_counter() - started


def write(settings: Settings, chunks: int) -> list[str]:
    """The store, unless it is there; words of its passages, for questions."""
    lake, texts = Lake(settings.store), iter_passages()
    started, chosen = time.perf_counter(), random.Random(5)
    words = sorted({word for _ in range(400) for word in re.findall(r"[a-z]{4,}", next(texts)[1])})
    if release.find_live_release(lake) is None:
        table = _index(settings)
        table.append(_batches(table.schema, texts, chunks, chosen))
        indexes.maintain_indexes(table)
        release.publish_release(lake, keep=3)
        print(f"{chunks:,} chunks written in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return words


def _publish(settings: Settings, chosen: random.Random) -> None:
    lake, table = Lake(settings.store), _index(settings)
    with lake.lock_index():
        table.append(_batches(table.schema, iter_passages(), 500, chosen))
        indexes.maintain_indexes(table)
        release.publish_release(lake, keep=3)


def _index(settings: Settings) -> Any:
    space = resolve_space(settings.embedding)
    return Lake(settings.store).index(space.name, space.dimensions)


def iter_passages() -> Iterator[tuple[str, str]]:
    """Paths and texts, over and over."""
    root = Path(sysconfig.get_path("purelib"))
    while True:
        for path in sorted(root.rglob("*.py")):
            try:
                lines = path.read_text(encoding="utf-8").splitlines()
            except (UnicodeDecodeError, OSError):
                continue
            for start in range(0, len(lines), _LINES):
                if text := "\n".join(lines[start : start + _LINES]).strip():
                    yield f"{path.relative_to(root)}:{start}", text[:4000]


def _batches(
    schema: pa.Schema, texts: Iterator[tuple[str, str]], count: int, chosen: random.Random
) -> Iterator[pa.RecordBatch]:
    vectors = np.random.default_rng(chosen.randrange(1 << 30))
    for start in range(0, count, _BATCH):
        made = vectors.standard_normal((min(_BATCH, count - start), DIMENSIONS)).astype(np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        rows = [_row(schema, *next(texts), vector, chosen) for vector in made]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _row(
    schema: pa.Schema, place: str, text: str, vector: np.ndarray, chosen: random.Random
) -> dict[str, Any]:
    path, _, line = place.rpartition(":")
    visibility = chosen.choice(("public", "public", "tenant", "private"))
    own = {
        "id": hash_strings(place, str(chosen.random())),
        **dict.fromkeys(("uri", "path"), path),
        **{"source": "packages", "source_type": "files", "language": "python", "extension": ".py"},
        **{"text": text, "words": expand_identifiers(text), "vector": vector, "metadata": "{}"},
        **{"start_line": int(line) + 1, "end_line": int(line) + _LINES, "end_char": len(text)},
        **{"content_hash": hash_strings(text), "text_key": hash_strings(text), "visibility": visibility},
        "tenant": chosen.choice(TENANTS) if visibility != "public" else None,
        "principals": [chosen.choice(("ann", "bob"))] if visibility == "private" else [],
    }
    made = {each.name: own.get(each.name, _nothing(each)) for each in schema}
    return {**made, "shown": build_payload(made)}


def _nothing(column: pa.Field) -> Any:
    if column.nullable:
        return None
    if pa.types.is_timestamp(column.type):
        return _NOW
    if pa.types.is_list(column.type):
        return []
    if pa.types.is_boolean(column.type):
        return False
    return 0 if pa.types.is_integer(column.type) else ""


def iter_questions(words: list[str], count: int | None = None) -> Iterator[str]:
    """Several words each; endlessly, or some over and over."""
    chosen = random.Random(11)
    some = [" ".join(chosen.sample(words, 5)) for _ in range(count or 0)]
    while True:
        yield chosen.choice(some) if some else " ".join(chosen.sample(words, chosen.randint(3, 6)))


def _accesses() -> list[Access]:
    return [
        Access.public(),
        *(Access(tenant, frozenset(who)) for tenant in TENANTS for who in ((), ("ann",))),
    ]


def make_tokens(settings: Settings) -> list[str]:
    """Secrets of new tokens, one for each kind of caller."""
    tokens = TokenStore(Lake(settings.store))
    return [
        tokens.create("load", tenant=access.tenant, principals=sorted(access.principals))[1]
        for access in _accesses()
    ]


def declare(folder: Path, endpoint: tuple[str, str], *, cached: bool) -> Settings:
    """The settings of the store in a folder, written to its knowledge.yaml."""
    url, os.environ[KEY_VARIABLE] = endpoint
    told = {
        "store": "store",
        "embedding": {
            **{
                "provider": "openai",
                "model": "generated",
                "base_url": url,
                "api_key": f"${{{KEY_VARIABLE}}}",
            },
            "dimensions": DIMENSIONS,
        },
        "serve": {"requests_per_minute": 10_000_000},
        "query": {"cache": {"ttl_minutes": 10 if cached else 0}},
        "sources": [],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "knowledge.yaml").write_text(json.dumps(told))
    return file.load_settings(folder / "knowledge.yaml")


@contextmanager
def endpoint_process(kept: Path) -> Iterator[tuple[str, str]]:
    """Its address is part of what the store's vectors are: the port is that of the run before, if any."""
    port = kept.read_text() if kept.exists() else "0"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _ENDPOINT, port], text=True, **pipes) as child:
        assert child.stdout
        try:
            url, key = child.stdout.readline().split()
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(str(urlsplit(url).port))
            yield url, key
        finally:
            child.kill()


@contextmanager
def serving(folder: Path, *options: str, prefix: Sequence[str] = ()) -> Iterator[tuple[str, int]]:
    """A real `knowledge serve` process for the knowledge.yaml of a folder: its address and process id.

    `options` are those of `serve`; `prefix` is the command that starts it, such as `taskset`.
    """
    config = str(folder / "knowledge.yaml")
    command = [*prefix, sys.executable, "-m", "knowledge_pipeline.cli", "--config", config, "serve"]
    command += ["--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as child:
        assert child.stderr
        lines = iter(child.stderr.readline, "")
        try:
            url = next(found[1] for line in lines if (found := re.search(r"Answering on (\S+)", line)))
            threading.Thread(target=lambda: list(lines), daemon=True).start()  # else the pipe fills
            yield url, child.pid
        finally:
            child.send_signal(signal.SIGTERM)


def _course(memory_mb: list[float]) -> str:
    """At the start, in the middle, at the end."""
    if not memory_mb:
        return ""
    return " ".join(f"{memory_mb[at]:.0f}" for at in (0, len(memory_mb) // 2, -1))


if __name__ == "__main__":
    main()
