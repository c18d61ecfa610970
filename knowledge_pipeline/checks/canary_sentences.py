"""Chooses the words by which a chunk must be found: of its own sentences that few chunks share. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from knowledge_pipeline.identifiers import expand_identifiers
from knowledge_pipeline.query.filters import replace_invalid_characters
from knowledge_pipeline.query.search.understand import remove_stopwords

MAX_SENTENCES = 3  # of one chunk, the rarest first
MAX_WORDS = 12  # of a sentence, the rarest
_MAX_TEXT_CHARS = 8_000
_MAX_WORD_BYTES = 40  # the full-text index drops very long ones
_BOUNDARY = re.compile(r"[\n.!?;]+")


def choose_sentences(text: str, others: Iterable[str]) -> Sequence[str]:
    """At most `MAX_SENTENCES`, each as the words that full text is asked for.

    Args:
        text: of the chunk.
        others: texts of other chunks; a word of many of them tells little.

    Returns:
        None of a text without words.
    """
    uses = Counter(word for other in others for word in _list_words(other))
    sentences = {
        " ".join(_pick_rarest(piece, uses)): None for piece in _BOUNDARY.split(text[:_MAX_TEXT_CHARS])
    }
    sentences.pop("", None)
    return sorted(sentences, key=lambda words: (-_compute_rarity(words, uses), words))[:MAX_SENTENCES]


def _pick_rarest(sentence: str, uses: Counter[str]) -> list[str]:
    """Words of a sentence in their order, without the most common ones where there are many."""
    words = _list_words(sentence)
    kept = set(sorted(words, key=lambda word: (uses[word], -len(word), word))[:MAX_WORDS])
    return [word for word in words if word in kept]


def _list_words(text: str) -> list[str]:
    """Distinct words as a question has them, in their order."""
    if not text.strip():
        return []
    plain = replace_invalid_characters(text[:_MAX_TEXT_CHARS])
    words = remove_stopwords(expand_identifiers(plain)).casefold().split()
    return list(dict.fromkeys(each for each in words if _is_searchable(each)))


def _is_searchable(word: str) -> bool:
    return word.isalnum() and 1 < len(word.encode()) <= _MAX_WORD_BYTES


def _compute_rarity(words: str, uses: Counter[str]) -> float:
    return sum(1 / (1 + uses[word]) for word in words.split())
