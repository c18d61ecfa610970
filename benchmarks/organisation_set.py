"""How well questions over tickets, wiki, chat, pull requests, code and documentation are answered.

    python -m benchmarks.organisation_set --mirrors FOLDER --store FOLDER [--json]

The texts of `evaluation/organisation` are read from fakes of Jira, Confluence, Slack and GitHub by the
connectors, beside the code, the documentation and the newest 1,000 commits of encode/httpx, whose mirror is
found as in `benchmarks.repositories`. All questions are asked with default settings. A second run with the
same store indexes only what changed. Measures are those of `benchmarks.mixed_measure`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.mixed_measure import (
    ANSWERS,
    DEPTH,
    NONE,
    Place,
    Question,
    compute_auroc,
    compute_ndcg,
    judge_success,
    parse_questions,
)
from benchmarks.organisation_texts import COMMIT, FOLDER, PROJECT, REPOSITORY, OrganisationTexts
from benchmarks.repositories import find_mirror
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses import SearchResult
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.export import iter_documents
from knowledge_pipeline.store.lake import Lake

Names = Mapping[tuple[str, str], str]
"""Of documents, by source and uri."""


@dataclass(frozen=True, slots=True)
class OrganisationSet:
    """The indexed organisation, and what is asked of it."""

    settings: Settings
    names: Names
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Answer:
    """The places of the results of one question, and the confidence in them."""

    question: Question
    places: Sequence[Place]
    confidence: float  # that a result answers


@dataclass(frozen=True, slots=True)
class Row:
    """Means over some questions."""

    name: str
    questions: int
    ndcg: float
    at_1: float
    at_3: float
    at_10: float


def read_questions() -> list[Question]:
    """The questions of the set, in the order of their file."""
    return parse_questions((FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines())


def index(mirrors: Path, store: Path) -> OrganisationSet:
    """Index the organisation and its repository, or what changed since the last time.

    Raises:
        FileNotFoundError: there is no mirror.
        CalledProcessError: it lacks the commit.
    """
    checkout = _check_out(find_mirror(mirrors, REPOSITORY), store / "httpx")
    with OrganisationTexts() as texts:
        settings = _write_settings(store / "knowledge.yaml", texts, checkout)
        lake = Lake(settings.store)
        outcome = pipeline.refresh(lake, settings, settings.sources)
        for failure in outcome.failures.values():
            raise failure
        pipeline.refresh_release(lake, settings)
        _require_texts(lake, settings, texts.names)
        return OrganisationSet(settings, texts.names, read_questions())


def _require_texts(lake: Lake, settings: Settings, names: Names) -> None:
    """Raises ValueError: the connectors read other documents than the set has."""
    sources = sorted({source for source, _ in names})
    stored = {(source, each.uri) for source in sources for each in iter_documents(lake, settings, source)}
    missing = sorted(names[each] for each in names.keys() - stored)
    if missing or stored - set(names):
        raise ValueError(f"not stored: {missing}; stored besides: {sorted(stored - names.keys())}")


def _check_out(mirror: Path, checkout: Path) -> Path:
    if not checkout.is_dir():
        subprocess.run(["git", "clone", "-q", "--no-checkout", mirror, checkout], check=True)
    subprocess.run(["git", "-C", checkout, "checkout", "-q", "--detach", COMMIT], check=True)
    return checkout


def _write_settings(path: Path, texts: OrganisationTexts, checkout: Path) -> Settings:
    """Write a knowledge.yaml; its tokens go to the environment."""
    sources = texts.declare()
    for source in sources:
        variable = f"{source['id']}_token".upper()
        os.environ[variable] = source["connection"]["token"]
        source["connection"]["token"] = "${" + variable + "}"
    local = {"type": "local", "path": str(checkout.resolve())}
    for id_, type_ in (("code", "code"), ("docs", "markdown"), ("history", "git_history")):
        sources.append({"id": id_, "type": type_, "connection": local})
    path.write_text(json.dumps({"version": 1, "store": "store", "sources": sources}, indent=2))
    return load_settings(path)


def ask(organisation: OrganisationSet) -> list[Answer]:
    """Ask all questions, ten results each, without a filter."""
    answers: list[Answer] = []
    with KnowledgeBase(organisation.settings) as knowledge:
        for question in organisation.questions:
            response = knowledge.search(question.text, limit=DEPTH)
            places = [to_place(result, organisation.names) for result in response.results]
            answers.append(Answer(question, places, response.confidence or 0.0))
    return answers


def to_place(result: SearchResult, names: Names) -> Place:
    """Where a result is: its document by name, else the lines of its file."""
    source, span = result.citation.source, result.span
    if source == "history":
        return Place(span.uri)
    if name := names.get((source, span.uri)):
        return Place(name)
    return Place(result.citation.path, span.start_line, span.end_line)


def find_medium(document: str) -> str:
    """What kind of source has a document."""
    media = {f"{PROJECT}-": "tickets", "wiki/": "wiki", "chat/": "chat", "pull/": "pull requests"}
    media["commit/"] = "commits"
    named = next((medium for start, medium in media.items() if document.startswith(start)), None)
    return named or ("documentation" if document.endswith(".md") else "code")


def list_media(question: Question) -> set[str]:
    """The media that answer a question by themselves."""
    return {find_medium(target.place.document) for target in question.targets if target.grade == ANSWERS}


def summarize(answers: Iterable[Answer]) -> list[Row]:
    """All answerable questions, by kind, and by medium: what several media answer counts in each."""
    answerable = [answer for answer in answers if answer.question.kind != NONE]
    kinds: defaultdict[str, list[Answer]] = defaultdict(list)
    media: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answerable:
        kinds[answer.question.kind].append(answer)
        for medium in list_media(answer.question):
            media[f"in {medium}"].append(answer)
    groups = [("all", answerable), *sorted(kinds.items()), *sorted(media.items())]
    return [_summarize_group(name, group) for name, group in groups]


def _summarize_group(name: str, answers: Sequence[Answer]) -> Row:
    ndcg = np.mean([compute_ndcg(answer.question.targets, answer.places) for answer in answers])
    successes = [judge_success(answer.question.targets, answer.places) for answer in answers]
    at = [[success.at_1, success.at_3, success.at_10] for success in successes]
    return Row(name, len(answers), float(ndcg), *map(float, np.mean(at, axis=0)))


def compute_confidence_auroc(answers: Sequence[Answer]) -> float:
    """How well confidence tells questions with an answer from those without."""
    answered = [answer.confidence for answer in answers if answer.question.kind != NONE]
    unanswered = [answer.confidence for answer in answers if answer.question.kind == NONE]
    return compute_auroc(answered, unanswered)


def show(rows: Sequence[Row], auroc: float) -> None:
    """Print the means as a table."""
    table = Table("", "questions", f"nDCG@{DEPTH}", "s@1", "s@3", "s@10")
    for row in rows:
        means = (row.ndcg, row.at_1, row.at_3, row.at_10)
        table.add_row(row.name, str(row.questions), *(f"{mean:.3f}" for mean in means))
    console = Console(width=100)
    console.print(table)
    console.print(f"AUROC of confidence, answerable or not: {auroc:.3f}")


def main() -> None:
    """Index, ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git repositories")
    parser.add_argument("--store", type=Path, default=Path(".knowledge/organisation"))
    parser.add_argument("--json", action="store_true", help="all figures, with the places of each question")
    options = parser.parse_args()
    options.store.mkdir(parents=True, exist_ok=True)
    try:
        organisation = index(options.mirrors, options.store)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        parser.error(str(error))
    answers = ask(organisation)
    rows, auroc = summarize(answers), compute_confidence_auroc(answers)
    if options.json:
        rounded = [asdict(row) for row in rows]
        print(json.dumps({"rows": rounded, "auroc": auroc, "answers": [asdict(each) for each in answers]}))
    else:
        show(rows, auroc)


if __name__ == "__main__":
    main()
