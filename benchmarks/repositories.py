"""How well questions about whole repositories are answered, through the product's own pipeline.

    python -m benchmarks.repositories SET --mirrors FOLDER [--store FOLDER] [--profile fast]

A set is a folder with `questions.jsonl`: for each question a repository, a commit, a folder in it, and the
files, or lines of files, that answer it. A mirror is a git repository at FOLDER/owner+name, or at
FOLDER/owner+name/repo, in any case of letters. The commit's files are written out and indexed with the
default settings, those of the repository's next commit by a refresh. Reported are nDCG@10 of the results as
they are returned, where a target counts at the first result that shows it, and of the files in the order in
which they first appear.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from knowledge_pipeline.config import file
from knowledge_pipeline.config.embedding import Profile
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses import SearchResult
from knowledge_pipeline.evaluation.scores import estimate_mean
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake

_DEPTH = 10  # results, or files, that count
_RESULTS = 50  # asked for, of which ten files count


@dataclass(frozen=True)
class Target:
    """A file that answers, or some of its lines; the last line counts."""

    path: str
    first_line: int = 1
    last_line: int | None = None  # None: the end of the file

    def is_shown_by(self, shown: Target) -> bool:
        """Whether a result of the same file has at least one of the lines."""
        if self.path != shown.path:
            return False
        ends = (each.last_line or 10**9 for each in (self, shown))
        return max(self.first_line, shown.first_line) <= min(ends)


@dataclass(frozen=True)
class Question:
    """One question, and all that answers it."""

    repository: str
    commit: str
    folder: str
    language: str
    category: str
    text: str
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Score:
    """How well one question was answered: nDCG@10."""

    question: Question
    as_returned: float
    over_files: float


def read_questions(folder: Path) -> list[Question]:
    """The questions of a set. Raises KeyError, ValueError: a line lacks something."""
    questions: list[Question] = []
    for line in (folder / "questions.jsonl").read_text().splitlines():
        row = json.loads(line)
        places = [*row["relevant"], *row["secondary"]]
        questions.append(
            Question(
                repository=row["repository"],
                commit=row["commit"],
                folder=row.get("folder") or "",
                language=row["language"],
                category=row["category"],
                text=row["query"],
                targets=tuple(dict.fromkeys(map(_read_target, places))),
            )
        )
    return questions


def _read_target(place: str | Mapping[str, Any]) -> Target:
    if isinstance(place, str):
        return Target(place)
    return Target(place["path"], place["start_line"], place["end_line"])


def compute_ndcg(targets: Sequence[Target], shown: Iterable[Target]) -> float:
    """nDCG@10 of results in order: a target counts once, at the first result that shows it.

    Several targets that one result shows count at its rank each, as in the published figures; the best
    possible list shows one target at each rank.
    """
    missing, gain = set(targets), 0.0
    for rank, each in enumerate(list(shown)[:_DEPTH], start=1):
        found = {target for target in missing if target.is_shown_by(each)}
        gain += len(found) / np.log2(rank + 1)
        missing -= found
    ideal = sum(1 / np.log2(rank + 1) for rank in range(1, min(len(targets), _DEPTH) + 1))
    return min(1.0, float(gain / ideal))


def write_files(mirror: Path, commit: str, folder: str, place: Path) -> None:
    """Replace a folder's content by a commit's files. Raises CalledProcessError: the mirror lacks it."""
    archived = subprocess.run(
        ["git", "-C", mirror, "archive", commit, *([folder] if folder else [])],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(place, filter="data")


def index_repository(place: Path, profile: str | None) -> Settings:
    """Index what changed in `place/files`, by the default settings or another profile."""
    embedding = f"embedding: {{profile: {profile}}}\n" if profile else ""
    path = place / "knowledge.yaml"
    path.write_text(
        f"version: 1\nstore: store\n{embedding}sources:\n"
        "  - {id: files, type: code, connection: {type: local, path: files}}\n"
    )
    settings = file.load_settings(path)
    lake = Lake(settings.store)
    outcome = pipeline.refresh(lake, settings, settings.sources)
    for failure in outcome.failures.values():
        raise failure
    pipeline.refresh_release(lake, settings)
    return settings


def ask(settings: Settings, questions: Sequence[Question]) -> list[Score]:
    """Ask a repository's questions, as type `code`."""
    scores: list[Score] = []
    with KnowledgeBase(settings) as knowledge:
        for question in questions:
            found = knowledge.search(question.text, type="code", limit=_RESULTS)
            shown = [_read_place(result) for result in found.results]
            files = [Target(path) for path in dict.fromkeys(each.path for each in shown)]
            targets = question.targets
            in_files = [Target(path) for path in dict.fromkeys(target.path for target in targets)]
            scores.append(Score(question, compute_ndcg(targets, shown), compute_ndcg(in_files, files)))
    return scores


def _read_place(result: SearchResult) -> Target:
    span = result.span
    return Target(result.citation.path, span.start_line, span.end_line)


def find_mirror(mirrors: Path, repository: str) -> Path:
    """The git repository of "owner/name", in any case of letters. Raises FileNotFoundError: there is none."""
    place = mirrors / repository.replace("/", "+")
    folders = sorted(mirrors.iterdir()) if mirrors.is_dir() else []
    alike = (each for each in folders if each.name.lower() == place.name.lower())
    for path in (found / below for found in (place, *alike) for below in ("repo", ".")):
        if (path / "HEAD").is_file() or (path / ".git").exists():
            return path
    raise FileNotFoundError(f"there is no git repository at {place}: clone {repository} to there")


def show(scores: Sequence[Score]) -> None:
    """Print means with their 95 % intervals, by repository, language and category."""
    table = Table("", "questions", "nDCG@10 as returned", "nDCG@10 over files")
    keys: list[Callable[[Question], str]] = [
        lambda question: question.repository,
        lambda question: question.language,
        lambda question: question.category,
        lambda _: "all",
    ]
    for key in keys:
        groups: defaultdict[str, list[Score]] = defaultdict(list)
        for score in scores:
            groups[key(score.question)].append(score)
        for name, group in sorted(groups.items()):
            measures = ([each.as_returned for each in group], [each.over_files for each in group])
            table.add_row(name, str(len(group)), *map(_format_estimate, measures))
        table.add_section()
    Console(width=110).print(table)


def _format_estimate(values: Sequence[float]) -> str:
    found = estimate_mean(np.array(values))
    return f"{found.mean:.3f} ({found.low:.3f} to {found.high:.3f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git repositories")
    parser.add_argument("--store", type=Path, default=Path(".knowledge/evaluation"))
    parser.add_argument("--profile", choices=get_args(Profile), help="models to embed with")
    options = parser.parse_args()
    if not (options.set / "questions.jsonl").is_file():
        parser.error(f"there is no questions.jsonl in {options.set}: name a folder that has one")
    groups: defaultdict[tuple[str, str, str], list[Question]] = defaultdict(list)
    for question in read_questions(options.set):
        groups[question.repository, question.commit, question.folder].append(question)
    scores: list[Score] = []
    for (repository, commit, folder), questions in groups.items():
        place = options.store / options.set.name / repository.replace("/", "+")
        write_files(find_mirror(options.mirrors, repository), commit, folder, place / "files")
        scores += ask(index_repository(place, options.profile), questions)
        mean = np.mean([score.as_returned for score in scores[-len(questions) :]])
        Console(stderr=True).print(f"{repository}: {len(questions)} questions, {mean:.3f}")
    show(scores)


if __name__ == "__main__":
    main()
