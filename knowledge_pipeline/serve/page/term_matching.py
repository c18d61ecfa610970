"""Finds the words of a query in texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from knowledge_pipeline import identifiers
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.search.understand import remove_stopwords, understand
from knowledge_pipeline.writing_systems import CUT_LETTERS, is_cut, normalize, normalize_aligned

Range = tuple[int, int]  # half-open

_MAX_WORDS = 40
_SUFFIXES = ("ings", "ing", "ies", "ied", "es", "ed", "s", "e")
_MIN_STEM_CHARS = 3


class TermMatcher:
    """Finds the words of a query in texts, as whole words, as parts of identifiers, or inside a sentence."""

    def __init__(self, query: str) -> None:
        words = _list_words(query)
        stems = set(_iter_stems(word for word in words if not is_cut(word)))
        begins = rf"(?<![^\W_])|(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[{CUT_LETTERS}])"
        ends = r"(?:[A-Z]{1,3}(?![A-Za-z])|[a-z]{0,3}(?![a-z]))"
        self._word = re.compile(rf"(?:{begins})(?i:{_match_any(stems)}){ends}") if stems else None
        pairs = set(filter(is_cut, words))
        self._pair = re.compile(f"(?=({_match_any(pairs)}))") if pairs else None  # they overlap

    def find_ranges(self, text: str) -> list[Range]:
        """The ranges of the words, in order, without overlap."""
        if text.isascii():
            return self._find_words(text)
        plain, starts, ends = normalize_aligned(text)
        pairs = [match.span(1) for match in self._pair.finditer(plain)] if self._pair else []
        found = sorted(self._find_words(plain) + pairs)
        return _unite_overlapping((starts[first], ends[last - 1]) for first, last in found)

    def _find_words(self, text: str) -> list[Range]:
        return [match.span() for match in self._word.finditer(text)] if self._word else []


def _match_any(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


def _unite_overlapping(ranges: Iterable[Range]) -> list[Range]:
    """Ranges in order, of which those that overlap are one."""
    united: list[Range] = []
    for first, last in ranges:
        if united and first < united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], last)
        else:
            united.append((first, last))
    return united


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


def _list_words(query: str) -> list[str]:
    try:
        plain = understand(query).text
    except InvalidQuery:  # filters alone, or far too long
        return []
    words = identifiers.expand_identifiers(remove_stopwords(normalize(plain)))
    return words.split()[:_MAX_WORDS]


def _iter_stems(words: Iterable[str]) -> Iterator[str]:
    """Words without the endings that English gives them, so that "signing" marks "signed"."""
    for word in (word.strip("_").lower() for word in words):
        if len(word) < 2:
            continue
        ending = next((end for end in _SUFFIXES if word.endswith(end)), "")
        stem = word.removesuffix(ending)
        yield stem if len(stem) >= _MIN_STEM_CHARS else word
