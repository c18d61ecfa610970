"""Code that the best code found has to do with counts for more: what it uses, and what uses it.

A question about one thing often has its answer beside what its words are most like: in what a caller
calls, or in what hands a value on. Nothing new is searched for: of the candidates, those that the code
graph links to the best ones rise. (docs/decisions/0021-graph-in-search.md)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from knowledge_pipeline.query.code_graph.visible_graph import VisibleGraph
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.neighbours import LinkedLocation, find_linked_locations

MAX_SEED_HITS = 3  # hits whose links are followed


async def boost_linked_hits(graph: VisibleGraph, hits: Sequence[Hit], *, weight: float) -> list[Hit]:
    """The hits, best first, those favoured that the best are linked to; scores are in [0, 1] again.

    A hit gains, of each of the best that it has to do with, a share of that one's score: `weight`
    times the confidence of the surest link.
    """
    best = hits[:MAX_SEED_HITS]
    linked = await find_linked_locations(graph, [hit.chunk for hit in best])
    candidates = _ChunksByFile.from_chunks(hit.chunk for hit in hits)
    gained: dict[str, float] = {}
    for hit, links in zip(best, linked, strict=True):
        for id_, confidence in candidates.find_linked(links).items():
            if id_ != hit.chunk.id:
                gained[id_] = gained.get(id_, 0.0) + weight * confidence * hit.score
    most = max(gained.values(), default=0.0)
    favoured = [_apply_boost(hit, gained.get(hit.chunk.id, 0.0), most) for hit in hits]
    return sorted(favoured, key=lambda hit: (-hit.score, hit.chunk.id))


def _apply_boost(hit: Hit, boost: float, max_boost: float) -> Hit:
    boosts = {**hit.explanation.boosts, **({"graph": boost} if boost else {})}
    score = (hit.score + boost) / (1 + max_boost)
    return replace(hit, score=score, explanation=replace(hit.explanation, boosts=boosts))


@dataclass(frozen=True, slots=True)
class _ChunksByFile:
    """The passages that were found, by their files."""

    by_file: dict[tuple[str, str], list[IndexedChunk]] = field(
        default_factory=dict[tuple[str, str], list[IndexedChunk]]
    )

    @classmethod
    def from_chunks(cls, chunks: Iterable[IndexedChunk]) -> _ChunksByFile:
        made = cls()
        for passage in chunks:
            made.by_file.setdefault((passage.source, passage.path), []).append(passage)
        return made

    def find_linked(self, links: Iterable[LinkedLocation]) -> dict[str, float]:
        """Ids of the passages at the other end, with the confidence of the surest link."""
        found: dict[str, float] = {}
        for link in links:
            if (id_ := self._find_innermost(link)) is not None:
                found[id_] = max(found.get(id_, 0.0), link.confidence)
        return found

    def _find_innermost(self, link: LinkedLocation) -> str | None:
        """The smallest passage around a line."""
        there = [
            passage
            for passage in self.by_file.get((link.source, link.path), ())
            if passage.start_line <= link.line <= passage.end_line
        ]
        smallest = min(there, key=lambda each: (each.end_line - each.start_line, each.id), default=None)
        return smallest.id if smallest else None
