"""BM25 as Lance computes it: what its terms are, how common they are, what a row scores. Pure.

Lance gives scores, and neither the terms nor the statistics behind them. Here they are computed again, to
the precision of its floats, so that a score can be had under other statistics.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import Stemmer

from knowledge_pipeline.writing_systems import VOWEL_SIGNS

K1, B = 1.2, 0.75  # of Lance's BM25
MAX_TERM_BYTES = 79  # a longer word is not indexed

_ASCII_WORD = re.compile(r"[^\W_]+")
_WORD = re.compile(rf"(?:[^\W_]|[{VOWEL_SIGNS}])+")


@dataclass(frozen=True)
class TermStatistics:
    """How common some terms are in an index, or in several together."""

    rows: int
    mean_terms: float  # of a row
    rows_with: Mapping[str, int]  # term -> how many rows have it

    def rarity(self, term: str) -> float:
        """What one more use of a term counts: its inverse document frequency, above 0."""
        with_term = min(self.rows_with.get(term, 0), self.rows)
        return math.log(1 + (self.rows - with_term + 0.5) / (with_term + 0.5))

    def score(self, question: Iterable[str], words: str) -> float:
        """BM25 of a row's words; a term that the question has twice counts twice.

        Source: Robertson & Zaragoza 2009, section 3.
        """
        counts = Counter(split_terms(words))
        length = counts.total()
        used = (term for term in question if counts[term])
        return math.fsum(self.rarity(term) * self.saturate(counts[term], length) for term in used)

    def saturate(self, count: int, length: int) -> float:
        """What `count` uses of a term count in a row of `length` terms, between 0 and K1 + 1."""
        return count * (K1 + 1) / (count + K1 * (1 - B + B * length / self.mean_terms))


def unite_statistics(several: Sequence[TermStatistics]) -> TermStatistics:
    """The statistics of several indexes as one: exactly those of an index with all their rows."""
    rows = sum(each.rows for each in several)
    terms = math.fsum(each.rows * each.mean_terms for each in several)
    rows_with: Counter[str] = Counter()
    for each in several:
        rows_with.update(each.rows_with)
    return TermStatistics(rows, max(terms / max(rows, 1), 1.0), rows_with)


def count_terms(words: Iterable[str], questions: Iterable[str]) -> TermStatistics:
    """Statistics of the terms of some questions over the words of all rows of an index."""
    asked = {term for question in questions for term in split_terms(question)}
    rows, terms = 0, 0
    rows_with: Counter[str] = Counter()
    for each in words:
        found = split_terms(each)
        rows, terms = rows + 1, terms + len(found)
        rows_with.update(asked.intersection(found))
    return TermStatistics(rows, max(terms / max(rows, 1), 1.0), rows_with)


def split_words(text: str) -> list[str]:
    """The words of a text that full text looks at, in lower case."""
    words = _ASCII_WORD.findall(text.lower()) if text.isascii() else map(str.lower, _WORD.findall(text))
    return [word for word in words if len(word.encode()) <= MAX_TERM_BYTES]


def split_terms(text: str) -> list[str]:
    """The terms that full text finds in words: lower case, by their stems, Latin letters without accents."""
    return list(map(to_term, split_words(text)))


@lru_cache(maxsize=200_000)
def to_term(word: str) -> str:
    """The term of a word in lower case.

    Lance writes a few letters that have no accent as two plain ones as well; those stay here.
    """
    # A stemmer is made for each word, in 2 us, because threads cannot share one.
    stem = cast("Any", Stemmer).Stemmer("english", 0).stemWord(word)
    if stem.isascii():
        return stem
    return "".join(map(_remove_accents, stem))


def _remove_accents(letter: str) -> str:
    """A Latin letter without accents; others keep theirs, as in Lance."""
    parts = unicodedata.normalize("NFKD", letter)
    plain = "".join(part for part in parts if not unicodedata.combining(part))
    return plain if plain.isascii() else letter
