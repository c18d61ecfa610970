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

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import Any, NamedTuple, cast

import numpy as np
import Stemmer

from knowledge_pipeline.file_roles import ROLE_WORDS, classify_file
from knowledge_pipeline.identifiers import split_identifier
from knowledge_pipeline.query.search.hits import RankedChunk
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.store.index.outline_columns import Outlines

FEATURES = ("fused", "coherence", "symbol", "path", "file_name", "role")
COHERENCE_WEIGHTS = (1.0, 0.7, 0.49, 0.343)
"""Of a file's best chunks: a file says less by each further one, and may have one chunk alone."""

PATH_TYPES = frozenset({"code", "markdown", "files"})
"""Types of sources whose paths people chose."""

_PACKAGE_STEMS = frozenset({"__init__", "index", "mod", "main", "lib"})  # such a file is named by its folder
_MIN_STEM_CHARS, _MAX_SUFFIX_CHARS = 4, 3  # `rout` of routing is in `router`
_SEPARATOR = re.compile(r"::|#|->|/")

FileKey = tuple[str, str]
"""Source and path."""


def compute_features(chunks: Outlines, fused: Sequence[float], query: ParsedQuery) -> np.ndarray:
    """Features of hits, by their chunks and fused scores: float64, shape (hits, `FEATURES`)."""
    asked = _AskedWords.build(query)
    named, named_paths = (set(map(_normalize_name, names)) for names in (query.identifiers, query.paths))
    types = chunks.source_types
    paths = list_chosen_paths(chunks)
    of_paths = {path: _compute_path_features(path, asked) for path in set(paths)}
    rows = np.zeros((len(chunks), len(FEATURES)))
    if not len(chunks):
        return rows
    rows[:, 0] = fused
    rows[:, 1] = _measure_coherence(list(zip(chunks.sources, chunks.paths, strict=True)), types, fused)
    if named:
        rows[:, 2] = [not named.isdisjoint(_list_endings(symbols)) for symbols in chunks.symbols]
    if named_paths:
        rows[:, 3] = [not named_paths.isdisjoint(_list_endings((path,))) for path in chunks.paths]
    rows[:, 4:] = [of_paths[path] for path in paths]
    return rows


def list_chosen_paths(chunks: Outlines) -> list[str | None]:
    """The path of each chunk; None where people did not choose it."""
    types = zip(chunks.paths, chunks.source_types, strict=True)
    return [path if type_ in PATH_TYPES else None for path, type_ in types]


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

    def share(self, stems: Sequence[tuple[str, frozenset[str]]]) -> float:
        """How many of some stems are its own, or begin with one or the other way round, as a share.

        `extract` is in `extractor`. Each stem comes with its forms: itself and its beginnings.
        """
        has = (stem in self.beginnings or not self.stems.isdisjoint(forms) for stem, forms in stems)
        return sum(has) / max(len(stems), 1)


def has_path(chunk: RankedChunk) -> bool:
    """Whether people chose the chunk's path, as they do that of code and documentation."""
    return chunk.source_type in PATH_TYPES


def _measure_coherence(
    files: Sequence[FileKey], types: Sequence[str], fused: Sequence[float]
) -> Sequence[float]:
    """For each hit the weighted sum of the best chunks of its file of code, as a share of the best sum."""
    scores: defaultdict[FileKey, list[float]] = defaultdict(list)
    for file, type_, score in zip(files, types, fused, strict=True):
        if type_ == "code":
            scores[file].append(score)
    sums = {
        file: math.fsum(map(mul, COHERENCE_WEIGHTS, sorted(found, reverse=True)))
        for file, found in scores.items()
    }
    best = max(sums.values(), default=0.0)
    if best <= 0:
        return [0.0] * len(files)
    shares = {file: found / best for file, found in sums.items()}
    return [shares[file] if type_ == "code" else 0.0 for file, type_ in zip(files, types, strict=True)]


def _compute_path_features(path: str | None, asked: _AskedWords) -> tuple[float, float]:
    """`file_name` and `role`: how many of the words of its name the question has, as a share; and whether
    it is other than source code, which the question does not ask for. Without a path that people chose: 0."""
    if path is None:
        return 0.0, 0.0
    file = _read_path(path)
    is_asked = not (asked.stems.isdisjoint(file.forms) and asked.beginnings.isdisjoint(file.forms))
    return asked.share(file.stems) if is_asked else 0.0, float(not (asked.names_role or file.is_source))


class _FileName(NamedTuple):
    """What the name of a file says."""

    stems: Sequence[tuple[str, frozenset[str]]]  # of its words, each with its forms for `_AskedWords.share`
    forms: frozenset[str]  # of all
    is_source: bool  # it is source code


@lru_cache(maxsize=16_384)
def _read_path(path: str) -> _FileName:
    """The name of a file, or of its folder for the file of a package."""
    *folders, name = path.split("/")
    stem = name.partition(".")[0] or name
    if stem in _PACKAGE_STEMS and folders:
        stem = folders.pop()
    stems = tuple((each, frozenset((each, *_iter_beginnings(each)))) for each in _split_stems(stem))
    return _FileName(
        stems, frozenset().union(*(forms for _, forms in stems)), classify_file(path) == "source"
    )


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
