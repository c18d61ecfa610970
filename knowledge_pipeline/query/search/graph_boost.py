"""Code that the best code found has to do with counts for more: what it uses, and what uses it.

A question about one thing often has its answer beside what its words are most like: in what a caller
calls, or in what hands a value on. Nothing new is searched for: of the candidates, those that the code
graph links to the best ones rise. (docs/decisions/0021-graph-in-search.md)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from knowledge_pipeline.query.code_graph.visible_graph import GraphRows
from knowledge_pipeline.query.search.hits import Hit, Passage
from knowledge_pipeline.query.search.neighbours import Linked, links_of

BEST = 3  # hits whose links are followed


async def expanded(graph: GraphRows, hits: Sequence[Hit], *, weight: float) -> list[Hit]:
    """The hits, best first, those favoured that the best are linked to; scores are in [0, 1] again.

    A hit gains, of each of the best that it has to do with, a share of that one's score: `weight`
    times the confidence of the surest link.
    """
    best = hits[:BEST]
    linked = await links_of(graph, [hit.passage for hit in best])
    candidates = _Candidates.of(hit.passage for hit in hits)
    gained: dict[str, float] = {}
    for hit, links in zip(best, linked, strict=True):
        for id_, confidence in candidates.reached(links).items():
            if id_ != hit.passage.id:
                gained[id_] = gained.get(id_, 0.0) + weight * confidence * hit.score
    most = max(gained.values(), default=0.0)
    favoured = [_favoured(hit, gained.get(hit.passage.id, 0.0), most) for hit in hits]
    return sorted(favoured, key=lambda hit: (-hit.score, hit.passage.id))


def _favoured(hit: Hit, gained: float, most: float) -> Hit:
    boosts = {**hit.explanation.boosts, **({"graph": gained} if gained else {})}
    score = (hit.score + gained) / (1 + most)
    return replace(hit, score=score, explanation=replace(hit.explanation, boosts=boosts))


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The passages that were found, by their files."""

    by_file: dict[tuple[str, str], list[Passage]] = field(
        default_factory=dict[tuple[str, str], list[Passage]]
    )

    @classmethod
    def of(cls, passages: Iterable[Passage]) -> _Candidates:
        made = cls()
        for passage in passages:
            made.by_file.setdefault((passage.source, passage.path), []).append(passage)
        return made

    def reached(self, links: Iterable[Linked]) -> dict[str, float]:
        """Ids of the passages at the other end, with the confidence of the surest link."""
        found: dict[str, float] = {}
        for link in links:
            if (id_ := self._at(link)) is not None:
                found[id_] = max(found.get(id_, 0.0), link.confidence)
        return found

    def _at(self, link: Linked) -> str | None:
        """The smallest passage around a line."""
        there = [
            passage
            for passage in self.by_file.get((link.source, link.path), ())
            if passage.start_line <= link.line <= passage.end_line
        ]
        smallest = min(there, key=lambda each: (each.end_line - each.start_line, each.id), default=None)
        return smallest.id if smallest else None
