"""A knowledge base from ten thousand to a million chunks: what it costs to make, to keep and to ask.

    python -m benchmarks.scale [--chunks 10000 100000 1000000] [--folder DIR] [--seconds 30] [--parts ...]

Repositories of 100,000 chunks each, from packages' sources, go through our own stages and are released
(`scale_corpus` says of what, `scale_build` how); then exact answers are computed (`scale_truth`), and our
searches and LanceDB's own are asked for them (`scale_query`). Each step is a process of its own, so that the
most memory that it held is told by its VmHWM. With `--folder` everything is kept, and a step that has its
figures there is not done again: delete `<chunks>/<step>.json` for that. PARTS: build, query, partition,
listing, told. `told` writes the tables and the picture from the figures that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pictures import picture
from benchmarks.scale_corpus import CHUNKS_A_REPOSITORY
from benchmarks.scale_tables import pictured, tables

SIZES = (10_000, 100_000, 1_000_000)
PARTITIONS = (10_000, 50_000, 100_000)  # chunks of one source
PARTS = ("build", "query", "partition", "listing", "told")


class Figures:
    """What was measured, a file for each step, so that a run that is broken off goes on where it was."""

    def __init__(self, folder: Path, *, seconds: float) -> None:
        self.folder, self._seconds = folder, seconds

    def build(self, chunks: int, *, grown: bool) -> None:
        """First index, nothing changed, one file edited."""
        if grown and chunks > CHUNKS_A_REPOSITORY:
            self._done(str(chunks), "grown", "benchmarks.scale_grown", chunks)
        else:
            self._done(str(chunks), "first", "benchmarks.scale_build", chunks, "first")
        for step in ("again", "edit"):
            self._done(str(chunks), step, "benchmarks.scale_build", chunks, step)

    def query(self, chunks: int) -> None:
        """Exact answers, our searches, LanceDB's."""
        self._done(str(chunks), "truth", "benchmarks.scale_truth", chunks)
        for whose in ("ours", "raw"):
            self._done(str(chunks), whose, "benchmarks.scale_query", chunks, whose, self._seconds)

    def partition(self, chunks: int) -> None:
        """The first index of one source."""
        self._done(
            f"partition-{chunks}", "first", "benchmarks.scale_build", chunks, "first", inside="partition"
        )

    def listing(self) -> None:
        """A hundred thousand small files."""
        self._done("listing", "listing", "benchmarks.scale_listing")

    def all(self) -> dict[str, dict[str, Any]]:
        """By folder, then by step."""
        found: dict[str, dict[str, Any]] = {}
        for path in sorted(self.folder.glob("figures/*/*.json")):
            found.setdefault(path.parent.name, {})[path.stem] = json.loads(path.read_text())
        return found

    def _done(self, name: str, step: str, module: str, *words: object, inside: str = ".") -> None:
        kept = self.folder / "figures" / name / f"{step}.json"
        if kept.exists():
            return
        (self.folder / inside).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", module, str(self.folder / inside), *map(str, words)]
        started, before = time.perf_counter(), os.times()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        after = os.times()
        told = json.loads(done.stdout.splitlines()[-1]) | {
            "process_s": time.perf_counter() - started,
            "process_processor_s": sum(after[2:4]) - sum(before[2:4]),
            "load_before": os.getloadavg()[0],
        }
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(told, indent=1))
        print(f"{name} {step}: {told['process_s']:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Measure what is asked for, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=SIZES)
    parser.add_argument("--folder", type=Path, help="keeps stores and figures, for another run")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each load by a hundred clients")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    told = "above 100,000 chunks make index rows alone, from those of 100,000: see scale_grown"
    parser.add_argument("--grown", action="store_true", help=told)
    parser.add_argument("--picture", type=picture, help="where the plot is written")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        figures = Figures((asked.folder or Path(temporary)).absolute(), seconds=asked.seconds)
        _measure(figures, asked.parts, asked.chunks, grown=asked.grown)
        if "told" in asked.parts:
            print(tables(figures.all()))
        if asked.picture:
            pictured(figures.all(), asked.picture)


def _measure(figures: Figures, parts: Sequence[str], sizes: Sequence[int], *, grown: bool) -> None:
    for chunks in sizes:
        if "build" in parts:
            figures.build(chunks, grown=grown)
        if "query" in parts:
            figures.query(chunks)
    for chunks in PARTITIONS if "partition" in parts else ():
        figures.partition(chunks)
    if "listing" in parts:
        figures.listing()


if __name__ == "__main__":
    main()
