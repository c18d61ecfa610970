"""What is measured of every tool, the same for all: it imports nothing but NumPy and the standard library.

A script describes its tool as a `Tool` and calls `main`. The tool has a process and a copy of the corpus to
itself. Vectors are computed for the first index, and looked up by their text after that, so that what is
timed then is the pipeline alone. A refresh that computed a vector all the same counts as computed, and is
told in `misses`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peer_scripts.tool import KINDS, Kind, Tool, Vectors

THREADS = 2
CHANGED_FILES = 4
DEPTH = 10  # files that count
_PASSAGES = 50  # asked for, so that there are as many files
_MARK = "quokka{0} walrus{0}"  # words of an edit, which the corpus lacks


@dataclass
class Cost:
    """What something took."""

    seconds: float
    cpu_seconds: float  # of this process and those below it
    misses: int = 0  # vectors that were computed though they should have been known


class Measuring:
    """One tool, measured."""

    def __init__(self, tool: Tool, work: Path, repeats: int) -> None:
        self.tool, self.work, self.repeats = tool, work, repeats

    def all(self, questions: list[dict[str, str]]) -> dict[str, Any]:
        """Every figure of the tool."""
        tool, told = self.tool, self.first()
        tool.vectors.looked_up = True
        told["questions"] = {kind: self.time_searches(questions, kind) for kind in KINDS}
        told["cached"] = asdict(self.median(self.first_cached, max(3, self.repeats - 2)))
        told["nothing"] = asdict(self.median(lambda _: self.time_work(tool.refresh), self.repeats))
        told["edited"] = asdict(self.changed(self.edit, self.repeats))
        told["deleted"] = asdict(self.changed(self.delete, self.repeats))
        told["checks"] = {"edits are found": self.finds_edits(), "deleted are gone": self.loses_deleted()}
        return told

    def first(self) -> dict[str, Any]:
        """The figures of a first index, whose vectors are computed."""
        tool = self.tool
        told: dict[str, Any] = {"tool": tool.name, "start": asdict(self.time_work(tool.load))}
        tool.begin(self.work / "first")
        told["first"] = asdict(self.time_work(tool.refresh))
        return told | {
            "chunks": tool.chunks(),
            "disk_mb": _disk_mb(self.work / "first"),
            "peak_mb": _peak_mb(),
        }

    def time_work(self, work: Callable[[], object]) -> Cost:
        """The cost of some work, once."""
        computed, cpu, clock = self.tool.vectors.computed, _cpu_seconds(), time.perf_counter()
        work()
        seconds = time.perf_counter() - clock
        return Cost(seconds, _cpu_seconds() - cpu, self.tool.vectors.computed - computed)

    def median(self, once: Callable[[int], Cost], repeats: int) -> Cost:
        """Medians; misses are added up."""
        found = [once(repeat) for repeat in range(repeats)]
        seconds = statistics.median(cost.seconds for cost in found)
        cpu_seconds = statistics.median(cost.cpu_seconds for cost in found)
        return Cost(seconds, cpu_seconds, sum(cost.misses for cost in found))

    def first_cached(self, repeat: int) -> Cost:
        """A first index somewhere else, with every vector known."""
        self.tool.begin(self.work / f"cached-{repeat}")
        return self.time_work(self.tool.refresh)

    def changed(self, change: Callable[[], None], repeats: int) -> Cost:
        """The refresh after a change that was made and taken back before, so that its vectors are known."""

        def once(_: int) -> Cost:
            with self.restore_afterwards():
                change()
                cost = self.time_work(self.tool.refresh)
            self.tool.refresh()
            self.tool.rest()
            return cost

        once(-1)
        return self.median(once, repeats)

    def choose_files(self, shift: float) -> list[Path]:
        """Files spread over the corpus, others for another shift."""
        files = [path for path in self.tool.files() if path.stat().st_size > 500]
        step = len(files) / CHANGED_FILES
        return [files[int((at + shift) * step)] for at in range(CHANGED_FILES)]

    def edit(self) -> None:
        """Add a definition, or a section, at the end of some files."""
        for number, path in enumerate(self.choose_files(0.25)):
            mark = _MARK.format(number)
            code = f'\n\ndef added_{number}():\n    """Return the {mark}."""\n    return {number}\n'
            prose = f"\n\n## Added {number}\n\nThis is the {mark}.\n"
            with path.open("a", encoding="utf-8") as file:
                file.write(code if path.suffix == ".py" else prose)

    def delete(self) -> None:
        """Delete some files."""
        for path in self.choose_files(0.75):
            path.unlink()

    def restore_afterwards(self) -> _Kept:
        """Takes changes of the corpus back at the end."""
        return _Kept(self.tool.corpus, self.work / "kept")

    def finds_edits(self) -> bool:
        """Whether an edit is found after a refresh, and no longer when it was taken back."""
        wanted = [
            (_MARK.format(number), self.path(path)) for number, path in enumerate(self.choose_files(0.25))
        ]
        with self.restore_afterwards():
            self.edit()
            self.tool.refresh()
            found = all(path in self.tool.search(mark, "hybrid", DEPTH) for mark, path in wanted)
        self.tool.refresh()
        return found

    def loses_deleted(self) -> bool:
        """Whether what is found before is in no answer after its file was deleted."""
        asked = [(path.read_text("utf-8")[:200], self.path(path)) for path in self.choose_files(0.75)]

        def found() -> list[bool]:
            return [path in self.tool.search(text, kind, _PASSAGES) for text, path in asked for kind in KINDS]

        before = any(found())
        with self.restore_afterwards():
            self.delete()
            self.tool.refresh()
            after = any(found())
        self.tool.refresh()
        return before and not after and any(found())

    def path(self, path: Path) -> str:
        """Relative to the corpus."""
        return path.relative_to(self.tool.corpus).as_posix()

    def time_searches(self, questions: list[dict[str, str]], kind: Kind) -> dict[str, float]:
        """MRR@10 by file, and milliseconds of a search for ten passages whose question's vector is known."""
        ranks = [self.rank(question, kind) for question in questions]
        taken = [
            self.time_work(lambda text=question["text"]: self.tool.search(text, kind, DEPTH)).seconds * 1000
            for question in questions
        ]
        return {
            "mrr": statistics.mean(1 / rank if rank else 0.0 for rank in ranks),
            "found_first": statistics.mean(rank == 1 for rank in ranks),
            "p50_ms": statistics.median(taken),
        }

    def rank(self, question: dict[str, str], kind: Kind) -> int | None:
        """Of the file that answers, among the first ten files; None where it is not there."""
        files = list(dict.fromkeys(self.tool.search(question["text"], kind, _PASSAGES)))[:DEPTH]
        return files.index(question["path"]) + 1 if question["path"] in files else None


