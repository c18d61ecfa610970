"""How long the code graph takes: to read code, to follow an edit, to answer.

    python -m benchmarks.graph_time --work FOLDER [--only languages|edits|questions] [--json]

languages   extraction of facts by language, one core, over packages from PyPI, npm and Debian
edits       one repository of 2,342 files of Python (sympy and dagster): the whole stage, then edits, through
            the stage and through `knowledge refresh`
questions   every kind of question about that repository, of targets drawn at random and of the worst:
            an operator's and those of a caller who may see it by a private source; needs `edits` before

Packages, and the store, stay in FOLDER. Times are by the clock and, since other programs may be at work, by
the processor time of all threads.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import graph_time_packages as packages
from benchmarks.figures import describe_machine
from benchmarks.graph_time_edits import OWNER, Timed, time_edits
from benchmarks.graph_time_questions import Asked, p95, time_questions
from knowledge_pipeline.code_graph import extract
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.lake import Lake

_MOST_CHARS = 6_000_000  # of one language

PARTS = ("languages", "edits", "questions")


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast the files of one language are read."""

    language: str
    package: str
    files: int
    megabytes: float
    seconds: float  # of the processor

    @property
    def megabytes_a_second(self) -> float:
        """Of UTF-8."""
        return self.megabytes / self.seconds


def measure_speeds(work: Path) -> Iterator[Speed]:
    """Extract the facts of every file of a language in its package; what is not to be had is left out."""
    for language, (registry, name) in packages.BY_LANGUAGE.items():
        try:
            folder = packages.unpack_package(registry, name, work)
        except subprocess.CalledProcessError as error:
            Console(stderr=True).print(f"{language}: {name} is not to be had ({error.returncode})")
            continue
        texts = _some(folder, language)
        extract(*texts[0], language)  # compiles the queries
        started = time.process_time()
        for path, text in texts:
            extract(path, text, language)
        spent = time.process_time() - started
        yield Speed(
            language,
            name,
            len(texts),
            sum(len(text.encode(errors="replace")) for _, text in texts) / 1e6,
            spent,
        )


def _some(folder: Path, language: str) -> list[tuple[str, str]]:
    """Files of a language with their texts, drawn at random where there are more than are read."""
    files = sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())
    random.Random(1).shuffle(files)
    found: list[tuple[str, str]] = []
    read = 0
    for file in files:
        path = file.relative_to(folder).as_posix()
        if detect_language(path) not in (language, None):
            continue
        text = file.read_text(errors="replace")
        if detect_language(path, text) == language and read < _MOST_CHARS:
            found.append((path, text))
            read += len(text)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder for packages and the store")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; may be given more than once")
    parser.add_argument("--typical", type=int, default=40, help="targets drawn at random of each kind")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Any]] = {}
    for part in options.only or PARTS:
        found[part] = list(_measure(part, options.work.resolve(), options.typical))
        if not options.json:
            Console().print(_TABLES[part](found[part]))
    if options.json:
        told = {part: [asdict(each) for each in rows] for part, rows in found.items()}
        print(json.dumps({"machine": describe_machine(), **told}, indent=2))


def _measure(part: str, work: Path, typical: int) -> Iterable[Speed | Timed | Asked]:
    if part == "languages":
        return measure_speeds(work)
    if part == "edits":
        return time_edits(packages.build_repository(work), work)
    return time_questions(Lake(work / "store"), typical, {"operator": Access.operator(), "private": OWNER})


def _speed_table(rows: list[Speed]) -> Table:
    table = Table("language", "package", "files", "MB", "MB/s", title="facts, one core")
    for row in rows:
        figures = f"{row.files:,}", f"{row.megabytes:.1f}", f"{row.megabytes_a_second:.1f}"
        table.add_row(row.language, row.package, *figures)
    return table


def _edit_table(rows: list[Timed]) -> Table:
    table = Table(
        "edit", "files resolved", "stage, s", "share", "processor, s", "share", "knowledge refresh, s"
    )
    first = rows[0]
    for row in rows:
        table.add_row(
            row.name, f"{row.files:,}",
            f"{row.seconds:.2f}", f"{row.seconds / first.seconds:.1%}",
            f"{row.processor_seconds:.2f}", f"{row.processor_seconds / first.processor_seconds:.1%}",
            f"{row.command_seconds:.1f}",
        )  # fmt: skip
    return table


def _question_table(rows: list[Asked]) -> Table:
    table = Table("caller", "targets", "question", "nodes", "p50 ms", "p95 ms", "most", "processor, p50")
    for row in rows:
        times = f"{row.p50:.1f}", f"{row.p95:.1f}", f"{row.times[-1]:.1f}", f"{row.processor:.1f}"
        table.add_row(row.who, row.group, row.question, f"{row.nodes:.0f}", *times)
    every = tuple(sorted(each for row in rows for each in row.times))
    table.add_row(
        "all", "", f"{len(every):,} askings", "", f"{every[len(every) // 2]:.1f}", f"{p95(every):.1f}"
    )
    return table


_TABLES = {"languages": _speed_table, "edits": _edit_table, "questions": _question_table}


if __name__ == "__main__":
    main()
