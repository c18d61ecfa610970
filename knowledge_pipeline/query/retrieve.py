"""Retrieves candidates from every space, by vector and by words at once; both searches filter.

A word that no document has is replaced by the nearest that some have, before anything is searched. A query is
embedded for each space with the model that made the space.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice

import numpy as np

from knowledge_pipeline.embedding.query_embedder import (
    QueryEmbedder,
    UnreadText,
    VectorUnavailable,
    compute_mean_vector,
    to_unit_length,
)
from knowledge_pipeline.embedding.word_vectors import WordVectors
from knowledge_pipeline.query.answer_cache import Stopwatch
from knowledge_pipeline.query.hits import (
    Hit,
    Hits,
    IndexedChunk,
    RankedChunk,
    RowCache,
    SpaceCandidates,
)
from knowledge_pipeline.query.plan import ParsedQuery, SearchPlan, parse_plain_text
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline.store.fragments import Outlines
from knowledge_pipeline.store.search import NO_ROWS, IndexReader, ScoredRows
from knowledge_pipeline.store.vectors import compute_cosines
from knowledge_pipeline.sync_facade import gather_all
from knowledge_pipeline.words import expand_identifiers, split_words, stem

_PLAIN_WORD = re.compile(r"(?<![\w./:`-])[A-Za-z][a-z]{4,}(?![\w`(]|[./:-]\w)")
_MAX_CORRECTED_CHARS, _MAX_CORRECTIONS = 1_000, 4
_MAX_EDITS = 2  # of a stem, as it is indexed
_QUALIFIER = re.compile(r"\W+")
_SIMILAR_ROWS = 10  # of each space, whose words are compared
_MIN_LIKENESS = 0.83  # of two words, by `difflib`
_JOINED_SIZES = (2, 3, 4)  # words of a question that may be one name
_MAX_JOINED_WORDS = 8  # of a question, so that few are looked up


@dataclass(frozen=True, slots=True)
class SubQuery:
    """One text to search for; a question may be several."""

    query: ParsedQuery
    keywords: str  # for full text
    embedded_texts: tuple[str, ...]  # their mean vector is searched for

    def correct(self, corrections: Mapping[str, str]) -> SubQuery:
        """The same with other words in place of some."""
        if not corrections:
            return self
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, corrections))})\b", re.I)

        def replace_words(text: str) -> str:
            return pattern.sub(lambda match: corrections[match[0].lower()], text)

        query = parse_plain_text(replace_words(self.query.text))
        texts = tuple(map(replace_words, self.embedded_texts))
        return SubQuery(query, replace_words(self.keywords), texts)

    def add_names(self, names: Sequence[str]) -> SubQuery:
        """The same that asks for some names in code as well."""
        if not names:
            return self
        query = replace(self.query, identifiers=(*self.query.identifiers, *names))
        return replace(self, query=query, keywords=" ".join((self.keywords, *names)))


@dataclass(frozen=True, slots=True)
class SearchScope:
    """What to search for, where, and by what."""

    plan: SearchPlan
    readers: Sequence[IndexReader]
    cache: RowCache
    embedder: QueryEmbedder
    watch: Stopwatch


async def find_corrections(scope: SearchScope, query: ParsedQuery, vectors: WordVectors) -> Mapping[str, str]:
    """Words of a question that no document has -> the nearest that some have, where one is near.

    A word that the static model knows as a whole is spelled well, and is not looked up; of the others, and of
    what is no name in code, the first few are.
    """
    words = dict.fromkeys(word.lower() for word in _PLAIN_WORD.findall(query.text[:_MAX_CORRECTED_CHARS]))
    unknown = [word for word in words if vectors.count_pieces(word) > 1][:_MAX_CORRECTIONS]
    nearest = await gather_all(_find_nearest_word(scope, word) for word in unknown)
    return {word: near for word, near in zip(unknown, nearest, strict=True) if near}


async def _find_nearest_word(scope: SearchScope, word: str) -> str | None:
    """None: a document has the word, or none has one that is near."""
    readers, where = scope.readers, scope.plan.condition
    matches = await gather_all(reader.search_text(word, where, limit=1) for reader in readers)
    if any(map(len, matches)):
        return None
    word = stem(word)
    similar = await gather_all(
        reader.search_similar_stem(word, where, limit=_SIMILAR_ROWS, max_edits=_MAX_EDITS)
        for reader in readers
    )
    chunks = await gather_all(
        scope.cache.read_chunks(reader, rows.row_ids.tolist())
        for reader, rows in zip(readers, similar, strict=True)
    )
    texts = (f"{chunk.header} {chunk.text}" for of_space in chunks for chunk in of_space.values())
    words = {part for text in texts for part in expand_identifiers(text).lower().split() if part.isalpha()}
    by_stem = {stem(word): word for word in sorted(words, reverse=True)}
    near = difflib.get_close_matches(word, by_stem, n=1, cutoff=_MIN_LIKENESS)
    return by_stem[near[0]] if near else None


async def find_joined_names(scope: SearchScope, query: ParsedQuery) -> list[str]:
    """Names in code that are words of a short question joined, as `foreach sql node` is of `ForEachSqlNode`.

    Only those whose own words are others: by equal words they are found anyway.
    """
    words = split_words(query.text[:_MAX_CORRECTED_CHARS])
    if len(words) > _MAX_JOINED_WORDS or query.identifiers:
        return []
    runs = {
        "".join(words[at : at + size]): words[at : at + size]
        for size in _JOINED_SIZES
        for at in range(len(words) - size + 1)
    }
    names = set[str]()
    for reader in scope.readers if runs else ():
        matches = await reader.search_text(" ".join(runs), scope.plan.condition, limit=_SIMILAR_ROWS)
        outlines = await scope.cache.read_outlines(reader, np.sort(matches.row_ids))
        for symbol in chain.from_iterable(outlines.symbols):
            parts = split_words(_QUALIFIER.split(symbol)[-1])
            if (name := "".join(parts)) in runs and runs[name] != parts:
                names.add(name)
    return sorted(names)


async def retrieve(scope: SearchScope, sub_query: SubQuery) -> tuple[SpaceCandidates, ...]:
    """As many candidates as the plan says, by each search of each space that the mode has.

    Vectors of a text that its model does not read are searched for only where words find nothing anywhere:
    beside words, they would bring what has as little to do with the question as everything else.
    """
    by_space = await gather_all(_retrieve_from_space(reader, scope, sub_query) for reader in scope.readers)
    if any(len(candidates.keyword_matches) for candidates in by_space):
        return tuple(by_space)
    of_unread: list[SpaceCandidates] = []
    for reader, candidates in zip(scope.readers, by_space, strict=True):
        unread = candidates.vector_problem
        if isinstance(unread, UnreadText):
            plan = scope.plan
            nearest = await reader.search_vector(unread.vector, plan.condition, limit=plan.candidate_limit)
            candidates = await join_candidates(scope, reader, nearest, NO_ROWS, unread.vector)
        of_unread.append(candidates)
    return tuple(of_unread)


async def _retrieve_from_space(
    reader: IndexReader, scope: SearchScope, sub_query: SubQuery
) -> SpaceCandidates:
    """Both searches at once. What full text alone found gets a similarity, too."""
    plan = scope.plan
    matching = asyncio.ensure_future(_match_words(scope, reader, sub_query.keywords))
    if plan.question.mode == "words":
        return await join_candidates(scope, reader, NO_ROWS, await matching)
    try:
        vector = plan.known_vectors.get(reader.space)
        if vector is None:
            embed = partial(scope.embedder.embed, space=reader.space, dimensions=reader.dimensions)
            with scope.watch.substep("embed"):
                vector = compute_mean_vector(await gather_all(map(embed, sub_query.embedded_texts)))
        nearest = await reader.search_vector(vector, plan.condition, limit=plan.candidate_limit)
        matches = await matching
    except VectorUnavailable as reason:
        # in no variable: the reason leads to this frame
        return replace(await join_candidates(scope, reader, NO_ROWS, await matching), vector_problem=reason)
    except BaseException:
        matching.cancel()
        raise
    return await join_candidates(scope, reader, nearest, matches, vector)


def list_vector_problems(candidates: Iterable[SpaceCandidates]) -> dict[str, str]:
    """Space -> why it was searched without vectors; nothing of a text that its model does not read."""
    problems = {space.space: space.vector_problem for space in candidates}
    return {
        name: str(problem)
        for name, problem in problems.items()
        if problem and not isinstance(problem, UnreadText)
    }


async def _match_words(scope: SearchScope, reader: IndexReader, keywords: str) -> ScoredRows:
    """What full text finds; nothing where vectors alone are searched.

    What will be asked of it is read meanwhile, as far as it is not in memory.
    """
    plan = scope.plan
    if plan.question.mode == "vectors":
        return NO_ROWS
    matches = await reader.search_text(keywords, plan.condition, limit=plan.candidate_limit)
    await scope.cache.read_ahead(reader, matches.row_ids, with_vectors=plan.question.mode != "words")
    return matches


async def join_candidates(
    scope: SearchScope,
    reader: IndexReader,
    nearest: ScoredRows,
    matches: ScoredRows,
    vector: np.ndarray | None = None,
) -> SpaceCandidates:
    """What both searches found, with outlines; what full text alone found is compared to a `vector`."""
    rows = np.sort(np.concatenate((nearest.row_ids, matches.row_ids)))  # a fifth of what `np.union1d` takes
    rows = rows[np.diff(rows, prepend=-1) != 0]
    similarities, word_scores = np.full((2, len(rows)), np.nan)
    word_scores[np.searchsorted(rows, matches.row_ids)] = matches.scores
    _set_similarities(similarities, rows, nearest)
    if vector is not None:
        unscored = rows[np.isnan(similarities)]
        _set_similarities(similarities, rows, await score_rows(scope.cache, reader, vector, unscored))
    chunks = await scope.cache.read_outlines(reader, rows)
    unrelated = scope.embedder.unrelated_similarity(reader.space)
    return SpaceCandidates(reader.space, rows, chunks, similarities, word_scores, unrelated, vector)


def _set_similarities(similarities: np.ndarray, rows: np.ndarray, scored: ScoredRows) -> None:
    """Write those of some of the rows, which are ascending."""
    finite = np.where(np.isfinite(scored.scores), scored.scores, -np.inf)
    similarities[np.searchsorted(rows, scored.row_ids)] = finite


async def read_hits(scope: SearchScope, hits: Sequence[Hit[RankedChunk]]) -> list[Hit[IndexedChunk]]:
    """The hits with their whole chunks, in their order."""
    parts = hits.list_parts() if isinstance(hits, Hits) else [hit[1:] for hit in hits]
    rows_by_space: dict[str, list[int]] = {}
    for _, explanation, row in parts:
        rows_by_space.setdefault(explanation.space, []).append(row)
    readers = [reader for reader in scope.readers if reader.space in rows_by_space]
    chunks_read = await gather_all(
        scope.cache.read_chunks(reader, rows_by_space[reader.space]) for reader in readers
    )
    chunks = {reader.space: of_space for reader, of_space in zip(readers, chunks_read, strict=True)}
    return [Hit(chunks[explanation.space][row], score, explanation, row) for score, explanation, row in parts]


async def score_rows(
    cache: RowCache, reader: IndexReader, vector: np.ndarray, rows: np.ndarray
) -> ScoredRows:
    """The cosine of some rows' vectors and a vector, in [-1, 1]; 0 where one of the two is all zero.

    Rows without a vector are left out.
    """
    if source := reader.memory.find_holder(rows):
        scored, others = source.take_matrix(rows)
    else:
        vectors = await cache.read_vectors(reader, rows.tolist())
        scored, others = np.array(list(vectors), np.int64), np.array(list(vectors.values()))
    if not len(scored):
        return NO_ROWS
    return ScoredRows(scored, compute_cosines(others, vector))


MAX_FEEDBACK_CHUNKS = 2  # chunks that the query is moved towards
_CODE_SOURCE_TYPES = ("code", "openapi")


async def apply_relevance_feedback(
    scope: SearchScope, candidates: tuple[SpaceCandidates, ...], hits: Hits, *, share: float
) -> tuple[SpaceCandidates, ...]:
    """Candidates whose prose is compared to the refined query; the same object where no prose was found.

    A question and its answer may call alike things by different words; the best prose found knows some of the
    answer's. The query's vector is moved towards it: pseudo-relevance feedback (Rocchio 1971, in Salton's
    "The SMART Retrieval System", chapter 14). It raises the figures of prose and lowers those of code
    (docs/decisions/retrieval.md), so code is left as it was found.

    `hits` are the fused candidates, best first; `share` is the weight of the best, against 1 of the query.
    """
    chunks = hits.chunks
    of_prose = _mark_prose(chunks)
    if not of_prose.any():
        return candidates
    positions: list[int] = hits.order[of_prose[hits.order]].tolist()
    best_prose = [chunks.ids[at] for at in positions]
    refined = await gather_all(
        _refine_space(reader, scope, of_space, best_prose, share)
        for reader, of_space in zip(scope.readers, candidates, strict=True)
    )
    is_same = all(after is before for after, before in zip(refined, candidates, strict=True))
    return candidates if is_same else tuple(refined)


async def _refine_space(
    reader: IndexReader,
    scope: SearchScope,
    candidates: SpaceCandidates,
    best_prose: Sequence[str],
    share: float,
) -> SpaceCandidates:
    """`best_prose` are the ids of chunks of all spaces, best first."""
    query_vector = candidates.query_vector
    if query_vector is None:
        return candidates
    rows = dict(zip(candidates.chunks.ids, candidates.rows.tolist(), strict=True))
    best_rows = list(islice((rows[id_] for id_ in best_prose if id_ in rows), MAX_FEEDBACK_CHUNKS))
    best_vectors = await scope.cache.read_vectors(reader, best_rows) if best_rows else {}
    if not best_vectors:
        return candidates
    shift = share * np.mean(list(best_vectors.values()), axis=0)
    vector = to_unit_length(query_vector + shift, fallback=query_vector)
    prose_alone = scope.plan.condition & ~one_of("source_type", _CODE_SOURCE_TYPES)
    nearest = await reader.search_vector(vector, prose_alone, limit=scope.plan.candidate_limit)
    of_prose = _mark_prose(candidates.chunks)
    before, code = candidates.list_nearest(of_prose), candidates.list_nearest(~of_prose)
    found_rows = set(nearest.row_ids.tolist())
    lost = np.array([row for row in before.row_ids.tolist() if row not in found_rows], np.int64)
    prose = nearest.join(await score_rows(scope.cache, reader, vector, lost))
    similar = code.join(_rescale_scores(prose, reference=before))
    refined = await join_candidates(scope, reader, similar, candidates.keyword_matches)
    return replace(refined, query_vector=query_vector)


def _mark_prose(chunks: Outlines) -> np.ndarray:
    """Whether each is of a file that is text for people."""
    files = np.array([file.source_type not in _CODE_SOURCE_TYPES for file in chunks.files], bool)
    return files[chunks.file_numbers]


def _rescale_scores(scored: ScoredRows, *, reference: ScoredRows) -> ScoredRows:
    """Similarities such that the best is what it was: else all prose would come nearer than all code."""
    before, after = (np.fmax.reduce(rows.scores, initial=0.0) for rows in (reference, scored))
    if before <= 0 or after <= 0:
        return scored
    return ScoredRows(scored.row_ids, scored.scores * before / after)
