"""Where the time of one answer goes: by step, and how much of it the processor and the event loop take.

    python -m benchmarks.answer_profile FOLDER CHUNKS [--seconds S]

FOLDER is that of `benchmarks.scale`, with its part `query` done, whose questions are asked: each for the
first time, each once more, then by a hundred clients at once. Prints the mean of each step in milliseconds,
and of the processor; `loop` is the share of the one thread that all answers go through, so that no process
gives more answers a second than 1,000 / loop. LanceDB's own hybrid search of the same questions is asked in
turn, for the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import describe_machine
from benchmarks.scale_build import settings
from benchmarks.scale_query import Truth, load_by_clients, quantiles
from benchmarks.scale_truth import open_live_index
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.words import expand_identifiers

WARM = 20  # questions that open what all need
TOP = 10


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("chunks", type=int)
    parser.add_argument("--seconds", type=float, default=10.0, help="of the load by a hundred clients")
    options = parser.parse_args()
    columns = asyncio.run(_profile(options.folder, options.chunks, options.seconds))
    table = Table("ms", *columns, title=f"{options.chunks:,} chunks, {describe_machine()}")
    names = dict.fromkeys(name for column in columns.values() for name in column)
    for name in names:
        table.add_row(name, *(f"{column[name]:.2f}" if name in column else "" for column in columns.values()))
    Console(width=140).print(table)


async def _profile(folder: Path, chunks: int, seconds: float) -> dict[str, dict[str, float]]:
    truth, hybrid = Truth(folder, chunks), await _open_hybrid(folder, chunks)
    columns: dict[str, dict[str, float]] = {}
    async with AsyncKnowledgeBase(settings(folder, chunks)) as knowledge:
        await knowledge.prewarm()
        for text in truth.texts[-WARM:]:
            await knowledge.search(text)
        for name in ("first time", "once more"):
            columns[name] = await _ask_each(knowledge, truth.texts)
        count = len(truth.texts)
        raw = [await _time(lambda at=at: hybrid(at)) for at in range(-WARM, count)][WARM:]
        columns["LanceDB hybrid"] = dict(zip(("p50", "p95"), quantiles(raw), strict=True))
        columns["100 clients"] = await _ask_at_once(knowledge, truth.texts, seconds)
        columns["LanceDB, 100 clients"] = _describe(await load_by_clients(hybrid, count, seconds=seconds))
    return columns


async def _ask_at_once(knowledge: AsyncKnowledgeBase, texts: list[str], seconds: float) -> dict[str, float]:
    answers, before_s = 0, await knowledge.loop.run(_thread_time())

    async def ask(at: int) -> None:
        nonlocal answers
        await knowledge.search(texts[at])
        answers += 1

    served = await load_by_clients(ask, len(texts), seconds=seconds)
    loop_ms = (await knowledge.loop.run(_thread_time()) - before_s) * 1000
    return {**_describe(served), "loop": loop_ms / answers}


def _describe(load: Mapping[str, float]) -> dict[str, float]:
    return {
        "p50": load["p50"],
        "p95": load["p95"],
        "processor": load["processor_ms"],
        "answers a second": load["a_second"],
    }


async def _ask_each(knowledge: AsyncKnowledgeBase, texts: list[str]) -> dict[str, float]:
    steps, took = defaultdict[str, float](float), list[float]()
    loop_s, processor_s = await knowledge.loop.run(_thread_time()), time.process_time()
    for text in texts:
        started = time.perf_counter()
        response = await knowledge.search(text)
        took.append((time.perf_counter() - started) * 1000)
        for name, ms in response.timings_ms.items():
            steps[name] += ms / len(texts)
    processor = (time.process_time() - processor_s) * 1000 / len(texts)
    loop = (await knowledge.loop.run(_thread_time()) - loop_s) * 1000 / len(texts)
    p50, p95 = quantiles(took)
    by_cost = dict(sorted(steps.items(), key=lambda each: -each[1]))
    rest = statistics.mean(took) - sum(steps.values())
    return {"p50": p50, "p95": p95, "processor": processor, "loop": loop, **by_cost, "everything else": rest}


async def _thread_time() -> float:
    return time.thread_time()


async def _time(ask: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    started = time.perf_counter()
    await ask()
    return (time.perf_counter() - started) * 1000


async def _open_hybrid(folder: Path, chunks: int) -> Callable[[int], Coroutine[Any, Any, Any]]:
    """LanceDB's own search by vector and words, with our parameters, as in `scale_query`."""
    import lancedb

    truth, (index, version) = Truth(folder, chunks), open_live_index(folder, chunks)
    table: Any = await (await lancedb.connect_async(str(index.path.parent))).open_table(index.name)
    await table.checkout(version)
    words = [expand_identifiers(text) for text in truth.texts]

    async def ask(at: int) -> Any:
        nearest = table.vector_search(truth.vectors[at]).distance_type("cosine").column("vector")
        found = nearest.ef(200).refine_factor(1).limit(TOP).nearest_to_text(words[at], columns=["words"])
        return await found.select(["id", "path", "text"]).to_arrow()

    return ask


if __name__ == "__main__":
    main()
