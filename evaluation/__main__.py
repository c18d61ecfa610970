"""Scores the golden questions of this repository through its own search.

    python -m evaluation [--type code] [--json]

Searches what `knowledge index` released for the source `code`. A result counts by its file,
and by its symbol where it is, or holds, the definition that answers.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ir_measures
from ir_measures import RR, R, Success, nDCG
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.query.assemble import Answer, Result
from knowledge_pipeline.query.filters import Filters

_MEASURES = [Success @ 1, Success @ 5, RR @ 10, nDCG @ 10, R @ 10]


@dataclass(frozen=True)
class Golden:
    """One question and the places that answer it."""

    question: str
    answers: tuple[tuple[str, str | None], ...]  # path, symbol


def golden(path: Path) -> list[Golden]:
    """The questions of a YAML file."""
    entries = YAML(typ="safe").load(path)
    return [
        Golden(entry["question"], tuple((one["path"], one.get("symbol")) for one in entry["answers"]))
        for entry in entries
    ]


def names(result: Result) -> set[str]:
    """Qualified names of the definitions that a result is or holds, and their last parts."""
    metadata = result.metadata
    held = {str(metadata.get("symbol") or ""), *map(str, metadata.get("symbols") or ())}
    return held | {name.rsplit(".", 1)[-1] for name in held}


def _ranked(results: Iterator[str]) -> dict[str, float]:
    """The first occurrence of each place, scored by its rank."""
    return {place: 1.0 / rank for rank, place in enumerate(dict.fromkeys(results), start=1)}


def by_file(question: Golden, answer: Answer) -> tuple[dict[str, int], dict[str, float]]:
    """Relevant files, and files as they were ranked."""
    relevant = {path: 1 for path, _ in question.answers}
    return relevant, _ranked(result.citation.path for result in answer.results)


def by_symbol(question: Golden, answer: Answer) -> tuple[dict[str, int], dict[str, float]]:
    """One relevant place; a result is that place if it holds any answering definition."""

    def answers(result: Result) -> bool:
        return any(
            result.citation.path == path and (symbol is None or symbol in names(result))
            for path, symbol in question.answers
        )

    return {"answer": 1}, _ranked("answer" if answers(one) else one.id for one in answer.results)


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--type", choices=["semantic", "code"], default="code")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--misses", action="store_true", help="list the questions without an answer in ten")
    options = parser.parse_args()
    questions = golden(Path(__file__).with_name("knowledge_pipeline.yaml"))
    with KnowledgeBase.open(Path(__file__).parent.parent) as knowledge:
        narrowed = Filters(source_types=("code",), paths=("knowledge_pipeline/",))
        answers = [
            knowledge.search(one.question, type=options.type, filters=narrowed, limit=10) for one in questions
        ]
    figures: dict[str, float] = {"p50 ms": round(statistics.median(answer.took_ms for answer in answers), 1)}
    for level, judge in (("file", by_file), ("symbol", by_symbol)):
        judged = {str(at): judge(*pair) for at, pair in enumerate(zip(questions, answers, strict=True))}
        scores = ir_measures.calc_aggregate(
            _MEASURES,
            {at: relevant for at, (relevant, _) in judged.items()},
            {at: ranked for at, (_, ranked) in judged.items()},
        )
        figures |= {f"{measure} by {level}": round(scores[measure], 3) for measure in _MEASURES}
    if options.misses:
        for question, answer in zip(questions, answers, strict=True):
            if "answer" not in by_symbol(question, answer)[1]:
                print(
                    question.question,
                    "->",
                    [f"{r.citation.path}:{r.metadata.get('symbol')}" for r in answer.results[:4]],
                )
    if options.json:
        print(json.dumps({"questions": len(questions), **figures}))
        return
    table = Table("measure", "score", title=f"{len(questions)} questions, search type {options.type!r}")
    for name, value in figures.items():
        table.add_row(name, f"{value:g}")
    Console().print(table)


if __name__ == "__main__":
    main()
