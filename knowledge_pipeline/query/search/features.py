"""What the searches, the file and the question say about a candidate, as numbers. Pure.

    feature          is high where
    fused            the searches found the candidate better than others of its family (fuse.py)
    similarity       its vector is nearer to the question's than those of others of its family
    family_nearness  the nearest of its family is nearer than that of the other families, at the mean
    coherence        they found other chunks of its document good as well
    symbol           the question names a definition in it, as code is written: `Store.get`
    path             the question names its file: `auth.py`
    file_name        the question has all words of the file's name
    test, …          the file is for something else than source code or documentation, and not asked for
    code, …          it is of that family of sources
    uncompared_code, …  it is of that family, of which nothing was compared by its vector
    howto_code, …    the question is of a kind, and the candidate of a family

Families are code, documentation, history and discussion. Similarities of two models do not compare, nor do
scores of code and prose, so `fused` and `similarity` say how far above the mean of its own family a
candidate is. A family that the ranker was not trained with counts as the mean of those that it was.
(docs/decisions/ranking.md)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import Stemmer

from knowledge_pipeline.file_roles import ROLE_WORDS, find_side_role
from knowledge_pipeline.identifiers import split_identifier
from knowledge_pipeline.query.search.hits import RankedChunk
from knowledge_pipeline.query.search.understand import QUESTION_KINDS, ParsedQuery, list_kinds
from knowledge_pipeline.store.index.outline_columns import OutlineFile, Outlines

TRAINED_FAMILIES = ("code", "documentation", "history", "discussion")
_FAMILIES: Mapping[str, str] = {
    "code": "code",
    **dict.fromkeys(("markdown", "openapi", "confluence", "files", "archive", "push"), "documentation"),
    **dict.fromkeys(("git_history", "github_pr"), "history"),
    **dict.fromkeys(("github_issues", "jira", "slack"), "discussion"),
}
UNCOMPARED = "uncompared"
FEATURES = (
    *("fused", "similarity", "family_nearness", "coherence", "symbol", "path", "file_name"),
    *ROLE_WORDS,
    *TRAINED_FAMILIES,
    *(f"{UNCOMPARED}_{family}" for family in TRAINED_FAMILIES),
    *(f"{kind}_{family}" for kind in QUESTION_KINDS for family in TRAINED_FAMILIES),
)
"""Of a candidate, without its text."""

COHERENCE_WEIGHTS = (1.0, 0.7, 0.49, 0.343)
"""Of a document's best chunks: it says less by each further one, and may have one chunk alone."""

PATH_TYPES = frozenset({"code", "markdown", "files"})
"""Types of sources whose paths people chose."""

_PACKAGE_STEMS = frozenset({"__init__", "index", "mod", "main", "lib"})  # such a file is named by its folder
_NAME_SUFFIXES = frozenset({"d", "test", "spec", "min"})  # `cart.d.ts`: of what kind a file is, not its name
_MIN_STEM_CHARS, _MAX_SUFFIX_CHARS = 4, 3  # `rout` of routing is in `router`
_OTHER_CASE = 0.7  # of a name that the question writes in other letters: `session` for `Session`
_MAX_DEVIATIONS, _MIN_DEVIATIONS = 4.0, -1.0  # from the mean of a family, in standard deviations
_MIN_SPREAD = 0.02  # of scores: what differs by less is hardly different
_MIN_COHERENCE = 0.25  # of the best document: below, no document stands out
_MAX_ABOVE_FAMILIES = 0.25
_MIN_FAMILY = 3  # candidates, to have a mean of their own
_SEPARATOR = re.compile(r"::|#|->|/")


