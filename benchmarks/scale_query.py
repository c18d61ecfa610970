"""One process that answers: recall, times alone and of many clients, and the most memory it held.

    python -m benchmarks.scale_query FOLDER CHUNKS ours|raw SECONDS

Run by `benchmarks.scale` after `scale_truth`. `ours` asks our reader and `KnowledgeBase`, `raw` LanceDB
itself, in a process of its own each, so that the memory of either is told. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import measure_peak_memory
from benchmarks.scale_build import settings
from benchmarks.scale_truth import FILTERS, TOP, open_live_index
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.plan import MIN_CANDIDATES
from knowledge_pipeline.store.search import IndexReader, open_index
from knowledge_pipeline.words import expand_identifiers

CLIENTS = 100
_NAMES = ("", ", a tenth", ", a hundredth", ", a thousandth")  # of the filters, in their order
_WARM = 20
_EQUAL = 1e-5  # a passage as near as the tenth is as good as it

Ask = Callable[[int], Awaitable[Any]]
"""Asks one of the questions, by its number."""


class Truth:
    """The questions, and what answers them best."""

    def __init__(self, folder: Path, chunks: int) -> None:
        told = json.loads((folder / str(chunks) / "truth.json").read_text())
        self.texts: list[str] = told["questions"]
        self.vectors = np.array(told["vectors"], np.float32)
        self._answers: dict[str, list[tuple[list[str], float]]] = told["answers"]

    def recall(self, name: str, found: Sequence[Sequence[tuple[str, float]]]) -> float:
        """The mean share of the exact ten among the found ten; what is as near as the tenth counts.

        Args:
            name: of the filter.
            found: for each question ids and similarities, best first.
        """
        shares: list[float] = []
        for (ids, last), given in zip(self._answers[name], found, strict=False):
            wanted = set(ids) if last > -1.5 else set(ids[: len(given)])
            right = sum(1 for id_, alike in given[:TOP] if id_ in wanted or alike >= last - _EQUAL)
            shares.append(right / TOP if last > -1.5 else 1.0)
        return round(statistics.mean(shares), 4)


async def time_questions(ask: Ask, count: int, *, seconds: float = 20.0) -> list[float]:
    """p50 and p95 in milliseconds, one question after the other; the first ones are not counted."""
    took: list[float] = []
    began = time.perf_counter()
    for number in range(-_WARM, count):
        started = time.perf_counter()
        await ask(number % count)
        if number >= 0:
            took.append((time.perf_counter() - started) * 1000)
        if number >= 10 and time.perf_counter() - began > seconds:
            break
    return quantiles(took)


async def load_by_clients(ask: Ask, count: int, *, seconds: float) -> dict[str, float]:
    """What a hundred clients get that ask one question after the other."""
    took, numbers = list[float](), itertools.count()
    started, worked = time.perf_counter(), time.process_time()

    async def client() -> None:
        while (asked := time.perf_counter()) - started < seconds:
            await ask(next(numbers) % count)
            took.append((time.perf_counter() - asked) * 1000)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    p50, p95 = quantiles(took)
    lasted = time.perf_counter() - started
    processor_ms = (time.process_time() - worked) / len(took) * 1000
    return {"a_second": len(took) / lasted, "p50": p50, "p95": p95, "processor_ms": processor_ms}


def quantiles(took_ms: Iterable[float]) -> list[float]:
    """p50 and p95."""
    cuts = statistics.quantiles(list(took_ms), n=20)
    return [round(cuts[9], 2), round(cuts[18], 2)]


async def ours(folder: Path, chunks: int, seconds: float) -> dict[str, Any]:
    """Our reader's searches, and whole answers."""
    declared, truth = settings(folder, chunks), Truth(folder, chunks)
    table, version = open_live_index(folder, chunks)
    reader = await open_index(Path(declared.store), table.name, version)
    told: dict[str, Any] = {"alone": {}, "clients": {}, "recall": {}}
    count = len(truth.texts)
    async with AsyncKnowledgeBase(declared) as knowledge:
        started = time.perf_counter()
        await knowledge.prewarm()
        told["prewarm_s"] = round(time.perf_counter() - started, 2)
        ways = dict(_ways(reader, knowledge, truth))
        for name, ask in ways.items():
            told["alone"][name] = await time_questions(ask, count)
        told["peak_alone_mb"] = measure_peak_memory()
        for name in FILTERS:
            told["recall"][name] = truth.recall(name, await _search_all(reader, truth, name))
        for name in ("vector", "words", "whole answer", "whole answer, a hundredth"):
            told["clients"][name] = await load_by_clients(ways[name], count, seconds=seconds)
    return told


