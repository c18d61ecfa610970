"""How well questions on whole repositories are answered: code, documentation and history together.

    python -m benchmarks.mixed SET --mirrors FOLDER [--store FOLDER] [--json]

A set is a folder with `<owner+name>.jsonl` for each repository, as `benchmarks.mixed_measure` reads it, each
line with the `repository` and `commit` that it is about. A mirror is found as in `benchmarks.repositories`.
The repository is checked out with its history and indexed by `knowledge index --repo .`, a second run only
as far as something changed. All questions are asked with default settings, ten results, nothing filtered;
beside it by words alone, by vectors alone, and of one type of source at a time, of which an oracle picks the
best for each question.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.mixed_measure import (
    DEPTH,
    NONE,
    Place,
    Question,
    compute_auroc,
    compute_ndcg,
    judge_success,
    parse_questions,
)
from benchmarks.repositories import find_mirror
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import SearchResult
from knowledge_pipeline.evaluation.scores import estimate_mean
from knowledge_pipeline.knowledge_base import KnowledgeBase

TYPES = ("code", "markdown", "git_history")
DEFAULT = "default"
ORACLE = "best type for each question"
MEASURES = ("nDCG@10", "s@1", "s@3", "s@10", "RR@10")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one way of asking gave for one question."""

    repository: str
    question: Question
    way: str
    places: Sequence[Place]
    confidence: float  # that a result answers

    @property
    def measures(self) -> tuple[float, ...]:
        """`MEASURES` of a question that has an answer."""
        targets = self.question.targets
        success = judge_success(targets, self.places)
        hits = (rank for rank, place in enumerate(self.places, 1) if any(t.is_hit_by(place) for t in targets))
        first = next(hits, None)
        return (
            compute_ndcg(targets, self.places),
            *map(float, (success.at_1, success.at_3, success.at_10)),
            1 / first if first else 0.0,
        )


def check_out(mirror: Path, commit: str, checkout: Path) -> None:
    """A clone of a mirror with its history, at a commit. Raises CalledProcessError: the mirror lacks it."""
    if not checkout.is_dir():
        subprocess.run(["git", "clone", "-q", "--no-checkout", mirror, checkout], check=True)
    subprocess.run(["git", "-C", checkout, "checkout", "-q", "--detach", commit], check=True)


def index_checkout(checkout: Path) -> None:
    """Index what changed, by the sources that `knowledge index --repo` writes."""
    asked = ("refresh",) if (checkout / "knowledge.yaml").is_file() else ("index", "--repo", ".")
    subprocess.run(
        [sys.executable, "-m", "knowledge_pipeline.cli", *asked, "--quiet"], cwd=checkout, check=True
    )


def to_place(result: SearchResult) -> Place:
    """Where a result is: a commit, else lines of a file. Hashes of commits are compared by twelve digits."""
    if result.metadata["source_type"] == "git_history":
        return Place(shorten_commit(result.citation.path))
    return Place(result.citation.path, result.span.start_line, result.span.end_line)


def shorten_commit(document: str) -> str:
    """The path of a commit with the first digits of its hash."""
    folder, slash, hash_ = document.partition("/")
    return f"{folder}{slash}{hash_[:12]}" if folder == "commit" else document


def read_questions(path: Path) -> list[Question]:
    """The questions on one repository."""
    return parse_questions(_shorten_commits(path.read_text().splitlines()))


def _shorten_commits(lines: Iterable[str]) -> Iterable[str]:
    for row in map(json.loads, lines):
        for target in row["targets"]:
            if "commit" in target:
                target["commit"] = target["commit"][:12]
        yield json.dumps(row)


def read_origin(path: Path) -> tuple[str, str]:
    """The repository and the commit that a file's questions are about."""
    row = json.loads(path.read_text().partition("\n")[0])
    return row["repository"], row["commit"]


