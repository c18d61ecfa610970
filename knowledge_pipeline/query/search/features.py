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

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import Stemmer

from knowledge_pipeline.file_roles import ROLE_WORDS, classify_file
from knowledge_pipeline.identifiers import split_identifier
from knowledge_pipeline.query.search.hits import RankedChunk
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.store.index.outline_columns import OutlineFile, Outlines

FEATURES = ("fused", "coherence", "symbol", "path", "file_name", "role")
COHERENCE_WEIGHTS = (1.0, 0.7, 0.49, 0.343)
"""Of a file's best chunks: a file says less by each further one, and may have one chunk alone."""

PATH_TYPES = frozenset({"code", "markdown", "files"})
"""Types of sources whose paths people chose."""

_PACKAGE_STEMS = frozenset({"__init__", "index", "mod", "main", "lib"})  # such a file is named by its folder
_MIN_STEM_CHARS, _MAX_SUFFIX_CHARS = 4, 3  # `rout` of routing is in `router`
_SEPARATOR = re.compile(r"::|#|->|/")


def compute_features(chunks: Outlines, fused: np.ndarray, query: ParsedQuery) -> np.ndarray:
    """Features of hits, by their chunks and fused scores: float64, shape (hits, `FEATURES`)."""
    asked = _AskedWords.build(query)
    named, named_paths = (_list_ends(names) for names in (query.identifiers, query.paths))
    rows = np.zeros((len(chunks), len(FEATURES)))
    if not len(chunks):
        return rows
    rows[:, 0] = fused
    rows[:, 1] = _measure_coherence(chunks, fused)
    if named:
        pairs = ((at, name) for at, names in enumerate(chunks.symbols) for name in names)
        rows[[at for at, name in pairs if _normalize_name(name).endswith(named)], 2] = 1.0
    if named_paths:
        rows[:, 3] = chunks.mark_files(lambda file: _normalize_name(file.path).endswith(named_paths))
    of_files = np.array([_compute_path_features(file, asked) for file in chunks.files])
    rows[:, 4:] = of_files[chunks.file_numbers]
    return rows


def count_better_of_file(file_numbers: np.ndarray, order: np.ndarray) -> np.ndarray:
    """How many hits of its file each hit has before it in an order of all of them: int64."""
    numbers = file_numbers[order]
    by_file = np.argsort(numbers, kind="stable")
    grouped = numbers[by_file]
    better = np.empty(len(numbers), np.int64)
    better[order[by_file]] = np.arange(len(numbers)) - np.searchsorted(grouped, grouped)
    return better


@dataclass(frozen=True, slots=True)
class _AskedWords:
    """The words of a question, to be looked up."""

    stems: frozenset[str]
    beginnings: frozenset[str]  # of them: the stems of words that they may be made of
    forms: frozenset[str]  # both
    names_role: bool  # it asks for tests, examples or the like

    @classmethod
    def build(cls, query: ParsedQuery) -> _AskedWords:
        """The stems of all words."""
        stems = frozenset(stem for word in query.words.split() for stem in _split_stems(word))
        beginnings = frozenset(beginning for stem in stems for beginning in _iter_beginnings(stem))
        return cls(stems, beginnings, stems | beginnings, not stems.isdisjoint(_ROLE_STEMS))

    def share(self, stems: Sequence[tuple[str, frozenset[str]]]) -> float:
        """How many of some stems are its own, or begin with one or the other way round, as a share.

        `extract` is in `extractor`. Each stem comes with its forms: itself and its beginnings.
        """
        has = (stem in self.beginnings or not self.stems.isdisjoint(forms) for stem, forms in stems)
        return sum(has) / max(len(stems), 1)


def has_path(chunk: RankedChunk | OutlineFile) -> bool:
    """Whether people chose the path of a chunk or a file, as they do that of code and documentation."""
    return chunk.source_type in PATH_TYPES


def _measure_coherence(chunks: Outlines, fused: np.ndarray) -> np.ndarray:
    """For each hit the weighted sum of the best chunks of its file of code, as a share of the best sum."""
    order, numbers = np.argsort(-fused, kind="stable"), chunks.file_numbers
    better = count_better_of_file(numbers, order).clip(max=len(COHERENCE_WEIGHTS))
    weighted = np.array([*COHERENCE_WEIGHTS, 0.0])[better] * fused
    weighted *= chunks.mark_files(lambda file: file.source_type == "code")
    sums = np.bincount(numbers[order], weighted[order])  # the best first, whatever the order of the hits
    best = sums.max(initial=0.0)
    return sums[numbers] / best if best > 0 else np.zeros(len(fused))


def _compute_path_features(file: OutlineFile, asked: _AskedWords) -> tuple[float, float]:
    """`file_name` and `role`: how many of the words of its name the question has, as a share; and whether
    it is other than source code, which the question does not ask for. Without a path that people chose: 0."""
    if not has_path(file):
        return 0.0, 0.0
    name = _read_path(file.path)
    role = 0.0 if asked.names_role or name.is_source else 1.0
    return 0.0 if asked.forms.isdisjoint(name.forms) else asked.share(name.stems), role


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


def _list_ends(names: Iterable[str]) -> tuple[str, ...]:
    """What normalized names that they name end with: `get` and `Store.get` name `app.Store.get`."""
    return tuple(set(map(_normalize_name, names)))


@lru_cache(maxsize=16_384)
def _normalize_name(name: str) -> str:
    """With dots only, one before each part; letter case does not matter."""
    return "." + _SEPARATOR.sub(".", name).casefold()


@lru_cache(maxsize=16_384)
def _split_stems(word: str) -> tuple[str, ...]:
    """The stems of an identifier's words, without numbers: `routing_table2` gives rout, tabl."""
    # A stemmer is made for each word, in 2 us, because threads cannot share one.
    stemmer = cast("Any", Stemmer).Stemmer("english", 0)
    return tuple(stemmer.stemWord(part) for part in split_identifier(word) if not part.isdigit())


_ROLE_STEMS = frozenset(stem for word in ROLE_WORDS for stem in _split_stems(word))
