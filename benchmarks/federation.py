"""What asking several stores costs, beside one store with all their rows.

    python -m benchmarks.federation [--chunks N] [--stores N] [--questions N] [--folder DIR]

Generates passages as `benchmarks.serve_load` does, in one store and cut into several, and asks both the same
questions in turn, in one process, without a cache. Processor time, because other work does not change it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from benchmarks import serve_load
from benchmarks.figures import describe_machine
from knowledge_pipeline import KnowledgeBase

_WARM = 20  # questions before the measured ones


def main() -> None:
    """Generate, ask, print."""
    asked = _parse_arguments()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = asked.folder or Path(temporary)
        endpoint = stack.enter_context(serve_load.endpoint_process(folder / "port"))
        words = serve_load.write(serve_load.declare(folder / "one", endpoint, cached=False), asked.chunks)
        for at in range(asked.stores):
            settings = serve_load.declare(folder / f"part{at}", endpoint, cached=False)
            serve_load.write(settings, asked.chunks // asked.stores)
        one = folder / "one" / "knowledge.yaml"
        declared = json.loads(one.read_text())
        stores = [{"name": f"part{at}", "path": f"../part{at}"} for at in range(asked.stores)]
        (folder / "all").mkdir(exist_ok=True)
        (folder / "all" / "knowledge.yaml").write_text(
            json.dumps({**declared, "federation": {"stores": stores}})
        )
        bases = {
            "one store": stack.enter_context(KnowledgeBase.open(one)),
            f"{asked.stores} stores": stack.enter_context(KnowledgeBase.open(folder / "all")),
        }
        questions = list(islice(serve_load.iter_questions(words), asked.questions + _WARM))
        print(f"{asked.chunks:,} chunks, {describe_machine()}")
        for name, took in _ask(bases, questions).items():
            rest = took[_WARM:]
            print(
                f"{name}: {statistics.mean(rest):.1f} ms of the processor, {statistics.median(rest):.1f} p50"
            )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--stores", type=int, default=4)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="keeps the stores, for another run")
    return parser.parse_args()


def _ask(bases: dict[str, KnowledgeBase], questions: list[str]) -> dict[str, list[float]]:
    """Milliseconds of the processor of each answer, by name."""
    took: dict[str, list[float]] = {name: [] for name in bases}
    for question in questions:
        for name, base in bases.items():
            started = time.process_time()
            base.search(question)
            took[name].append((time.process_time() - started) * 1000)
    return took


if __name__ == "__main__":
    main()
