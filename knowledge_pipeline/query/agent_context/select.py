"""Selects from the results of several searches the excerpts that fit a reader's budget. Pure.

Chunks are taken best first, and neighbours of one document become one excerpt. Of equal or nearly equal
chunks one is shown, with the places of the others. A chunk that does not fit is cut after a line if half of
it can be shown, because the beginning of a definition or section says what it is; otherwise it is omitted,
and smaller ones after it have their turn. The very best chunk is never omitted while one line of it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowledge_pipeline.contract.responses import Citation, ContextExcerpt, OmittedChunk, SearchResult
from knowledge_pipeline.query.agent_context.excerpts import (
    ChunkPart,
    DocumentKey,
    Excerpt,
    build_excerpts,
    document_key,
)
from knowledge_pipeline.query.search.near_duplicates import find_first_duplicates

_RANK_OFFSET = 10
_MIN_SHOWN_SHARE = 0.5  # of the lines of a chunk that is cut
_SINGLE_CHUNK_FIELDS = ("symbol", "symbol_kind", "anchor", "section", "page", "tokens")

Cost = Callable[[Excerpt], int]
"""Tokens of an excerpt with its heading, as a reader gets it."""


@dataclass(frozen=True, slots=True)
class WeightedResults:
    """What one search found, best first; a higher weight counts for more."""

    name: str
    weight: float
    results: Sequence[SearchResult]


@dataclass(frozen=True, slots=True)
class ContextCandidate:
    """A chunk, once, no matter how many searches found it."""

    result: SearchResult
    score: float  # compares within one context only
    found_by: tuple[str, ...]
    near_duplicates: tuple[Citation, ...] = ()  # places of nearly the same content


@dataclass(frozen=True, slots=True)
class ContextSelection:
    """What fits, in the order shown, and what does not."""

    excerpts: tuple[ContextExcerpt, ...] = ()
    omitted: tuple[OmittedChunk, ...] = ()
    tokens: int = 0  # of the excerpts together


def rank_candidates(searches: Iterable[WeightedResults]) -> list[ContextCandidate]:
    """The chunks of all searches, best first; equal and nearly equal ones once.

    Scores of different searches do not compare, ranks do: each search that found a chunk adds
    weight / (10 + rank), scaled so that the first of a search of weight 1 has 1.
    """
    best: dict[str, ContextCandidate] = {}
    for search in searches:
        for rank, result in enumerate(search.results, start=1):
            score = search.weight * (_RANK_OFFSET + 1) / (_RANK_OFFSET + rank)
            known = best.get(result.id) or ContextCandidate(result, 0.0, ())
            found_by = tuple(dict.fromkeys((*known.found_by, search.name)))
            best[result.id] = replace(known, score=known.score + score, found_by=found_by)
    ordered = sorted(best.values(), key=lambda each: (-each.score, each.result.id))
    kept: dict[int, ContextCandidate] = {}
    for index, first in enumerate(find_first_duplicates(each.result.content for each in ordered)):
        candidate, original = ordered[index], kept.get(first)
        if original is None:
            kept[index] = candidate
            continue
        kept[first] = replace(
            original,
            found_by=tuple(dict.fromkeys((*original.found_by, *candidate.found_by))),
            near_duplicates=(*original.near_duplicates, candidate.result.citation),
        )
    return list(kept.values())


def select_excerpts(
    candidates: Sequence[ContextCandidate], *, max_tokens: int, cost: Cost
) -> ContextSelection:
    """As much of the best candidates as costs at most `max_tokens` tokens."""
    packer = _BudgetPacker(max_tokens, cost)
    for candidate in candidates:
        packer.add(candidate)
    by_id = {candidate.result.id: candidate for candidate in candidates}
    excerpts = (excerpt for parts in packer.parts.values() for excerpt in build_excerpts(parts))
    numbered = enumerate(excerpts, start=1)
    shown = tuple(_to_context_excerpt(number, each, by_id, cost(each)) for number, each in numbered)
    return ContextSelection(shown, tuple(packer.omitted), sum(packer.costs.values()))


@dataclass
class _BudgetPacker:
    """The parts taken so far and their cost, by document, in the order of the documents' best chunks."""

    max_tokens: int
    cost: Cost
    parts: dict[DocumentKey, list[ChunkPart]] = field(default_factory=dict[DocumentKey, list[ChunkPart]])
    costs: dict[DocumentKey, int] = field(default_factory=dict[DocumentKey, int])
    omitted: list[OmittedChunk] = field(default_factory=list[OmittedChunk])
    has_cut: bool = False

    def add(self, candidate: ContextCandidate) -> None:
        """Take a candidate, or what fits of it; at most one is cut."""
        result = candidate.result
        part = ChunkPart.from_result(result)
        if not self._fits(part) and (self.has_cut or (part := self._truncate(part)) is None):
            tokens = self._compute_cost([ChunkPart.from_result(result)])
            self.omitted.append(OmittedChunk(result.id, result.citation, round(candidate.score, 6), tokens))
            return
        self.has_cut |= part.text != result.content
        document = document_key(result)
        self.costs[document] = self._compute_cost_with(part)
        self.parts.setdefault(document, []).append(part)

    def _fits(self, part: ChunkPart) -> bool:
        others = sum(self.costs.values()) - self.costs.get(document_key(part.result), 0)
        return others + self._compute_cost_with(part) <= self.max_tokens

    def _compute_cost_with(self, part: ChunkPart) -> int:
        return self._compute_cost([*self.parts.get(document_key(part.result), ()), part])

    def _compute_cost(self, parts: Iterable[ChunkPart]) -> int:
        return sum(map(self.cost, build_excerpts(parts)))

    def _truncate(self, part: ChunkPart) -> ChunkPart | None:
        """The most lines of a chunk that fit, if they are enough to be worth reading."""
        fitting, too_many = 0, part.text.count("\n") + 1
        least = max(1, round(too_many * _MIN_SHOWN_SHARE)) if self.parts else 1
        while too_many - fitting > 1:
            lines = (fitting + too_many) // 2
            if self._fits(part.take_first_lines(lines)):
                fitting = lines
            else:
                too_many = lines
        return part.take_first_lines(fitting) if fitting >= least else None


def _to_context_excerpt(
    number: int, excerpt: Excerpt, by_id: Mapping[str, ContextCandidate], tokens: int
) -> ContextExcerpt:
    candidates = [by_id[part.result.id] for part in excerpt.parts]
    best = max(candidates, key=lambda candidate: candidate.score)
    metadata = dict(best.result.metadata)
    symbols = [candidate.result.metadata.get("symbol") for candidate in candidates]
    for name in _SINGLE_CHUNK_FIELDS if len(candidates) > 1 else ():
        metadata.pop(name, None)
    return ContextExcerpt(
        number=number,
        text=excerpt.text,
        citation=excerpt.citation,
        score=round(best.score, 6),
        tokens=tokens,
        found_by=tuple(dict.fromkeys(name for each in candidates for name in each.found_by)),
        symbols=tuple(dict.fromkeys(filter(None, symbols))),
        metadata=metadata,
        chunks=tuple(part.result.id for part in excerpt.parts),
        missing_lines=excerpt.missing_lines,
        near_duplicates=tuple(dict.fromkeys(place for each in candidates for place in each.near_duplicates)),
    )
