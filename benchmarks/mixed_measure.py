"""How well results answer a question whose targets are graded: lines of files, commits, and other documents.

A question is a line of JSON with `id`, `kind`, `question` and `targets`. A target is `{path, start, end,
grade}`, lines of a file that count from 1; `{commit, grade}`, by its full hash; or `{document, grade}`, by
the name that its set gives it. Grade 2 answers, 1 helps; a question of kind `none` has no target.

Pure: whoever asks says which place each result is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEPTH = 10  # results that count
ANSWERS = 2  # the grade of what answers by itself
NONE = "none"  # the kind of question that nothing answers


@dataclass(frozen=True, slots=True)
class Place:
    """Where a result is: a document, and the lines of it that are shown."""

    document: str  # a file's path, "commit/<hash>", or a name
    first_line: int = 1
    last_line: int | None = None  # None: the end


@dataclass(frozen=True, slots=True)
class Target:
    """What answers a question."""

    place: Place
    grade: int

    def is_hit_by(self, shown: Place) -> bool:
        """Whether a result is of the same document and has at least one of the lines."""
        if self.place.document != shown.document:
            return False
        ends = (each.last_line or math.inf for each in (self.place, shown))
        return max(self.place.first_line, shown.first_line) <= min(ends)


@dataclass(frozen=True, slots=True)
class Question:
    """One question, and all that answers it."""

    id: str
    kind: str
    text: str
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Success:
    """Whether a target of grade 2 is hit by the first, the first three and the first ten results."""

    at_1: bool
    at_3: bool
    at_10: bool


def parse_questions(lines: Iterable[str]) -> list[Question]:
    """The questions of a file. Raises KeyError, ValueError: a line lacks something."""
    return [
        Question(row["id"], row["kind"], row["question"], tuple(map(_parse_target, row["targets"])))
        for row in map(json.loads, filter(str.strip, lines))
    ]


def _parse_target(row: Mapping[str, Any]) -> Target:
    if "path" in row:
        return Target(Place(row["path"], row["start"], row["end"]), row["grade"])
    document = f"commit/{row['commit']}" if "commit" in row else row["document"]
    return Target(Place(document), row["grade"])


def compute_ndcg(targets: Sequence[Target], shown: Sequence[Place]) -> float:
    """nDCG@10 of results in order, 0 to 1.

    A target counts once, at the first result that hits it; a result that hits several counts with the
    highest grade of them. The best possible list has the grades one by one, highest first.

    Raises:
        ValueError: there are no targets.
    """
    if not targets:
        raise ValueError("a question without targets has no nDCG")
    missing, gains = list(targets), list[int]()
    for place in shown[:DEPTH]:
        hits = [target for target in missing if target.is_hit_by(place)]
        gains.append(max((target.grade for target in hits), default=0))
        missing = [target for target in missing if target not in hits]
    return _discount(gains) / _discount(sorted((target.grade for target in targets), reverse=True)[:DEPTH])


def _discount(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def judge_success(targets: Sequence[Target], shown: Sequence[Place]) -> Success:
    """Whether something that answers by itself is among the first results."""
    answers = [target for target in targets if target.grade == ANSWERS]
    ranks = (rank for rank, place in enumerate(shown) if any(each.is_hit_by(place) for each in answers))
    first = next(ranks, DEPTH)
    return Success(first < 1, first < 3, first < DEPTH)


def compute_auroc(answered: Sequence[float], unanswered: Sequence[float]) -> float:
    """How often a question with an answer scores above one without; a tie counts half. 0.5 says nothing.

    Raises:
        ValueError: there are none of one kind.
    """
    if not answered or not unanswered:
        raise ValueError("both kinds of question are needed")
    wins = sum((yes > no) + (yes == no) / 2 for yes in answered for no in unanswered)
    return wins / (len(answered) * len(unanswered))
