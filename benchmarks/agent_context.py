"""How much of what must be read a prompt of a few thousand tokens holds, beside searching by hand.

    python -m benchmarks.agent_context SET --mirrors FOLDER [--store FOLDER] [--kind KIND] [--picture FILE]

A set is a folder with `questions.jsonl`: for each question a repository, a commit, and the spans of lines
that answer it; or with `<owner+name>.jsonl` for each repository, as `benchmarks.mixed` reads it, of whose
targets those count that are lines of files. Each commit is checked out with its history and indexed by
`knowledge index --repo .`, so code, documentation and history compete; a second run indexes only what
changed. Questions that cannot be asked, because a mirror, a commit or all of their lines are missing, are
listed with the reason. A token is four characters, for the product as well (`context.tokenizer`), headings
of excerpts and the prompt around them included. Five ways to fill a budget:

    whole files     those with most of the question's rare words, read from their first line
    around matches  the same files, 40 lines to each side of each match
    chunks          the results of a default search, nothing filtered, as they come
    context         what `context` makes of the question: the whole prompt
    excerpts        the same without task and instructions, as agents get it by MCP

The last two are also compared with chunks, question by question, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import mixed
from benchmarks.pictures import bars, picture
from benchmarks.repositories import find_mirror
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.context.task_text import build_query
from knowledge_pipeline.contract.filters import TaskKind
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.evaluation.scores import estimate_mean
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.plan import remove_stopwords

BUDGETS = (500, 1_000, 2_000, 4_000, 8_000)
_CHARS_PER_TOKEN = 4
_RARE_SHARE = 0.2  # of the files have a rare word, at most
_AROUND = 40  # lines to each side of a match
_MAX_FILE_BYTES = 1_000_000
_CHUNKS = 100

Line = tuple[str, int]
"""Path and line number, from 1."""


@dataclass(frozen=True)
class Question:
    """A question or an issue, and the lines that answer it."""

    repository: str
    commit: str
    text: str
    lines: frozenset[Line]  # a path may be the end of a longer one


@dataclass(frozen=True)
class ShownText:
    """Some text that a reader is given, with the lines of a file that it shows; a heading shows none."""

    text: str
    line: Line | None = None

    @property
    def tokens(self) -> float:
        """With its line break."""
        return (len(self.text) + 1) / _CHARS_PER_TOKEN


@dataclass(frozen=True)
class Outcome:
    """What one way found for one question within one budget."""

    recall: float  # share of the lines that answer
    precision: float  # share of the lines shown
    files: float  # share of the files that answer
    first: float  # tokens until the first line that answers; infinite where none is shown


def read_questions(folder: Path) -> tuple[list[Question], int]:
    """The questions of a set, and how many of its targets are left out because they are no lines of a file.

    Raises KeyError, ValueError: a line lacks something.
    """
    path = folder / "questions.jsonl"
    if not path.is_file():
        return _read_mixed_questions(sorted(folder.glob("*.jsonl")))
    questions: list[Question] = []
    for row in map(json.loads, path.read_text().splitlines()):
        spans = [(span["path"], range(span["start"], span["end"] + 1)) for span in row["spans"]]
        lines = frozenset((path, line) for path, span in spans for line in span)
        text = row.get("question") or row["issue"]
        questions.append(Question(row["repository"], row["commit"], text, lines))
    return questions, 0


def _read_mixed_questions(paths: Iterable[Path]) -> tuple[list[Question], int]:
    """Those that something answers."""
    questions, left_out = list[Question](), 0
    for path in paths:
        origin = mixed.read_origin(path)
        for asked in mixed.read_questions(path):
            places = [target.place for target in asked.targets]
            lines = frozenset(
                (place.document, line)
                for place in places
                if place.last_line
                for line in range(place.first_line, place.last_line + 1)
            )
            left_out += sum(place.last_line is None for place in places)
            if places:
                questions.append(Question(*origin, asked.text, lines))
    return questions, left_out


def compare(question: Question, shown: Iterable[ShownText], budget: float) -> Outcome:
    """What the part of a reading within a budget shows of what answers."""
    spent, first, total = 0.0, float("inf"), 0
    paths = sorted({path for path, _ in question.lines})
    found: set[Line] = set()
    relevant = 0
    for each in shown:
        spent += each.tokens
        if spent > budget:
            break
        if each.line is None:
            continue
        total += 1
        path, number = each.line
        answered = {(end, number) for end in paths if _is_end_of(end, path)} & question.lines
        if answered:
            relevant += 1
            first = min(first, spent)
            found |= answered
    files = {path for path, _ in found}
    return Outcome(len(found) / len(question.lines), relevant / max(total, 1), len(files) / len(paths), first)


def _is_end_of(end: str, path: str) -> bool:
    return path == end or path.endswith(f"/{end}")


class Checkout:
    """A commit's files, searched for words as a person does without an index."""

    def __init__(self, folder: Path) -> None:
        self._lines: dict[str, list[str]] = {}
        listed = subprocess.run(["git", "-C", folder, "ls-files", "-z"], capture_output=True, check=True)
        for path in (folder / name for name in sorted(listed.stdout.decode().split("\0")) if name):
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MAX_FILE_BYTES:
                content = path.read_bytes()
                if b"\0" not in content:
                    text = content.decode(errors="replace")
                    self._lines[path.relative_to(folder).as_posix()] = text.splitlines()

    def keep_known(self, question: Question) -> Question:
        """The question without lines that no file has: some were taken out of prose by a pattern."""
        lengths = {path: len(lines) for path, lines in self._lines.items()}

        def is_known(end: str, number: int) -> bool:
            return any(_is_end_of(end, path) and number <= length for path, length in lengths.items())

        return replace(question, lines=frozenset(line for line in question.lines if is_known(*line)))

    def find(self, question: str) -> list[tuple[str, list[int]]]:
        """Files with the line numbers of matches; first those with the rarest and most words."""
        words = dict.fromkeys(word.lower() for word in re.findall(r"\w{3,}", remove_stopwords(question)))
        found: defaultdict[str, set[int]] = defaultdict(set)
        scores: defaultdict[str, float] = defaultdict(float)
        for word in words:
            pattern = re.compile(re.escape(word), re.IGNORECASE)
            by_file = {
                path: {number for number, line in enumerate(lines, 1) if pattern.search(line)}
                for path, lines in self._lines.items()
            }
            matches = {path: numbers for path, numbers in by_file.items() if numbers}
            if len(matches) > _RARE_SHARE * len(self._lines):
                continue
            for path, numbers in matches.items():
                found[path] |= numbers
                scores[path] += math.log(len(self._lines) / len(matches))
        order = sorted(found, key=lambda path: (-scores[path], -len(found[path]), path))
        return [(path, sorted(found[path])) for path in order]

    def read(self, path: str, numbers: Iterable[int]) -> Iterator[ShownText]:
        """A heading, and lines of a file."""
        lines = self._lines[path]
        yield ShownText(path)
        for number in numbers:
            if 1 <= number <= len(lines):
                yield ShownText(lines[number - 1], (path, number))

    def read_whole(self, question: str) -> Iterator[ShownText]:
        """Files in the order of their matches."""
        for path, _ in self.find(question):
            yield from self.read(path, range(1, len(self._lines[path]) + 1))

    def read_around(self, question: str) -> Iterator[ShownText]:
        """The same files, the lines around each match."""
        for path, matches in self.find(question):
            around = {line for each in matches for line in range(each - _AROUND, each + _AROUND + 1)}
            yield from self.read(path, sorted(around))