class _Kept:
    """The corpus as it is, put back at the end; files that did not change keep their times."""

    def __init__(self, corpus: Path, aside: Path) -> None:
        self._corpus, self._aside = corpus, aside

    def __enter__(self) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)
        shutil.copytree(self._corpus, self._aside)

    def __exit__(self, *error: object) -> None:
        for path in (path for path in self._aside.rglob("*") if path.is_file()):
            own = self._corpus / path.relative_to(self._aside)
            if not own.exists() or own.read_bytes() != path.read_bytes():
                shutil.copyfile(path, own)


def _cpu_seconds() -> float:
    """User and system time of this process, and of all below it, ended or not."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system + _below(os.getpid())


def _below(process: int) -> float:
    below, tick = 0.0, os.sysconf("SC_CLK_TCK")
    for child in _children(process):
        try:
            fields = Path(f"/proc/{child}/stat").read_text("ascii").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        below += sum(map(int, fields[11:15])) / tick + _below(child)
    return below


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text("ascii").split()]


def _peak_mb() -> float:
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
    return int(kib) / 1024


def _disk_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def versions(packages: Sequence[str]) -> dict[str, str]:
    """As installed here."""
    from importlib.metadata import version

    return {package: version(package) for package in packages}


def main(make: Callable[[Path, Path, Vectors], Tool]) -> None:
    """Measure a tool as the command line says, and write what was found as JSON."""
    parser = argparse.ArgumentParser()
    for name in ("corpus", "work", "questions", "model", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="measure a first index alone")
    options, _ = parser.parse_known_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    corpus = options.work.resolve() / "corpus"
    shutil.copytree(options.corpus, corpus)
    tool = make(corpus, options.model, Vectors())
    try:
        questions = json.loads(options.questions.read_text("utf-8"))
        measuring = Measuring(tool, options.work.resolve(), options.repeats)
        told = measuring.first() if options.first else measuring.all(questions)
    finally:
        tool.close()
    told["versions"] = versions(tool.packages)
    options.out.write_text(json.dumps(told, indent=2), encoding="utf-8")
