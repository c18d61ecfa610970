"""What the text of a candidate says about a question, as numbers between 0 and 1. Pure.

    feature        is high where
    heading        the question has the words of its heading: of a section, a definition, a commit's subject
    nearest_words  the words of the question, or some of nearly their meaning, stand in its text or around it
    word_pairs     two words that follow each other in the question do so in its text
    asked_recency  the question asks for what is new, and the candidate is of history, and new

Only the best candidates are read, so a candidate that was not has none of these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

import numpy as np

from knowledge_pipeline.embedding.word_vectors import WordVectors
from knowledge_pipeline.query.search.features import split_parts, stem
from knowledge_pipeline.query.search.hits import IndexedChunk
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.times import parse_time

TEXT_FEATURES = ("heading", "nearest_words", "word_pairs", "asked_recency")

_MAX_CHARS = 4_000  # of a text that are read
_MAX_QUERY_WORDS = 40  # words of a question that are compared: of a long one, the first
_MIN_COSINE = 0.35  # words below are unrelated
_HALF_LIFE_DAYS = 180.0
_ONE_THREAD_PRODUCTS = (
    262_144  # multiplications of a product of matrices, up to which OpenBLAS takes one thread
)
_WORD = re.compile(r"[^\W_]\w*")
_ASKS_FOR_NEW = re.compile(r"\b(recent(ly)?|last|latest|newest|lately)\b", re.I)
_HISTORY = frozenset({"git_history", "github_pr"})
_FUNCTION_WORD_LIST = """
    a about an and any are as at be by can do does for from get gets had has have how i if in into is it its
    me my not of on one or our should so than that the their there they this to us use used using was we were
    what when where which who why will with would you your
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())


def compute_text_features(
    chunks: Sequence[IndexedChunk], query: ParsedQuery, vectors: WordVectors
) -> np.ndarray:
    """Features of the texts of some candidates: float64, shape (chunks, `TEXT_FEATURES`)."""
    rows = np.zeros((len(chunks), len(TEXT_FEATURES)))
    query_words = _list_parts(query.text)[:_MAX_QUERY_WORDS]
    if not query_words or not chunks:
        return rows
    stems = list(map(stem, query_words))
    texts = [_read_words(chunk.text[:_MAX_CHARS]) for chunk in chunks]
    around = [_read_words(f"{chunk.header} {chunk.path}") for chunk in chunks]
    words = [text | other for text, other in zip(texts, around, strict=True)]
    rows[:, 0] = [_share_asked(_read_heading(chunk), frozenset(stems)) for chunk in chunks]
    rows[:, 1] = _measure_nearest_words(list(dict.fromkeys(query_words)), words, vectors)
    rows[:, 2] = _measure_pairs(stems, chunks, texts)
    if _ASKS_FOR_NEW.search(query.text):
        rows[:, 3] = _measure_recency(chunks)
    return rows


@lru_cache(maxsize=2_048)
def _read_words(text: str) -> frozenset[str]:
    """The lower-case words of a text, those of identifiers apart."""
    return frozenset(part for word in set(_WORD.findall(text)) for part in split_parts(word))


def _read_trail(chunk: IndexedChunk) -> str:
    """The part of a header below the path: headings, or a signature."""
    return chunk.header.partition("\n")[2]


def _read_heading(chunk: IndexedChunk) -> str:
    """The innermost heading: of a section or a definition; of a commit its subject, else the title."""
    if chunk.source_type not in _HISTORY and (trail := _read_trail(chunk)):
        return trail.rpartition("\n")[2].rpartition(">")[2]
    return chunk.title or ""


def _share_asked(heading: str, stems: frozenset[str]) -> float:
    """How many of a heading's words the question has, as a share."""
    own = _stem_all(_read_words(heading))
    return len(own & stems) / len(own) if own else 0.0


@lru_cache(maxsize=4_096)
def _stem_all(words: frozenset[str]) -> frozenset[str]:
    return frozenset(map(stem, words))


def _measure_nearest_words(
    query_words: Sequence[str], words: Sequence[frozenset[str]], vectors: WordVectors
) -> np.ndarray:
    """How near each text comes to the words that are asked, at the mean: rare words count for more.

    A word counts by the number of its pieces, which is larger where it is rare.
    """
    numbers = {word: at for at, word in enumerate(dict.fromkeys(word for own in words for word in own))}
    if not numbers:
        return np.zeros(len(words))
    cosines = _multiply(vectors.look_up(query_words), vectors.look_up(list(numbers)))
    nearness = np.zeros((len(query_words), len(numbers) + 1))  # the last column: of a text without words
    nearness[:, :-1] = ((cosines - _MIN_COSINE) / (1 - _MIN_COSINE)).clip(0.0, 1.0)
    flat = [number for own in words for number in (*map(numbers.__getitem__, own), len(numbers))]
    starts = np.cumsum([0, *(len(own) + 1 for own in words)])[:-1]
    nearest = np.maximum.reduceat(nearness[:, flat], starts, axis=1)
    weights = np.array([vectors.count_pieces(word) for word in query_words], np.float64)
    return weights @ nearest / weights.sum()


def _multiply(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The products of each row with each column, in blocks that OpenBLAS leaves to one thread.

    Threads of its own would go on spinning for longer than the whole question takes.
    """
    block = max(1, _ONE_THREAD_PRODUCTS // max(1, rows.size))
    return np.hstack([rows @ columns[at : at + block].T for at in range(0, len(columns), block)])


def _measure_pairs(
    query_stems: Sequence[str], chunks: Sequence[IndexedChunk], texts: Sequence[frozenset[str]]
) -> list[float]:
    """Which share of the pairs of stems that follow each other in the question do so in each text."""
    pairs = set(pairwise(query_stems))
    shares = [0.0] * len(chunks)
    for at, (chunk, words) in enumerate(zip(chunks, texts, strict=True)):
        own = _stem_all(words)
        if any(first in own and second in own for first, second in pairs):
            text_pairs = set(pairwise(map(stem, _list_parts(chunk.text[:_MAX_CHARS]))))
            shares[at] = len(pairs & text_pairs) / len(pairs)
    return shares


@lru_cache(maxsize=1_024)
def _list_parts(text: str) -> tuple[str, ...]:
    """The lower-case words of a text in their order, without those that say how it is said."""
    parts = (part for word in _WORD.findall(text) for part in split_parts(word))
    return tuple(part for part in parts if part not in _FUNCTION_WORDS)


def _measure_recency(chunks: Sequence[IndexedChunk]) -> list[float]:
    """Of history how new it is, against the newest: half for each half year; 0 of everything else."""
    days: list[float | None] = []
    for chunk in chunks:
        moment = chunk.metadata.get("last_modified") if chunk.source_type in _HISTORY else None
        days.append(_to_days(parse_time(moment)) if isinstance(moment, str) else None)
    newest = max((day for day in days if day is not None), default=0.0)
    return [0.0 if day is None else 0.5 ** ((newest - day) / _HALF_LIFE_DAYS) for day in days]


def _to_days(moment: datetime | None) -> float | None:
    return moment.timestamp() / 86_400 if moment else None
