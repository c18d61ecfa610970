"""Takes a docstring out of what is scored, so that it does not find itself.

A chunk is indexed with its docstring: in its text, maybe in the header of what continues it, and in the
words that the chunks of a small file share. Before the hits are fused, each chunk of the answer's file that
holds any of that is scored as if it were indexed without: its text is embedded anew, and its BM25 score is
that of the search, times what BM25 gives its words without the docstring over what it gives all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knowledge_pipeline.identifiers import expand_identifiers
from knowledge_pipeline.query.search.hits import Candidates, IndexedChunk, SpaceCandidates
from knowledge_pipeline.query.search.retrieve import SearchScope, join_candidates
from knowledge_pipeline.records import build_embedded_text
from knowledge_pipeline.stages.tuning.pairs import Pair
from knowledge_pipeline.store.index.bm25 import TermStatistics, split_terms
from knowledge_pipeline.store.index.outline_columns import OutlineFile
from knowledge_pipeline.store.readers import IndexReader, ScoredRow, ScoredRows

EmbedText = Callable[[str, str], np.ndarray]
"""The vector of a text in a space: float32, shape (dimensions,), length 1."""


@dataclass(frozen=True)
class DocstringMask:
    """Scores the chunks of a pair's answer without the docstring that asks. For one question."""

    pair: Pair
    words: str  # of the question, as full text searches for them
    statistics: Mapping[str, TermStatistics]  # by space
    embed: EmbedText

    async def __call__(self, scope: SearchScope, candidates: Candidates) -> Candidates:
        """The candidates as if the docstring were not indexed; what only it has found is gone."""
        spaces = [
            await self._mask_space(reader, found, scope, candidates.query_vectors.get(reader.space))
            for reader, found in zip(scope.readers, candidates.by_space, strict=True)
        ]
        return replace(candidates, by_space=tuple(spaces))

    async def _mask_space(
        self, reader: IndexReader, found: SpaceCandidates, scope: SearchScope, vector: np.ndarray | None
    ) -> SpaceCandidates:
        of_answer = found.rows[found.chunks.mark_files(self._is_answer)].tolist()
        affected = await scope.cache.read_chunks(reader, of_answer)
        words = await reader.take_rows(of_answer, ["words"])
        by_words = {
            row: self._scale_words(reader.space, words[row]["words"], self._list_parts(chunk))
            for row, chunk in affected.items()
        }
        masked_matches = [
            each._replace(score=each.score * by_words.get(each.row_id, 1.0))
            for each in found.keyword_matches
            if by_words.get(each.row_id, 1.0) > 0
        ]
        matched = _keep_best(masked_matches, by_words, scope.limit)
        similarities = {} if vector is None else self._compare(reader.space, affected, vector)
        compared = [each._replace(score=similarities.get(each.row_id, each.score)) for each in found.nearest]
        near = {each.row_id for each in _keep_best(compared, similarities, scope.limit)}
        kept = near | {each.row_id for each in matched}
        nearest = ScoredRows.of(each for each in compared if each.row_id in kept)
        return await join_candidates(scope, reader, nearest, ScoredRows.of(matched))

    def _is_answer(self, file: OutlineFile) -> bool:
        return f"{file.source}:{file.path}" == self.pair.origin

    def _list_parts(self, chunk: IndexedChunk) -> list[str]:
        """The docstring, and lines of a chunk's header that repeat the beginning of it."""
        lines = (line.removesuffix("…") for line in chunk.header.splitlines()[1:])
        repeated = [line for line in lines if len(line.split()) > 1 and line in self.pair.taken_out]
        return [self.pair.taken_out, *repeated]

    def _scale_words(self, space: str, words: str, parts: Iterable[str]) -> float:
        """What a match by these words is worth without some parts of them, as a share."""
        masked = _remove(words, map(expand_identifiers, parts))
        if masked == words:
            return 1.0
        question = frozenset(split_terms(self.words))
        before = self.statistics[space].score(question, words)
        return self.statistics[space].score(question, masked) / before if before > 0 else 0.0

    def _compare(
        self, space: str, chunks: Mapping[int, IndexedChunk], vector: np.ndarray
    ) -> dict[int, float]:
        """The similarity of each chunk that holds the docstring, without it."""
        compared: dict[int, float] = {}
        for row, chunk in chunks.items():
            parts = self._list_parts(chunk)
            header, text = _remove(chunk.header, parts), _remove(chunk.text, parts)
            if (header, text) != (chunk.header, chunk.text):
                length = float(np.linalg.norm(vector))
                masked = self.embed(build_embedded_text(header, text), space)
                compared[row] = float(masked @ vector) / length if length > 0 else 0.0
        return compared


def _remove(text: str, parts: Iterable[str]) -> str:
    for part in parts:
        text = text.replace(part, "")
    return text


def _keep_best(scored: Sequence[ScoredRow], masked: Iterable[int], limit: int) -> list[ScoredRow]:
    """The best first; masked rows only where a search of so many results would have found them."""
    masked = frozenset(masked)
    ranked = sorted(scored, key=lambda each: (-each.score, each.row_id))
    return [each for rank, each in enumerate(ranked) if each.row_id not in masked or rank < limit]
