"""Tells whether two texts differ only in white space, letter case, and a few words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_WORDS = re.compile(r"\w+|[^\w\s]")
_SHINGLE_WORDS = 4  # words of a shingle
_MIN_JACCARD = 0.8  # share of shingles that both have, of those that either has

Shingles = frozenset[tuple[str, ...]]


def shingles(text: str) -> Shingles:
    """Every run of four words of a text; a shorter text is one run."""
    if text.isascii():  # its letters are folded one by one
        words: list[str] = _WORDS.findall(text.lower())
    else:
        words = [word.casefold() for word in _WORDS.findall(text)]
    if len(words) < _SHINGLE_WORDS:
        return frozenset((tuple(words),))
    return frozenset(zip(*(words[start:] for start in range(_SHINGLE_WORDS)), strict=False))


def is_nearly_equal(first: Shingles, second: Shingles) -> bool:
    """Whether two texts share most of their runs of words (a Jaccard index of at least 0.8).

    In a text of 100 words, about two words may differ.
    """
    smaller, larger = sorted((len(first), len(second)))
    if smaller < _MIN_JACCARD * larger:
        return False
    shared = len(first & second)
    return shared >= _MIN_JACCARD * (smaller + larger - shared)


def find_first_duplicates(texts: Iterable[str]) -> Iterator[int]:
    """For each text the index of the first one that it is nearly equal to: its own, if it is new."""
    known: list[tuple[int, Shingles]] = []
    for index, text in enumerate(texts):
        own = shingles(text)
        first = next((at for at, other in known if is_nearly_equal(own, other)), index)
        if first == index:
            known.append((index, own))
        yield first
