"""What a hit and its file say about a question, as numbers between 0 and 1. Pure.

    feature      is high where
    fused        the searches found the hit good (fuse.py)
    coherence    they found other chunks of its file of code good as well
    symbol       the question names a definition in it, as code is written: `Store.get`
    path         the question names its file: `auth.py`
    file_name    the question has the words of the file's name
    role         the file is a test, an example or generated, and the question asks for no such

Only code and documentation have paths that people chose: the last two are 0 for other source types.
(docs/decisions/0034-learned-ranking.md)
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import Stemmer

from knowledge_pipeline.file_roles import ROLE_WORDS, classify_file
from knowledge_pipeline.identifiers import split_identifier
from knowledge_pipeline.query.search.hits import Hit, RankedChunk
from knowledge_pipeline.query.search.understand import ParsedQuery

FEATURES = ("fused", "coherence", "symbol", "path", "file_name", "role")
COHERENT_CHUNKS = 4  # of a file: its best ones count

_PATH_TYPES = frozenset({"code", "markdown", "files"})
_PACKAGE_STEMS = frozenset({"__init__", "index", "mod", "main", "lib"})  # such a file is named by its folder
_MIN_STEM_CHARS, _MAX_SUFFIX_CHARS = 4, 3  # `rout` of routing is in `router`
_SEPARATOR = re.compile(r"::|#|->|/")

FileKey = tuple[str, str]
"""Source and path."""


def compute_features(hits: Sequence[Hit[RankedChunk]], query: ParsedQuery) -> np.ndarray:
    """Features of hits in their order: float64, shape (hits, `FEATURES`)."""
    asked = _AskedWords.build(query)
    named, named_paths = (set(map(_normalize_name, names)) for names in (query.identifiers, query.paths))
    coherence = _measure_coherence(hits)
    files = {get_file(hit.chunk) for hit in hits if has_path(hit.chunk)}
    of_files = {file: _compute_path_features(file[1], asked) for file in files}
    rows: list[tuple[float, ...]] = []
    for hit in hits:
        chunk, key = hit.chunk, get_file(hit.chunk)
        rows.append(
            (
                hit.explanation.fused,
                coherence.get(key, 0.0) if _is_code(chunk) else 0.0,
                bool(named) and not named.isdisjoint(_list_endings(chunk.symbols)),
                bool(named_paths) and not named_paths.isdisjoint(_list_endings((chunk.path,))),
                *of_files.get(key, (0.0, 0.0)),
            )
        )
    return np.array(rows, np.float64).reshape(len(hits), len(FEATURES))


@dataclass(frozen=True, slots=True)
class _AskedWords:
    """The words of a question, to be looked up."""

    stems: frozenset[str]
    beginnings: frozenset[str]  # of them: the stems of words that they may be made of
    names_role: bool  # it asks for tests, examples or the like

    @classmethod
    def build(cls, query: ParsedQuery) -> _AskedWords:
        """The stems of all words."""
        stems = frozenset(stem for word in query.words.split() for stem in _split_stems(word))
        beginnings = frozenset(beginning for stem in stems for beginning in _iter_beginnings(stem))
        return cls(stems, beginnings, not stems.isdisjoint(_ROLE_STEMS))

    def has(self, stem: str) -> bool:
        """Whether one is the stem, or begins with it, or the other way round: `extract`, `extractor`."""
        if stem in self.stems or stem in self.beginnings:
            return True
        return any(beginning in self.stems for beginning in _iter_beginnings(stem))


def get_file(chunk: RankedChunk) -> FileKey:
    """What tells one file from another."""
    return chunk.source, chunk.path


def has_path(chunk: RankedChunk) -> bool:
    """Whether people chose the chunk's path, as they do that of code and documentation."""
    return chunk.source_type in _PATH_TYPES


def _is_code(chunk: RankedChunk) -> bool:
    return chunk.source_type == "code"


def _measure_coherence(hits: Sequence[Hit[RankedChunk]]) -> Mapping[FileKey, float]:
    """The sum of the best chunks of each file of code, as a share of the best sum."""
    scores: defaultdict[FileKey, list[float]] = defaultdict(list)
    for hit in hits:
        if _is_code(hit.chunk):
            scores[get_file(hit.chunk)].append(hit.explanation.fused)
    sums = {file: math.fsum(heapq.nlargest(COHERENT_CHUNKS, found)) for file, found in scores.items()}
    best = max(sums.values(), default=0.0)
    return {file: found / best for file, found in sums.items()} if best > 0 else {}


def _compute_path_features(path: str, asked: _AskedWords) -> tuple[float, float]:
    """`file_name` and `role`: how many of the words of its name the question has, as a share; and whether
    it is other than source code, which the question does not ask for."""
    stems, is_source = _read_path(path)
    share = sum(map(asked.has, stems)) / max(len(stems), 1)
    return share, float(not asked.names_role and not is_source)


@lru_cache(maxsize=16_384)
def _read_path(path: str) -> tuple[tuple[str, ...], bool]:
    """The stems of a file's name, or of its folder's for the file of a package; whether it is source code."""
    *folders, name = path.split("/")
    stem = name.partition(".")[0] or name
    if stem in _PACKAGE_STEMS and folders:
        stem = folders.pop()
    return _split_stems(stem), classify_file(path) == "source"


def _iter_beginnings(word: str) -> Iterator[str]:
    """The word without its last letters, as far as enough are left."""
    for end in range(max(_MIN_STEM_CHARS, len(word) - _MAX_SUFFIX_CHARS), len(word)):
        yield word[:end]


@lru_cache(maxsize=16_384)
def _list_endings(names: tuple[str, ...]) -> frozenset[str]:
    """What names any of them: `get` and `Store.get` both name `app.Store.get`."""
    parts = (_normalize_name(name).split(".") for name in names)
    return frozenset(".".join(each[start:]) for each in parts for start in range(len(each)))


def _normalize_name(name: str) -> str:
    """With dots only; letter case does not matter."""
    return _SEPARATOR.sub(".", name).casefold()


@lru_cache(maxsize=16_384)
def _split_stems(word: str) -> tuple[str, ...]:
    """The stems of an identifier's words, without numbers: `routing_table2` gives rout, tabl."""
    # A stemmer is made for each word, in 2 us, because threads cannot share one.
    stemmer = cast("Any", Stemmer).Stemmer("english", 0)
    return tuple(stemmer.stemWord(part) for part in split_identifier(word) if not part.isdigit())


_ROLE_STEMS = frozenset(stem for word in ROLE_WORDS for stem in _split_stems(word))
