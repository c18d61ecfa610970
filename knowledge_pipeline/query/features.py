"""What the searches, the file and the question say about a candidate, as numbers. Pure.

    feature          is high where
    fused            the searches found the candidate better than others of its family
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
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, filterfalse, pairwise

import numpy as np

from knowledge_pipeline.embedding.word_vectors import WordVectors
from knowledge_pipeline.file_languages import ROLE_WORDS, find_side_role
from knowledge_pipeline.query.hits import IndexedChunk
from knowledge_pipeline.query.plan import QUESTION_KINDS, ParsedQuery, list_kinds
from knowledge_pipeline.store.fragments import OutlineFile, Outlines
from knowledge_pipeline.times import parse_time
from knowledge_pipeline.words import read_words, split_stems, split_words, stem, stem_all

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
    families = np.array([_FAMILIES.get(file.source_type, "other") for file in chunks.files])
    of_rows = families[chunks.file_numbers]
    columns["fused"][:] = _scale_by_family(fused, of_rows)
    columns["similarity"][:] = _scale_by_family(similarities, of_rows)
    columns["family_nearness"][:] = _compare_families(similarities, of_rows)
    columns["coherence"][:] = _measure_coherence(chunks, columns["fused"])
    _mark_named(columns, chunks, query)
    for name, values in _read_files(chunks.files, query).items():
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
    source_types = {file.source_type for file in chunks.files}
    return len({_FAMILIES.get(source_type, "other") for source_type in source_types}) > 1


def count_better_of_file(file_numbers: np.ndarray, order: np.ndarray) -> np.ndarray:
    """How many hits of its file each hit has before it in an order of all of them: int64."""
    numbers = file_numbers[order]
    by_file = np.argsort(numbers, kind="stable")
    grouped = numbers[by_file]
    better = np.empty(len(numbers), np.int64)
    better[order[by_file]] = np.arange(len(numbers)) - np.searchsorted(grouped, grouped)
    return better


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


def _read_files(files: Sequence[OutlineFile], query: ParsedQuery) -> dict[str, np.ndarray]:
    """`file_name`, and whether a file has a role that the question does not ask for; by file."""
    columns = {name: np.zeros(len(files)) for name in ("file_name", *ROLE_WORDS)}
    with_names = [at for at, file in enumerate(files) if file.source_type in PATH_TYPES]
    paths, sources = [files[at].path for at in with_names], [files[at].source for at in with_names]
    names = map(frozenset, map(split_stems, list(map(_find_name, paths))))
    stems_of_names = list(map(frozenset[str].difference, names, map(split_stems, sources)))
    question = frozenset(split_stems(query.words))
    asked = _find_asked(frozenset[str]().union(*stems_of_names), question)
    asked_roles = {role for role, stems in _ROLE_STEMS.items() if not question.isdisjoint(stems)}
    for at, stems, role in zip(with_names, stems_of_names, map(find_side_role, paths), strict=True):
        columns["file_name"][at] = bool(stems) and stems <= asked
        if role and role not in asked_roles:
            columns[role][at] = 1.0
    return columns


def _find_name(path: str) -> str:
    """The name of a file, or of its folder for the file of a package."""
    *folders, name = path.split("/")
    *parts, _ = name.split(".") if "." in name else (name, "")
    stem = ".".join(part for part in parts if part not in _NAME_SUFFIXES) or name
    return folders[-1] if stem in _PACKAGE_STEMS and folders else stem


def _find_asked(stems: frozenset[str], question: frozenset[str]) -> set[str]:
    """Those stems that the question has, or that begin one of its own or are begun by one."""
    begun, beginnings = _list_beginnings(stems), _list_beginnings(question)
    asked = {stem for beginning, stem in begun if beginning in question}
    return asked | (stems & (question | {beginning for beginning, _ in beginnings}))


def _list_beginnings(words: Iterable[str]) -> list[tuple[str, str]]:
    """Each word without its last letters, as far as enough are left, and the word."""
    return [
        (word[:end], word)
        for word in words
        for end in range(max(_MIN_STEM_CHARS, len(word) - _MAX_SUFFIX_CHARS), len(word))
    ]


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


TEXT_FEATURES = ("heading", "nearest_words", "word_pairs", "asked_recency")
"""Of the best candidates, which alone are read: what their texts say about the question, in [0, 1].

    heading        the question has the words of its heading: of a section, a definition, a commit's subject
    nearest_words  the words of the question, or some of nearly their meaning, stand in its text or around it
    word_pairs     two words that follow each other in the question do so in its text
    asked_recency  the question asks for what is new, and the candidate is of history, and new
