"""Searches a second time with what the first hits say: names of the corpus, and the vectors of prose.

Whoever asks about "lock timeouts" may not know that the code says `LockTimeout`; the chunks found
first do. Full text is searched once more with such names, without a model.

A question and its answer may call alike things by different words; the best prose found knows some of
the answer's. The query's vector is moved towards it, which is known as pseudo-relevance feedback (Rocchio
1971, in Salton's "The SMART Retrieval System", chapter 14). It raises the figures of prose and lowers
those of code (docs/decisions/retrieval.md), so code is left as it was found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from knowledge_pipeline import identifiers
from knowledge_pipeline.awaiting import gather_all
from knowledge_pipeline.query.search.hits import Candidates, Hit, Hits, IndexedChunk, SpaceCandidates
from knowledge_pipeline.query.search.query_vectors import to_unit_length
from knowledge_pipeline.query.search.retrieve import SearchScope, join_candidates, score_rows
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline.store.index.outline_columns import OutlineFile
from knowledge_pipeline.store.readers import IndexReader, ScoredRows

MAX_READ_HITS = 10  # hits that are searched for names
MAX_NAMES = 5
MAX_FEEDBACK_CHUNKS = 2  # chunks that the query is moved towards
_MIN_PART_CHARS = 3  # of a part, or of initials: shorter ones are alike by chance
_NAME = re.compile(r"\b(?=\w*[a-z])[A-Za-z]\w{3,59}\b")
_CODE_SOURCE_TYPES = ("code", "openapi")


def find_related_names(query: ParsedQuery, hits: Sequence[Hit[IndexedChunk]]) -> tuple[str, ...]:
    """Compound names in the best hits that share a part with the question, or abbreviate to one of its words.

    Those with the most parts in common first, then those of the most chunks; at most
    `MAX_NAMES`, none that the question has itself. Pure.
    """
    words = query.words.split()
    query_words = {word.casefold() for word in words}
    parts = (part for word in words for part in identifiers.split_identifier(word))
    query_parts = {part for part in parts if len(part) >= _MIN_PART_CHARS}
    counts = Counter(name for hit in hits[:MAX_READ_HITS] for name in _find_compound_names(hit.chunk))
    ranked = sorted((-_compute_nearness(name, query_parts), -count, name) for name, count in counts.items())
    near = [name for negative_nearness, _, name in ranked if negative_nearness < 0]
    return tuple(name for name in near if name.replace("_", "").casefold() not in query_words)[:MAX_NAMES]


def _find_compound_names(chunk: IndexedChunk) -> set[str]:
    texts: Iterable[str] = (*chunk.symbols, chunk.text)
    names = {name for text in texts for name in _NAME.findall(text)}
    return {name for name in names if len(identifiers.split_identifier(name)) > 1}


def _compute_nearness(name: str, query_parts: set[str]) -> float:
    """The share of a name's parts that the question has; 1 where its initials are a word of the question."""
    parts = identifiers.split_identifier(name)
    if len(parts) >= _MIN_PART_CHARS and "".join(part[0] for part in parts) in query_parts:
        return 1.0
    return len(query_parts.intersection(parts)) / len(parts)


async def apply_relevance_feedback(
    scope: SearchScope, candidates: Candidates, hits: Hits, *, share: float
) -> Candidates:
    """Candidates whose prose is compared to the refined query; the same object where no prose was found.

    `hits` are the fused candidates, best first; `share` is the weight of the best, against 1 of the query.
    """
    chunks = hits.candidates.chunks
    of_prose = chunks.mark_files(is_prose)
    if not of_prose.any():
        return candidates
    positions: list[int] = hits.order[of_prose[hits.order]].tolist()
    best_prose = [chunks.ids[at] for at in positions]
    refined = (
        _refine_space(reader, scope, found, candidates.query_vectors.get(reader.space), best_prose, share)
        for reader, found in zip(scope.readers, candidates.by_space, strict=True)
    )
    by_space = tuple(await gather_all(refined))
    if all(after is before for after, before in zip(by_space, candidates.by_space, strict=True)):
        return candidates
    return replace(candidates, by_space=by_space)


async def _refine_space(
    reader: IndexReader,
    scope: SearchScope,
    candidates: SpaceCandidates,
    query_vector: np.ndarray | None,
    best_prose: Sequence[str],
    share: float,
) -> SpaceCandidates:
    """`best_prose` are the ids of chunks of all spaces, best first."""
    if query_vector is None:
        return candidates
    rows = dict(zip(candidates.chunks.ids, candidates.rows.tolist(), strict=True))
    best_rows = list(islice((rows[id_] for id_ in best_prose if id_ in rows), MAX_FEEDBACK_CHUNKS))
    best_vectors = await scope.cache.read_vectors(reader, best_rows) if best_rows else {}
    if not best_vectors:
        return candidates
    shift = share * np.mean(list(best_vectors.values()), axis=0)
    vector = to_unit_length(query_vector + shift, fallback=query_vector)
    prose_alone = scope.condition & ~one_of("source_type", _CODE_SOURCE_TYPES)
    found = await reader.search_vector(vector, prose_alone, limit=scope.limit)
    of_prose = candidates.chunks.mark_files(is_prose)
    before, code = candidates.list_nearest(of_prose), candidates.list_nearest(~of_prose)
    found_rows = set(found.row_ids.tolist())
    lost = np.array([row for row in before.row_ids.tolist() if row not in found_rows], np.int64)
    prose = found.join(await score_rows(scope.cache, reader, vector, lost))
    similar = code.join(_rescale_scores(prose, reference=before))
    return await join_candidates(scope, reader, similar, candidates.keyword_matches)


def is_prose(file: OutlineFile) -> bool:
    """Whether a file is text for people."""
    return file.source_type not in _CODE_SOURCE_TYPES


def _rescale_scores(scored: ScoredRows, *, reference: ScoredRows) -> ScoredRows:
    """Similarities such that the best is what it was: else all prose would come nearer than all code."""
    before, after = (np.fmax.reduce(each.scores, initial=0.0) for each in (reference, scored))
    if before <= 0 or after <= 0:
        return scored
    return ScoredRows(scored.row_ids, scored.scores * before / after)