def _ways(reader: IndexReader, knowledge: AsyncKnowledgeBase, truth: Truth) -> Iterable[tuple[str, Ask]]:
    vectors, words = truth.vectors, [expand_identifiers(text) for text in truth.texts]
    for name, narrowed in zip(_NAMES, FILTERS.values(), strict=True):
        condition = compile_filter(Access.operator(), narrowed)
        yield (
            f"vector{name}",
            lambda at, condition=condition: reader.search_vector(
                vectors[at], condition, limit=MIN_CANDIDATES
            ),
        )
        yield (
            f"words{name}",
            lambda at, condition=condition: reader.search_text(words[at], condition, limit=MIN_CANDIDATES),
        )
    for name, narrowed in zip(_NAMES, FILTERS.values(), strict=True):
        yield (
            f"whole answer{name}",
            lambda at, narrowed=narrowed: knowledge.search(truth.texts[at], filters=narrowed),
        )


async def _search_all(reader: IndexReader, truth: Truth, name: str) -> list[list[tuple[str, float]]]:
    condition, found = compile_filter(Access.operator(), FILTERS[name]), list[list[tuple[str, float]]]()
    for vector in truth.vectors:
        scored = (await reader.search_vector(vector, condition, limit=MIN_CANDIDATES))[:TOP]
        rows = await reader.take_rows([each.row_id for each in scored], ["id"])
        found.append([(rows[each.row_id]["id"], each.score) for each in scored])
    return found


async def raw(folder: Path, chunks: int, seconds: float) -> dict[str, Any]:
    """LanceDB's own door to the same table, with its defaults and with our parameters."""
    import lancedb

    truth, (index, version) = Truth(folder, chunks), open_live_index(folder, chunks)
    table = await (await lancedb.connect_async(str(index.path.parent))).open_table(index.name)
    await table.checkout(version)
    words = [expand_identifiers(text) for text in truth.texts]
    columns = ["id", "path", "text", "_distance"]

    def nearest(at: int, *, condition: str = "", tuned: bool = True) -> Any:
        asked = table.vector_search(truth.vectors[at]).distance_type("cosine").column("vector")
        asked = asked.ef(200).refine_factor(1) if tuned else asked
        asked = asked.where(condition) if condition else asked
        return asked.limit(TOP).select(columns)

    tenth = compile_filter(Access.operator(), FILTERS["a tenth: two languages"]).sql
    hybrid = lambda at: nearest(at).nearest_to_text(words[at], columns=["words"])  # noqa: E731
    ways: dict[str, Ask] = {
        "vector, defaults": lambda at: nearest(at, tuned=False).to_arrow(),
        "vector": lambda at: nearest(at).to_arrow(),
        "vector, a tenth": lambda at: nearest(at, condition=tenth).to_arrow(),
        "words": lambda at: (
            table.query()
            .nearest_to_text(words[at], columns=["words"])
            .limit(TOP)
            .select(columns[:3])
            .to_arrow()
        ),
        "hybrid": lambda at: hybrid(at).select(columns[:3]).to_arrow(),  # "_distance" is of one half
    }
    told: dict[str, Any] = {"alone": {}, "clients": {}, "recall": {}}
    for name, ask in ways.items():
        told["alone"][name] = await time_questions(ask, len(words))
    for name in ("vector, defaults", "vector"):
        answers = [(await ways[name](at)).to_pylist() for at in range(len(words))]
        found = [[(row["id"], 1 - row["_distance"]) for row in rows] for rows in answers]
        told["recall"][name] = truth.recall("none", found)
    for name in ("vector", "words", "hybrid"):
        told["clients"][name] = await load_by_clients(ways[name], len(words), seconds=seconds)
    return told


def main() -> None:
    """Ask and print."""
    folder, chunks, whose, seconds = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    told = asyncio.run((ours if whose == "ours" else raw)(folder, chunks, seconds))
    print(json.dumps({**told, "peak_mb": measure_peak_memory()}))


if __name__ == "__main__":
    main()
