"""Ranks hits by their files: what a file is called, what it is for, what else of it was found. Pure.

A file that is named after what is asked rises. Tests, examples and generated code fall, unless the question
asks for such. Each further chunk of a file counts for less, so that one file does not crowd out the others.
Only code and documentation have paths that people chose; hits of other sources stay as they are.
(docs/decisions/0030-file-signals.md)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import Stemmer

from knowledge_pipeline.file_roles import ROLE_WORDS, classify_file
from knowledge_pipeline.identifiers import split_identifier
from knowledge_pipeline.query.search.hits import Hit

NAME_BOOST = 0.1  # for a chunk of a file whose whole name the question contains
FOLDER_BOOST = 0.03  # the same, of its folder
ROLE_FACTOR = 0.7  # of the score of a test, an example, or generated code
REPEAT_FACTOR = 0.95  # of the score of each further chunk of a file

_SOURCE_TYPES = frozenset({"code", "markdown", "files"})
_PACKAGE_STEMS = frozenset({"__init__", "index", "mod", "main", "lib"})  # such a file is named by its folder


def apply_file_signals(hits: Sequence[Hit], words: str) -> list[Hit]:
    """Hits, best first, with their files taken into account; scores stay in [0, 1].

    Args:
        hits: best first.
        words: of the question, without stopwords, identifiers split.
    """
    asked = frozenset(_stem(part) for word in words.split() for part in split_identifier(word))
    has_role = not asked.isdisjoint(map(_stem, ROLE_WORDS))
    boosts = {hit.chunk.path: _compute_name_boosts(hit.chunk.path, asked) for hit in hits if _has_path(hit)}
    max_boost = max((sum(each.values()) for each in boosts.values()), default=0.0)
    boosted: list[Hit] = []
    for hit in hits:
        found = boosts[hit.chunk.path] if _has_path(hit) else {}
        named = hit.with_boost(sum(found.values()), max_boost=max_boost, explained_as=found)
        is_other = _has_path(hit) and not has_role and classify_file(hit.chunk.path) != "source"
        boosted.append(_scale(named, ROLE_FACTOR, "file_role") if is_other else named)
    return _scale_repeats(sorted(boosted, key=lambda hit: hit.rank_key))


def _scale_repeats(hits: Iterable[Hit]) -> list[Hit]:
    seen: Counter[tuple[str, str]] = Counter()
    scaled: list[Hit] = []
    for hit in hits:
        file = hit.chunk.source, hit.chunk.path
        repeats = seen[file] if _has_path(hit) else 0
        scaled.append(_scale(hit, REPEAT_FACTOR**repeats, "same_file") if repeats else hit)
        seen[file] += 1
    return sorted(scaled, key=lambda hit: hit.rank_key)


def _scale(hit: Hit, factor: float, reason: str) -> Hit:
    change = hit.score * (factor - 1)
    return hit.with_boost(change, max_boost=0.0, explained_as={reason: change})


def _has_path(hit: Hit) -> bool:
    return hit.chunk.metadata.get("source_type") in _SOURCE_TYPES


def _compute_name_boosts(path: str, asked: frozenset[str]) -> dict[str, float]:
    *folders, name = path.split("/")
    stem = name.partition(".")[0] or name
    if stem in _PACKAGE_STEMS and folders:
        stem = folders.pop()
    boosts = {"file_name": NAME_BOOST * _share_asked(stem, asked)}
    boosts["folder"] = FOLDER_BOOST * _share_asked(folders[-1], asked) if folders else 0.0
    return {reason: boost for reason, boost in boosts.items() if boost}


def _share_asked(name: str, asked: frozenset[str]) -> float:
    """How many of a name's words the question has, as a share."""
    words = [_stem(word) for word in split_identifier(name) if not word.isdigit()]
    return sum(word in asked for word in words) / max(len(words), 1)


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    """`routing` and `routes` are both `rout`."""
    # Made for each word, in 2 us, because threads cannot share one.
    return cast("Any", Stemmer).Stemmer("english", 0).stemWord(word.lower())