def compute_features(
    chunks: Outlines, fused: np.ndarray, similarities: np.ndarray, query: ParsedQuery
) -> np.ndarray:
    """Features of candidates: float64, shape (candidates, `FEATURES`), each in [-0.25, 1].

    Args:
        chunks: the candidates.
        fused: the score of each by all searches.
        similarities: of each to the question; not finite where it has none.
    """
    rows = np.zeros((len(chunks), len(FEATURES)))
    if not len(chunks):
        return rows
    columns = {name: rows[:, at] for at, name in enumerate(FEATURES)}
    question = _QuestionWords.build(query)
    families = np.array(list(map(_find_family, chunks.files)))
    of_rows = families[chunks.file_numbers]
    columns["fused"][:] = _scale_by_family(fused, of_rows)
    columns["similarity"][:] = _scale_by_family(similarities, of_rows)
    columns["family_nearness"][:] = _compare_families(similarities, of_rows)
    columns["coherence"][:] = _measure_coherence(chunks, columns["fused"])
    _mark_named(columns, chunks, query)
    for name, values in _read_files(chunks.files, question).items():
        columns[name][:] = values[chunks.file_numbers]
    kinds = list_kinds(query.text)
    is_uncompared = ~np.isin(of_rows, of_rows[np.isfinite(similarities)])
    for family in TRAINED_FAMILIES:
        shares = np.where(families == family, 1.0, 0.0)
        shares[~np.isin(families, TRAINED_FAMILIES)] = 1 / len(TRAINED_FAMILIES)
        for name in (family, *(f"{kind}_{family}" for kind in kinds)):
            columns[name][:] = shares[chunks.file_numbers]
        columns[f"{UNCOMPARED}_{family}"][:] = np.where(is_uncompared, columns[family], 0.0)
    return rows


def has_several_families(chunks: Outlines) -> bool:
    """Whether candidates are of more than one family of sources."""
    return len(set(map(_find_family, chunks.files))) > 1


def _find_family(file: OutlineFile) -> str:
    return _FAMILIES.get(file.source_type, "other")


def count_better_of_file(file_numbers: np.ndarray, order: np.ndarray) -> np.ndarray:
    """How many hits of its file each hit has before it in an order of all of them: int64."""
    numbers = file_numbers[order]
    by_file = np.argsort(numbers, kind="stable")
    grouped = numbers[by_file]
    better = np.empty(len(numbers), np.int64)
    better[order[by_file]] = np.arange(len(numbers)) - np.searchsorted(grouped, grouped)
    return better


def split_stems(word: str) -> tuple[str, ...]:
    """The stems of an identifier's words, without numbers: `routing_table2` gives rout, tabl."""
    return tuple(map(stem, split_parts(word)))


@lru_cache(maxsize=65_536)
def split_parts(word: str) -> tuple[str, ...]:
    """The lower-case words of an identifier, without numbers."""
    return tuple(part for part in split_identifier(word) if not part.isdigit())


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """What the forms of an English word have in common."""
    # A stemmer is made for each word, in 2 us, because threads cannot share one.
    return cast("Any", Stemmer).Stemmer("english", 0).stemWord(word)


def has_path(chunk: RankedChunk | OutlineFile) -> bool:
    """Whether people chose the path of a chunk or a file, as they do that of code and documentation."""
    return chunk.source_type in PATH_TYPES


def _scale_by_family(values: np.ndarray, families: np.ndarray) -> np.ndarray:
    """How far each value is above the mean of its family, in quarters of four standard deviations.

    A family of fewer than three counts by the mean of all. Values that are not finite give 0.
    """
    scaled, finite = np.zeros(len(values)), np.isfinite(values)
    _scale_into(scaled, values, finite)
    for family in dict.fromkeys(families.tolist()):
        own = finite & (families == family)
        if own.sum() >= _MIN_FAMILY:
            _scale_into(scaled, values, own)
    return scaled


def _scale_into(scaled: np.ndarray, values: np.ndarray, own: np.ndarray) -> None:
    if own.any():
        of_own = values[own]
        in_order = np.sort(of_own)  # so that a sum does not depend on the order of the candidates
        deviations = (of_own - in_order.mean()) / max(float(in_order.std()), _MIN_SPREAD)
        scaled[own] = deviations.clip(_MIN_DEVIATIONS, _MAX_DEVIATIONS) / _MAX_DEVIATIONS


def _compare_families(similarities: np.ndarray, families: np.ndarray) -> np.ndarray:
    """How far the largest similarity of each row's family is above the mean of those of all families.

    0 in a family that was not compared.
    """
    finite = np.isfinite(similarities)
    names, numbers = np.unique(families, return_inverse=True)
    nearest = np.full(len(names), -np.inf)
    np.maximum.at(nearest, numbers[finite], similarities[finite])
    compared = np.isfinite(nearest)
    above = np.where(compared, nearest - nearest[compared].mean() if compared.any() else 0.0, 0.0)
    return above.clip(-_MAX_ABOVE_FAMILIES, _MAX_ABOVE_FAMILIES)[numbers]


