"""Finds the words of a query in texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from knowledge_pipeline import identifiers
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.search.understand import remove_stopwords, understand

Range = tuple[int, int]  # half-open

_MAX_WORDS = 40
_SUFFIXES = ("ings", "ing", "ies", "ied", "es", "ed", "s", "e")
_MIN_STEM_CHARS = 3


class TermMatcher:
    """Finds the words of a query in texts, as whole words or as parts of identifiers."""

    def __init__(self, query: str) -> None:
        stems = _extract_stems(query)
        begins = r"(?<![^\W_])|(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
        ends = r"(?:[A-Z]{1,3}(?![A-Za-z])|[a-z]{0,3}(?![a-z]))"
        each = "|".join(map(re.escape, sorted(stems, key=len, reverse=True)))
        self._word = re.compile(rf"(?:{begins})(?i:{each}){ends}") if stems else None

    def find_ranges(self, text: str) -> list[Range]:
        """The ranges of the words, in order, without overlap."""
        return [match.span() for match in self._word.finditer(text)] if self._word else []


def split_at_ranges(start: int, text: str, ranges: Sequence[Range]) -> Iterator[tuple[str, bool]]:
    """The pieces of a text that starts at `start`, each inside one range or outside of all."""
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


def _extract_stems(query: str) -> set[str]:
    try:
        plain = understand(query).text
    except InvalidQuery:  # filters alone, or far too long
        return set()
    words = identifiers.expand_identifiers(remove_stopwords(plain)).split()
    return set(_iter_stems(words[:_MAX_WORDS]))


def _iter_stems(words: Iterable[str]) -> Iterator[str]:
    """Words without the endings that English gives them, so that "signing" marks "signed"."""
    for word in (word.strip("_").lower() for word in words):
        if len(word) < 2:
            continue
        ending = next((end for end in _SUFFIXES if word.endswith(end)), "")
        stem = word.removesuffix(ending)
        yield stem if len(stem) >= _MIN_STEM_CHARS else word
