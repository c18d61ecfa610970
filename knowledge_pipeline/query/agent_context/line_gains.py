"""Estimates what a reader gains by each line of what was found. Pure.

A line gains by the chance that its chunk answers, and by the share of the question's words in it and in the
lines beside it; a rare word counts for more. One without a letter or a digit, such as a closing bracket, says
nothing by itself. (docs/decisions/contexts.md)
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, cast

import Stemmer

from knowledge_pipeline.identifiers import split_identifier
from knowledge_pipeline.query.search.understand import remove_stopwords
from knowledge_pipeline.writing_systems import VOWEL_SIGNS, cut, normalize

_BASE = 2.0  # gain of a line without any word of the question
_BESIDE = 2  # lines to each side, whose words count as well
_MAX_WORDS = 12  # the rarest, that count as the whole question: issues are long
_WORD = re.compile(rf"[^\W\d][\w{VOWEL_SIGNS}]+")


class WordWeights:
    """The question's words, by how rare they are among the texts that were found."""

    def __init__(self, question: str, texts: Sequence[str]) -> None:
        asked = _read_words(remove_stopwords(question))
        counts = Counter(word for text in texts for word in asked & _read_words(text))
        self._weights = {word: math.log((len(texts) + 1) / (count + 0.5)) for word, count in counts.items()}
        self._total = sum(sorted(self._weights.values())[-_MAX_WORDS:]) or 1.0

    def estimate_gains(self, lines: Sequence[str]) -> list[float]:
        """The gain of each of some consecutive lines, for a chunk that surely answers."""
        shares = [sum(self._weights.get(word, 0.0) for word in _read_words(line)) for line in lines]
        sums = [0.0, *accumulate(shares)]
        gains: list[float] = []
        for at, line in enumerate(lines):
            around = sums[min(at + _BESIDE + 1, len(lines))] - sums[max(at - _BESIDE, 0)]
            gains.append(_BASE + around / self._total if any(map(str.isalnum, line)) else 0.0)
        return gains


def _read_words(text: str) -> frozenset[str]:
    """The stems of a text's words, identifiers split, and scripts without spaces cut."""
    if not text.isascii():
        text = cut(normalize(text))
    return frozenset(stem for word in _WORD.findall(text) for stem in _stem_parts(word))


@lru_cache(maxsize=65_536)
def _stem_parts(word: str) -> tuple[str, ...]:
    # Made for each word, in 2 us, because threads cannot share one.
    stemmer = cast("Any", Stemmer).Stemmer("english", 0)
    parts: Iterable[str] = (part for part in split_identifier(word) if len(part) > 1)
    return tuple(stemmer.stemWords(list(parts)))