def _measure_coherence(chunks: Outlines, fused: np.ndarray) -> np.ndarray:
    """For each candidate the weighted sum of its document's best chunks, as a share of the best sum."""
    order, numbers = np.argsort(-fused, kind="stable"), chunks.file_numbers
    better = count_better_of_file(numbers, order).clip(max=len(COHERENCE_WEIGHTS))
    weighted = np.array([*COHERENCE_WEIGHTS, 0.0])[better] * fused.clip(min=0.0)
    sums = np.bincount(numbers[order], weighted[order])  # the best first, whatever the order of the hits
    return sums[numbers] / sums.max(initial=_MIN_COHERENCE)


def _mark_named(columns: Mapping[str, np.ndarray], chunks: Outlines, query: ParsedQuery) -> None:
    """`symbol` and `path`: what the question names as it is written."""
    if ends := _list_ends(query.identifiers):
        exact = tuple(_to_dotted(name) for name in query.identifiers)
        for at, names in enumerate(chunks.symbols):
            if any(_normalize_name(name).endswith(ends) for name in names):
                is_exact = any(_to_dotted(name).endswith(exact) for name in names)
                columns["symbol"][at] = 1.0 if is_exact else _OTHER_CASE
    if paths := _list_ends(query.paths):
        columns["path"][:] = chunks.mark_files(lambda file: _normalize_name(file.path).endswith(paths))


@dataclass(frozen=True, slots=True)
class _QuestionWords:
    """The words of a question, to be looked up."""

    stems: frozenset[str]
    beginnings: frozenset[str]  # of them: the stems of words that they may be made of
    roles: frozenset[str]  # of files, that it asks for

    @classmethod
    def build(cls, query: ParsedQuery) -> _QuestionWords:
        """The stems of all words."""
        stems = frozenset(stem for word in query.words.split() for stem in split_stems(word))
        beginnings = frozenset(beginning for stem in stems for beginning in _iter_beginnings(stem))
        roles = (role for role, words in _ROLE_STEMS.items() if not stems.isdisjoint(words))
        return cls(stems, beginnings, frozenset(roles))

    def has(self, name: tuple[str, frozenset[str]]) -> bool:
        """Whether a stem is its own, or begins with one or the other way round: `extract`, `extractor`.

        The stem comes with its forms: itself and its beginnings.
        """
        stem, forms = name
        return stem in self.beginnings or not self.stems.isdisjoint(forms)


def _read_files(files: Sequence[OutlineFile], question: _QuestionWords) -> dict[str, np.ndarray]:
    """`file_name`, and whether a file has a role that the question does not ask for; by file."""
    columns = {name: np.zeros(len(files)) for name in ("file_name", *ROLE_WORDS)}
    for at, file in enumerate(files):
        if not has_path(file):
            continue
        name = _read_path(file.path, file.source)
        columns["file_name"][at] = bool(name.stems) and all(map(question.has, name.stems))
        if name.role and name.role not in question.roles:
            columns[name.role][at] = 1.0
    return columns


class _FileName(NamedTuple):
    """What the name of a file says."""

    stems: Sequence[tuple[str, frozenset[str]]]  # of its words, each with its forms for `_QuestionWords.has`
    role: str | None  # see `SideRole`


@lru_cache(maxsize=16_384)
def _read_path(path: str, source: str) -> _FileName:
    """The name of a file, or of its folder for the file of a package, without the name of its repository."""
    *folders, name = path.split("/")
    *stem_parts, _ = name.split(".") if "." in name else (name, "")
    stem = ".".join(part for part in stem_parts if part not in _NAME_SUFFIXES) or name
    if stem in _PACKAGE_STEMS and folders:
        stem = folders.pop()
    repository = frozenset(split_stems(source))
    stems = (part for part in split_stems(stem) if part not in repository)
    return _FileName(
        tuple((part, frozenset((part, *_iter_beginnings(part)))) for part in stems), find_side_role(path)
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
    """As `_to_dotted`; letter case does not matter."""
    return _to_dotted(name).casefold()


def _to_dotted(name: str) -> str:
    """With dots only, one before each part."""
    return "." + _SEPARATOR.sub(".", name)


_ROLE_STEMS = {
    role: frozenset(stem for word in words for stem in split_stems(word))
    for role, words in ROLE_WORDS.items()
}
