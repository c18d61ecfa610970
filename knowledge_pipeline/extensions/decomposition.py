"""Splits a compound question into parts that can be searched for on their own, by rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

MAX_PARTS = 4

_MAX_CHARS = 1000
_MAX_CONTEXT_WORDS = 30  # before a list, or before the first question; more is no context
_MIN_WORDS = 3  # of a question that stands alone
_MAX_SIDE_WORDS = 8  # of one side of a comparison

_CODE = re.compile(r"```|[{};]\s*$|=>|::\s*$", re.MULTILINE)
_NUMBERED = re.compile(r"^[ \t]*\(?(\d{1,2})[.)][ \t]+", re.MULTILINE)
_INLINE_NUMBER = re.compile(r"(?:^|(?<=\s))\(?(\d)\)\s+")
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+()", re.MULTILINE)
_AFTER_QUESTION = re.compile(r"(?<=\S\?)\s+")
_AFTER_STATEMENT = re.compile(r"(?<=[\w)][.!])\s+(?=[A-Z])")
_QUESTION_WORDS = "how|what|where|when|who|why|which"
_VERBS = "is|are|was|were|do|does|did|can|could|should|will|would|has|have|must|may|might"
_QUESTION = re.compile(rf"(?:and\s+|also\s+)*(?:{_QUESTION_WORDS}|{_VERBS})\b", re.IGNORECASE)
_AND_ASKS = re.compile(
    rf",?\s+and\s+(?:also\s+)?(?=(?:(?:{_QUESTION_WORDS})|how\s+(?:many|much|long|often)\s+\w+)\s+(?:{_VERBS})\b)",
    re.IGNORECASE,
)
_REFERS_BACK = re.compile(
    r"\b(it|its|they|them|their|theirs|this|these|those|he|him|his|she|her|there|former|latter|same)\b",
    re.IGNORECASE,
)
_PLEASE = r"(?:please\s+|can you\s+|could you\s+)"
_COMPARISONS = tuple(  # `(?<!\s)`: from inside a run of blanks nothing is found that its start has not
    (re.compile(whole, re.IGNORECASE | re.DOTALL), re.compile(rf"(?<!\s){between}", re.IGNORECASE), max_sides)
    for whole, between, max_sides in (
        (r"\bdifferences?\s+between\s+(.+)", r"\s+and\s+", 2),
        (rf"^{_PLEASE}?compare\s+(.+)", r"\s+(?:and|with|to|against)\s+(?:with\s+|to\s+)?", 2),
        (r"^how\s+(?:do|does|did)\s+(.+\sdiffer\s+from\s.+)", r"\s+differ\s+from\s+", 2),
        (r"^(.+\s(?:vs\.?|versus)\s.+)", r"\s+(?:vs\.?|versus)\s+", 3),
    )
)
"""The forms of a comparison, what stands between its sides, and how many there can be."""
_INNER_END = re.compile(r"[.!?]\s")


def decompose(text: str) -> tuple[str, ...]:
    """The parts of a compound question, at most `MAX_PARTS`; the question alone where it is one.

    The parts of a comparison are itself and its sides; those of a list are its items, and several
    questions are parts themselves, each prefixed by what is said before the first. No word is lost: each
    stands in some part, except those that only join the parts ("and", "also") and the marks of a list. A
    question that no rule surely understands stays whole.
    """
    plain = text.strip()
    if len(plain) > _MAX_CHARS or _CODE.search(plain):
        return (plain,)
    for rule in (_split_list, _split_questions, _split_comparison):
        if len(parts := rule(plain)) > 1:
            size, more = divmod(len(parts), MAX_PARTS)  # neighbours go together where there are too many
            starts = [group * size + min(group, more) for group in range(MAX_PARTS + 1)]
            groups = (" ".join(parts[start:end]) for start, end in pairwise(starts))
            return tuple(filter(None, groups))
    return (plain,)


def _split_list(text: str) -> list[str]:
    """The items of a numbered list, or of one with bullets whose items all ask."""
    for mark in (_NUMBERED, _INLINE_NUMBER):
        marks = list(mark.finditer(text))
        if len(marks) > 1 and [int(mark[1]) for mark in marks] == list(range(1, len(marks) + 1)):
            return _split_items(text, marks)
    items = _split_items(text, list(_BULLET.finditer(text)))
    return items if all(item.endswith("?") for item in items) else []


def _split_items(text: str, marks: Sequence[re.Match[str]]) -> list[str]:
    if not marks:
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    items = [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    return _prefix_each(text[: marks[0].start()].strip(), items) if all(items) else []


def _split_questions(text: str) -> list[str]:
    """Questions that follow each other, as sentences or after an "and", and can stand alone.

    A sentence that cannot stand alone stays with the one before it.
    """
    sentences: list[str] = []
    for sentence in _AFTER_QUESTION.split(text):
        if sentences and not (_stands_alone(sentence) and _stands_alone(sentences[0], first=True)):
            sentences[-1] += f" {sentence}"
        else:
            sentences.append(sentence)
    before, first = _split_statements(sentences[0])
    questions = [half for sentence in (first, *sentences[1:]) for half in _split_halves(sentence)]
    return _prefix_each(before, questions)


def _stands_alone(sentence: str, *, first: bool = False) -> bool:
    _, question = _split_statements(sentence)
    asks = bool(_QUESTION.match(question)) and question.endswith("?")
    return asks and len(question.split()) >= _MIN_WORDS and (first or not _REFERS_BACK.search(question))


def _split_statements(sentence: str) -> tuple[str, str]:
    cuts = list(_AFTER_STATEMENT.finditer(sentence))
    return (sentence[: cuts[-1].start()], sentence[cuts[-1].end() :]) if cuts else ("", sentence)


def _split_halves(question: str) -> list[str]:
    """`How is A done and where is B set?` is two."""
    cut = _AND_ASKS.search(question)
    if cut is None or not _QUESTION.match(question):
        return [question]
    halves = [question[: cut.start()], question[cut.end() :]]
    long_enough = all(len(half.split()) >= _MIN_WORDS for half in halves)
    return halves if long_enough and not _REFERS_BACK.search(halves[1]) else [question]


def _split_comparison(text: str) -> list[str]:
    """A comparison, then its two sides; three, for `A vs B vs C`."""
    for whole, between, max_sides in _COMPARISONS:
        if match := whole.search(text):
            sides = [side.strip(" \t\n?.!,:") for side in between.split(match[1])]
            short = all(0 < len(side.split()) <= _MAX_SIDE_WORDS for side in sides)
            unclear = any(_INNER_END.search(side) or _REFERS_BACK.search(side) for side in sides)
            return [text, *sides] if 2 <= len(sides) <= max_sides and short and not unclear else []
    return []


def _prefix_each(context: str, parts: Sequence[str]) -> list[str]:
    if len(context.split()) > _MAX_CONTEXT_WORDS:
        return []
    return [f"{context} {part}" for part in parts] if context else list(parts)