def show_lines(path: str, first_line: int, text: str) -> Iterator[ShownText]:
    """Consecutive lines of a file."""
    for number, line in enumerate(text.split("\n"), start=first_line):
        yield ShownText(line, (path, number))


def read_chunks(knowledge: KnowledgeBase, question: str) -> Iterator[ShownText]:
    """What search returns, best first, each under a heading; a long question is cut as `context` does."""
    query, _ = build_query(Task(question))
    for result in knowledge.search(query, limit=_CHUNKS).results:
        path = result.citation.path
        yield ShownText(f"{path} {result.citation.lines}")
        yield from show_lines(path, result.span.start_line, result.content)


def count_four_characters(settings: Settings, place: Path) -> Settings:
    """The settings with a tokenizer, saved at a place, whose tokens are four characters each."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split

    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Split(Regex(rf"[\s\S]{{1,{_CHARS_PER_TOKEN}}}"), "isolated")
    tokenizer.save(str(place))
    context = settings.context.model_copy(update={"tokenizer": str(place)})
    return settings.model_copy(update={"context": context})


def read_context(
    knowledge: KnowledgeBase, question: str, kind: TaskKind, budget: int, template: str
) -> list[ShownText]:
    """The prompt: excerpts in their order, and what stands before the first and after the last.

    Nothing is read where the task alone exceeds the budget.
    """
    try:
        context = knowledge.context(Task(question, kind=kind), max_tokens=budget, template=template)
    except InvalidQuery:
        return []
    rest, shown = context.text, list[ShownText]()
    for excerpt in context.excerpts:
        before, found, after = rest.partition(excerpt.text)
        assert found, f"an excerpt of {excerpt.citation} is not in the prompt"
        shown.append(ShownText(before.removesuffix("\n")))
        shown += show_lines(
            excerpt.citation.path, int(excerpt.citation.lines[1:].split("-")[0]), excerpt.text
        )
        rest = after.removeprefix("\n")
    return [*shown, ShownText(rest)]


def measure(
    knowledge: KnowledgeBase, files: Checkout, question: Question, kind: TaskKind
) -> dict[str, list[Outcome]]:
    """For each way, an outcome for each budget."""
    text = question.text
    readings = {
        "whole files": list(_take(files.read_whole(text))),
        "around matches": list(_take(files.read_around(text))),
        "chunks": list(_take(read_chunks(knowledge, text))),
    }
    outcomes = {
        name: [compare(question, shown, budget) for budget in BUDGETS] for name, shown in readings.items()
    }
    for name, template in (("context", kind), ("excerpts", "excerpts")):
        outcomes[name] = [
            compare(question, read_context(knowledge, text, kind, budget, template), budget)
            for budget in BUDGETS
        ]
    return outcomes


def _take(shown: Iterable[ShownText]) -> Iterator[ShownText]:
    """What the largest budget can hold."""
    spent = 0.0
    for each in shown:
        spent += each.tokens
        yield each
        if spent > BUDGETS[-1]:
            return


_MEASURES: Mapping[str, Callable[[Sequence[Outcome]], str]] = {
    "lines that answer, share shown": lambda each: f"{np.mean([one.recall for one in each]):.3f}",
    "lines shown, share that answers": lambda each: f"{np.mean([one.precision for one in each]):.3f}",
    "files that answer, share shown": lambda each: f"{np.mean([one.files for one in each]):.3f}",
    "tokens to the first, median": lambda each: f"{np.median([one.first for one in each]):.0f}",
}


def show(outcomes: Mapping[str, Sequence[Mapping[str, Sequence[Outcome]]]]) -> None:
    """Print each measure by way and budget, then the share of the lines by repository."""
    everything = [each for group in outcomes.values() for each in group]
    table = _start_table()
    for name, summarize in _MEASURES.items():
        _add_rows(table, name, everything, summarize)
    Console(width=120).print(table)
    table = _start_table()
    for way in ("context", "excerpts"):
        table.add_row("lines that answer, difference", f"{way} - chunks", *_compare_recalls(everything, way))
    Console(width=160).print(table)
    table = _start_table()
    for repository, group in outcomes.items():
        _add_rows(table, f"{repository}, {len(group)} questions", group, next(iter(_MEASURES.values())))
    Console(width=120).print(table)


def _start_table() -> Table:
    return Table("", "", *(f"{budget:,} tokens" for budget in BUDGETS))


def _add_rows(
    table: Table,
    name: str,
    outcomes: Sequence[Mapping[str, Sequence[Outcome]]],
    summarize: Callable[[Sequence[Outcome]], str],
) -> None:
    """A row for each way."""
    for way in outcomes[0]:
        columns = [[each[way][place] for each in outcomes] for place in range(len(BUDGETS))]
        table.add_row(name, way, *map(summarize, columns))
    table.add_section()


def _compare_recalls(outcomes: Sequence[Mapping[str, Sequence[Outcome]]], way: str) -> Iterator[str]:
    """What a way shows more than plain chunks, by budget, with its interval."""
    for at in range(len(BUDGETS)):
        gains = [outcome[way][at].recall - outcome["chunks"][at].recall for outcome in outcomes]
        gain = estimate_mean(np.array(gains))
        yield f"{gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"


def draw(path: Path, outcomes: Sequence[Mapping[str, Sequence[Outcome]]]) -> None:
    """Draw the share of the lines that answer, a panel for each budget."""
    bars(
        path,
        {
            f"{budget:,} tokens": {
                way: float(np.mean([each[way][place].recall for each in outcomes])) for way in outcomes[0]
            }
            for place, budget in enumerate(BUDGETS)
        },
    )


def measure_repository(
    options: argparse.Namespace, repository: str, commit: str, questions: Sequence[Question]
) -> list[dict[str, list[Outcome]]]:
    """Index a commit and ask its questions that have a line in its files.

    Raises FileNotFoundError: there is no mirror, or it lacks the commit.
    """
    mirror = find_mirror(options.mirrors, repository)
    checkout = options.store / options.set.name / repository.replace("/", "+")
    try:
        mixed.check_out(mirror, commit, checkout)
    except subprocess.CalledProcessError as error:
        raise FileNotFoundError(f"its mirror lacks the commit {commit}") from error
    files = Checkout(checkout)
    known = [question for question in map(files.keep_known, questions) if question.lines]
    mixed.index_checkout(checkout)
    settings = count_four_characters(
        load_settings(checkout / "knowledge.yaml"), checkout.with_suffix(".tokenizer.json")
    )
    with KnowledgeBase(settings) as knowledge:
        outcomes = [measure(knowledge, files, question, options.kind) for question in known]
    recalls = {way: np.mean([each[way][1].recall for each in outcomes]) for way in (outcomes or [{}])[0]}
    shown = ", ".join(f"{way} {recall:.3f}" for way, recall in recalls.items())
    print(f"{repository}: {len(known)} questions; at {BUDGETS[1]:,}: {shown}", file=sys.stderr)
    return outcomes


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git repositories")
    parser.add_argument("--store", type=Path, default=Path(".knowledge/evaluation"))
    parser.add_argument("--kind", choices=get_args(TaskKind), default="question", help="of task")
    parser.add_argument("--only", nargs="+", help="some of its repositories: owner/name")
    parser.add_argument("--picture", type=picture, help="where to draw the share of lines by budget")
    options = parser.parse_args()
    asked_questions, left_out_targets = read_questions(options.set)
    if not asked_questions:
        parser.error(f"there are no questions in {options.set}: name a folder with *.jsonl")
    groups: defaultdict[tuple[str, str], list[Question]] = defaultdict(list)
    for question in asked_questions:
        if not options.only or question.repository in options.only:
            groups[question.repository, question.commit].append(question)
    outcomes: defaultdict[str, list[dict[str, list[Outcome]]]] = defaultdict(list)
    left_out = [f"{left_out_targets} targets that are no lines of a file"] if left_out_targets else []
    for (repository, commit), questions in groups.items():
        asked, reason = [], "none of their lines is in its files"
        try:
            asked = measure_repository(options, repository, commit, questions)
        except FileNotFoundError as missing:
            reason = str(missing)
        if asked:
            outcomes[repository] += asked
        if missing_count := len(questions) - len(asked):
            left_out.append(f"{repository}, {missing_count} of {len(questions)} questions: {reason}")
    if not outcomes:
        parser.error("no repository of the set is there: clone one, or name another folder of mirrors")
    asked_count = sum(map(len, outcomes.values()))
    print(f"{asked_count} of {sum(map(len, groups.values()))} questions", *left_out, sep="\nleft out: ")
    show(outcomes)
    if options.picture:
        draw(options.picture, [each for group in outcomes.values() for each in group])


if __name__ == "__main__":
    main()
