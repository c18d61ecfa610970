"""Which characters of a text are words that were asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from knowledge_pipeline import identifiers
from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.search.stopwords import without_function_words
from knowledge_pipeline.query.search.understand import understand

Range = tuple[int, int]  # half-open

_MOST_WORDS = 40
_ENDINGS = ("ings", "ing", "ies", "ied", "es", "ed", "s", "e")
_SHORTEST_STEM = 3


class Marks:
    """Finds the words of a question in texts, as whole words or as parts of identifiers."""

    def __init__(self, question: str) -> None:
        stems = _stems(question)
        begins = r"(?<![^\W_])|(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
        ends = r"(?:[A-Z]{1,3}(?![A-Za-z])|[a-z]{0,3}(?![a-z]))"
        each = "|".join(map(re.escape, sorted(stems, key=len, reverse=True)))
        self._word = re.compile(rf"(?:{begins})(?i:{each}){ends}") if stems else None

    def ranges(self, text: str) -> list[Range]:
        """Where they are, in order, none overlapping another."""
        return [match.span() for match in self._word.finditer(text)] if self._word else []


def cut(start: int, text: str, ranges: Sequence[Range]) -> Iterator[tuple[str, bool]]:
    """A text that begins at a character as its pieces, each within one range or in none."""
    done, end = start, start + len(text)
    for first, last in ranges:
        if last <= done or first >= end:
            continue
        first, last = max(first, done), min(last, end)
        if first > done:
            yield text[done - start : first - start], False
        yield text[first - start : last - start], True
        done = last
    if done < end:
        yield text[done - start :], False


def _stems(question: str) -> set[str]:
    try:
        plain = understand(question).text
    except QuestionRefused:  # filters alone, or far too long
        return set()
    words = identifiers.searchable(without_function_words(plain)).split()
    return set(_stemmed(words[:_MOST_WORDS]))


def _stemmed(words: Iterable[str]) -> Iterator[str]:
    """Words without the endings that English gives them, so that "signing" marks "signed"."""
    for word in (word.strip("_").lower() for word in words):
        if len(word) < 2:
            continue
        ending = next((end for end in _ENDINGS if word.endswith(end)), "")
        stem = word.removesuffix(ending)
        yield stem if len(stem) >= _SHORTEST_STEM else word
