"""Searches a second time with what the first hits say: the vectors of prose.

A question and its answer may call alike things by different words; the best prose found knows some of
the answer's. The query's vector is moved towards it, which is known as pseudo-relevance feedback (Rocchio
1971, in Salton's "The SMART Retrieval System", chapter 14). It raises the figures of prose and lowers
those of code (docs/decisions/retrieval.md), so code is left as it was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from knowledge_pipeline.awaiting import gather_all
from knowledge_pipeline.query.search.hits import Candidates, Hits, SpaceCandidates
from knowledge_pipeline.query.search.query_vectors import to_unit_length
from knowledge_pipeline.query.search.retrieve import SearchScope, join_candidates, score_rows
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline.store.index.outline_columns import OutlineFile
from knowledge_pipeline.store.readers import IndexReader, ScoredRows

MAX_FEEDBACK_CHUNKS = 2  # chunks that the query is moved towards
_CODE_SOURCE_TYPES = ("code", "openapi")


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
