"""What more workers give: answers a second and processor time of one and of several, pinned to as many cores.

    python -m benchmarks.serve_workers [--chunks N] [--seconds S] [--clients N] [--workers 1 2] [--folder DIR]

The same store and the same clients as `benchmarks.serve_load`, without a cache of answers. The clients and
the endpoint that embeds questions run on all cores, beside the workers. Two figures do not depend on what
else the machine does: the processor time of an answer, and what an answer spends under the one lock that all
workers share, the write lock of their state, which is the serial share of Amdahl's law.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import serve_load
from benchmarks.figures import describe_machine, measure_processor
from knowledge_pipeline.store.local_state import SharedState

_OPERATIONS = 2_000


def main() -> None:
    """Generate, load, print a row for each number of workers."""
    asked = _parse_arguments()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = asked.folder or Path(temporary)
        endpoint = stack.enter_context(serve_load.endpoint_process(folder / "port"))
        settings = serve_load.declare(folder, endpoint, cached=False)
        words = serve_load.write(settings, asked.chunks)
        tokens = serve_load.make_tokens(settings)
        lock_ms = measure_lock_ms(folder / "state")
        print(f"{asked.chunks:,} chunks, {asked.clients} clients, {describe_machine()}")
        print(f"an answer holds the shared lock for {lock_ms:.3f} ms")
        for workers in asked.workers:
            row = asyncio.run(_load(folder, workers, tokens, words, asked))
            share = lock_ms / row["processor ms an answer"]
            print(json.dumps({**row, "serial share": round(share, 4)}), flush=True)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each load")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--folder", type=Path, help="keeps the store, for another run")
    return parser.parse_args()


def measure_lock_ms(folder: Path) -> float:
    """Processor time of counting a request and keeping its answer, which one worker at a time does."""
    state, answer = SharedState(folder), b"x" * 15_000
    started = time.process_time()
    for at in range(_OPERATIONS):
        state.count_request("token", per_minute=600)
        state.put("answer", str(at % 500), answer, ttl_s=60)
    took_ms = (time.process_time() - started) * 1000 / _OPERATIONS
    state.close()
    return took_ms


async def _load(
    folder: Path, workers: int, tokens: list[str], words: list[str], asked: argparse.Namespace
) -> dict[str, Any]:
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:workers]))
    prefix = ("env", "OMP_NUM_THREADS=1", "taskset", "-c", cores)
    with serve_load.serving(folder, "--workers", str(workers), prefix=prefix) as (url, pid):
        took_ms: list[float] = []
        errors = 0
        async with serve_load.open_http(url) as http:
            questions = serve_load.iter_questions(words)

            async def ask(client: int, text: str) -> bool:
                try:
                    await serve_load.search(http, text, tokens[client % len(tokens)])
                except aiohttp.ClientResponseError:
                    return False
                return True

            for _ in range(8):  # warm
                await asyncio.gather(*(ask(at, next(questions)) for at in range(asked.clients)))
            pids = list_workers(pid, workers)
            before, started = {each: measure_processor(each) for each in pids}, time.perf_counter()

            async def client(number: int) -> None:
                nonlocal errors
                while time.perf_counter() - started < asked.seconds:
                    began = time.perf_counter()
                    if await ask(number, next(questions)):
                        took_ms.append((time.perf_counter() - began) * 1000)
                    else:
                        errors += 1

            await asyncio.gather(*map(client, range(asked.clients)))
            seconds = time.perf_counter() - started
            used = [measure_processor(each) - before[each] for each in pids]
            memory = [_memory_mb(each) for each in pids]
    cuts = statistics.quantiles(took_ms, n=100)
    return {
        "workers": workers,
        "answers": len(took_ms),
        "errors": errors,
        "a second": round(len(took_ms) / seconds, 1),
        "p50 ms": round(cuts[49]),
        "p95 ms": round(cuts[94]),
        "processor s": [round(each, 1) for each in used],
        "processor ms an answer": round(sum(used) * 1000 / len(took_ms), 2),
        "answers a processor second": round(len(took_ms) / sum(used), 1),
        "memory MB (all, own)": memory,
    }


def list_workers(pid: int, workers: int) -> list[int]:
    """The processes that answer: the children of a supervisor, or the one server itself."""
    if workers == 1:
        return [pid]
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid and "spawn_main" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return sorted(found)


def _memory_mb(pid: int) -> tuple[int, int]:
    """Resident memory of a process, and what of it no other process has, in millions of bytes."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kib = {name: int(value) for name, value in re.findall(r"(\w+):\s+(\d+) kB", text)}
    own = kib["Private_Clean"] + kib["Private_Dirty"]
    return round(kib["Rss"] * 1.024 / 1000), round(own * 1.024 / 1000)


if __name__ == "__main__":
    main()