"""

_MAX_CHARS = 4_000  # of a text that are read
_MAX_QUERY_WORDS = 40  # words of a question that are compared: of a long one, the first
_MIN_COSINE = 0.35  # words below are unrelated
_HALF_LIFE_DAYS = 180.0
_ONE_THREAD_PRODUCTS = 262_144  # multiplications of two matrices, up to which OpenBLAS takes one thread
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
    telling = filterfalse(_FUNCTION_WORDS.__contains__, split_words(query.text))
    query_words = list(telling)[:_MAX_QUERY_WORDS]
    if not query_words or not chunks:
        return rows
    stems = list(map(stem, query_words))
    texts = [chunk.text[:_MAX_CHARS] for chunk in chunks]
    places = [f"{chunk.header} {chunk.path}" for chunk in chunks]
    words = list(map(read_words, texts))
    headings = list(map(stem_all, map(read_words, [_read_heading(chunk) for chunk in chunks])))
    rows[:, 0] = [len(own.intersection(stems)) / len(own) if own else 0.0 for own in headings]
    around = map(frozenset[str].union, words, list(map(read_words, places)))
    rows[:, 1] = _measure_nearest_words(list(dict.fromkeys(query_words)), list(around), vectors)
    rows[:, 2] = _measure_pairs(stems, texts, words)
    if _ASKS_FOR_NEW.search(query.text):
        rows[:, 3] = _measure_recency(chunks)
    return rows


def _read_heading(chunk: IndexedChunk) -> str:
    """The innermost heading: of a section or a definition; of a commit its subject, else the title."""
    trail = chunk.header.partition("\n")[2]  # below the path: headings, or a signature
    if trail and chunk.metadata.get("source_type") not in _HISTORY:
        return trail.rpartition("\n")[2].rpartition(">")[2]
    return chunk.title or ""


def _measure_nearest_words(
    query_words: Sequence[str], words: Sequence[frozenset[str]], vectors: WordVectors
) -> np.ndarray:
    """How near each text comes to the words that are asked, at the mean: rare words count for more.

    A word counts by the number of its pieces, which is larger where it is rare.
    """
    numbers = {word: at for at, word in enumerate(dict.fromkeys(chain.from_iterable(words)))}
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
    query_stems: Sequence[str], texts: Sequence[str], words: Sequence[frozenset[str]]
) -> list[float]:
    """Which share of the pairs of stems that follow each other in the question do so in each text."""
    pairs, shares = set(pairwise(query_stems)), [0.0] * len(texts)
    stems = enumerate(map(stem_all, words))
    both = [at for at, own in stems if any(first in own and second in own for first, second in pairs)]
    for at, text_words in zip(both, list(map(split_words, [texts[at] for at in both])), strict=True):
        telling = filterfalse(_FUNCTION_WORDS.__contains__, text_words)
        shares[at] = len(pairs.intersection(pairwise(map(stem, telling)))) / len(pairs)
    return shares


def _measure_recency(chunks: Sequence[IndexedChunk]) -> list[float]:
    """Of history how new it is, against the newest: half for each half year; 0 of everything else."""
    days: list[float | None] = []
    for chunk in chunks:
        moment = chunk.metadata.get("last_modified") if chunk.source_type in _HISTORY else None
        parsed = parse_time(moment) if isinstance(moment, str) else None
        days.append(parsed.timestamp() / 86_400 if parsed else None)
    newest = max((day for day in days if day is not None), default=0.0)
    return [0.0 if day is None else 0.5 ** ((newest - day) / _HALF_LIFE_DAYS) for day in days]