def ask(checkout: Path, repository: str, questions: Sequence[Question]) -> list[Answer]:
    """Ask all questions in each way."""
    ways: dict[str, Mapping[str, Any]] = {
        DEFAULT: {},
        "words": {"mode": "words"},
        "vectors": {"mode": "vectors"},
    }
    ways |= {type_: {"filters": Filters(source_types=(type_,))} for type_ in TYPES}
    answers: list[Answer] = []
    with KnowledgeBase.open(str(checkout)) as knowledge:
        for question in questions:
            for way, how in ways.items():
                response = knowledge.search(question.text, limit=DEPTH, **how)
                places = list(map(to_place, response.results))
                answers.append(Answer(repository, question, way, places, response.confidence or 0.0))
    return answers


def pick_best_types(answers: Sequence[Answer]) -> list[Answer]:
    """For each question the answer of one type of source that is best."""
    by_question: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.way in TYPES and answer.question.targets:
            by_question[answer.question.id].append(answer)
    return [max(own, key=lambda answer: answer.measures[0]) for own in by_question.values()]


def summarize(answers: Sequence[Answer]) -> dict[str, dict[str, tuple[float, ...]]]:
    """Row -> measure -> its mean and 95 % interval, over the questions that have an answer."""
    answered = [answer for answer in answers if answer.question.kind != NONE]
    default = [answer for answer in answered if answer.way == DEFAULT]
    rows = {way: [each for each in answered if each.way == way] for way in (DEFAULT, "words", "vectors")}
    rows[ORACLE] = pick_best_types(answered)
    keys: list[Callable[[Answer], str]] = [lambda each: each.repository, lambda each: each.question.kind]
    for key in keys:
        for name in sorted({key(each) for each in default}):
            rows[f"{DEFAULT}, {name}"] = [each for each in default if key(each) == name]
    return {name: _summarize_group(group) | {"questions": (len(group),)} for name, group in rows.items()}


def _summarize_group(answers: Sequence[Answer]) -> dict[str, tuple[float, ...]]:
    columns = np.array([answer.measures for answer in answers]).T
    estimates = {name: estimate_mean(column) for name, column in zip(MEASURES, columns, strict=True)}
    return {name: (each.mean, each.low, each.high) for name, each in estimates.items()}


def compute_confidence_auroc(answers: Sequence[Answer]) -> float:
    """How well confidence tells questions with an answer from those without."""
    default = [answer for answer in answers if answer.way == DEFAULT]
    with_answer = [each.confidence for each in default if each.question.kind != NONE]
    return compute_auroc(with_answer, [each.confidence for each in default if each.question.kind == NONE])


def show(rows: Mapping[str, Mapping[str, tuple[float, ...]]], auroc: float) -> None:
    """Print the means as a table, nDCG@10 with its interval."""
    table = Table("", "questions", *MEASURES)
    for name, row in rows.items():
        mean, low, high = row[MEASURES[0]]
        others = (f"{row[measure][0]:.2f}" for measure in MEASURES[1:])
        table.add_row(name, str(row["questions"][0]), f"{mean:.3f} ({low:.3f} to {high:.3f})", *others)
    console = Console(width=110)
    console.print(table)
    console.print(f"AUROC of confidence, questions with an answer against those without: {auroc:.3f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git repositories")
    parser.add_argument("--store", type=Path, default=Path(".knowledge/evaluation/mixed"))
    parser.add_argument("--json", action="store_true", help="print for programs")
    options = parser.parse_args()
    paths = sorted(options.set.glob("*.jsonl"))
    if not paths:
        parser.error(
            f"there is no *.jsonl in {options.set}: name a folder with the questions on repositories"
        )
    answers: list[Answer] = []
    for path in paths:
        repository, commit = read_origin(path)
        checkout = options.store / path.stem
        check_out(find_mirror(options.mirrors, repository), commit, checkout)
        index_checkout(checkout)
        answers += ask(checkout, repository, read_questions(path))
    rows, auroc = summarize(answers), compute_confidence_auroc(answers)
    if options.json:
        Console().print_json(json.dumps({"rows": rows, "auroc": auroc}))
    else:
        show(rows, auroc)


if __name__ == "__main__":
    main()
