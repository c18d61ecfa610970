"""Pairs: questions that what is indexed answers by itself. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from knowledge_pipeline.evaluation.golden import GoldenQuestion
from knowledge_pipeline.records import hash_strings

PairKind = Literal["docstring", "commit", "pull_request", "ticket", "judgement"]
KINDS: tuple[PairKind, ...] = ("docstring", "commit", "pull_request", "ticket", "judgement")
HELD_OUT_SHARE = 5  # one pair of so many, the newest, is kept for the verdict
MIN_WORDS, MAX_CHARS = 4, 200  # of a question

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pair:
    """One question with its answers, and where it is from."""

    kind: PairKind
    question: GoldenQuestion
    origin: str  # "source:uri" of the document that says it; of a judgement the query's id
    made_at: datetime | None = None  # None: unknown
    taken_out: str = ""  # of the answer's text, before it is scored: the docstring that the question is from

    @property
    def newest_first(self) -> tuple[float, str]:
        """Sorts by age; pairs of one age, or of none, are in an order that says nothing."""
        order = hash_strings(self.kind, self.question.text, self.origin)
        return -(self.made_at or _LONG_AGO).timestamp(), order


def is_question(text: str) -> bool:
    """Whether a text is long enough to ask something, and no longer than people ask."""
    return len(text.split()) >= MIN_WORDS and len(text) <= MAX_CHARS


def drop_ambiguous(pairs: Iterable[Pair]) -> list[Pair]:
    """Pairs whose question no other of the kind asks: a docstring that is copied tells nothing apart."""
    by_text: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_text[pair.question.text.casefold()].append(pair)
    return [same[0] for same in by_text.values() if len(same) == 1]


def select_newest(pairs: Iterable[Pair], *, limit: int) -> list[Pair]:
    """At most `limit` pairs of each kind, by kind, the newest first."""
    by_kind: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_kind[pair.kind].append(pair)
    ordered = (sorted(by_kind[kind], key=lambda pair: pair.newest_first) for kind in KINDS if by_kind[kind])
    return [pair for of_kind in ordered for pair in of_kind[:limit]]


def split_newest(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """The pairs to learn from, and the newest fifth of each kind, which is held out."""
    learned: list[Pair] = []
    held_out: list[Pair] = []
    for kind in KINDS:
        of_kind = sorted((pair for pair in pairs if pair.kind == kind), key=lambda pair: pair.newest_first)
        count = len(of_kind) // HELD_OUT_SHARE
        held_out += of_kind[:count]
        learned += of_kind[count:]
    return learned, held_out
