"""From the results of several searches to passages that fit a reader's budget. Pure.

Chunks are taken best first. What follows each other in its document is put together;
what is equal, or nearly so, is there once, and says where else it stands. A chunk that
does not fit is cut after a line if half of it can be shown, since the beginning of a
definition or section says what it is; otherwise it is left out, and smaller ones after it
have their turn. The very best one is never left out while one line of it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowledge_pipeline.query.agent_context.excerpts import Excerpt, Part, document_of, excerpts
from knowledge_pipeline.query.search.assemble import Citation, Result
from knowledge_pipeline.query.search.near_duplicates import first_of_each
from knowledge_pipeline.records import Metadata

_RANK_OFFSET = 10
_LEAST_SHOWN = 0.5  # of the lines of a chunk that is cut
_OF_ONE_CHUNK = ("symbol", "symbol_kind", "anchor", "section", "page", "tokens")  # of no several chunks

Cost = Callable[[Excerpt], int]
"""Tokens of an excerpt with its heading, as a reader gets it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one search found, best first; a higher weight counts for more."""

    name: str
    weight: float
    results: Sequence[Result]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk, once, whichever searches found it."""

    result: Result
    score: float  # compares within one context only
    found_by: tuple[str, ...]
    also: tuple[Citation, ...] = ()  # where nearly the same stands


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A passage of a context, which the reader can cite as `[number]`."""

    number: int  # from 1, in the order shown
    text: str  # exactly the document's, from the first to the last of its lines
    citation: Citation
    score: float  # of its best chunk
    tokens: int  # about: with its heading, in the reader's tokens
    found_by: tuple[str, ...]  # names of searches
    symbols: tuple[str, ...]  # that it defines, as far as they are known
    metadata: Metadata  # of its best chunk; of several, what they have in common
    chunks: tuple[str, ...]  # ids
    missing_lines: int = 0  # that were cut off at its end
    also: tuple[Citation, ...] = ()  # where nearly the same stands


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A chunk that was found and did not fit."""

    id: str
    citation: Citation
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What fits, in the order shown, and what does not."""

    passages: tuple[CitedPassage, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    tokens: int = 0  # of the passages together


def ranked(found: Iterable[Found]) -> list[Candidate]:
    """The chunks of all searches, best first, equal and nearly equal ones once.

    Scores of different searches do not compare, ranks do: a chunk gets weight / (10 + rank)
    of each search that found it, scaled so that the first of a search of weight 1 has 1.
    """
    best: dict[str, Candidate] = {}
    for search in found:
        for rank, result in enumerate(search.results, start=1):
            score = search.weight * (_RANK_OFFSET + 1) / (_RANK_OFFSET + rank)
            known = best.get(result.id) or Candidate(result, 0.0, ())
            found_by = tuple(dict.fromkeys((*known.found_by, search.name)))
            best[result.id] = replace(known, score=known.score + score, found_by=found_by)
    ordered = sorted(best.values(), key=lambda each: (-each.score, each.result.id))
    return _distinct(ordered)


def select(candidates: Sequence[Candidate], *, allowance: int, cost: Cost) -> Selection:
    """As much of the best candidates as costs at most `allowance` tokens."""
    filling = _Filling(candidates, allowance, cost)
    for candidate in candidates:
        filling.take(candidate)
    return filling.selection()


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    kept: dict[int, Candidate] = {}
    for index, twin in enumerate(first_of_each(each.result.content for each in candidates)):
        candidate = candidates[index]
        if twin == index:
            kept[index] = candidate
        else:
            kept[twin] = _with_twin(kept[twin], candidate)
    return list(kept.values())


def _with_twin(kept: Candidate, twin: Candidate) -> Candidate:
    found_by = tuple(dict.fromkeys((*kept.found_by, *twin.found_by)))
    return replace(kept, found_by=found_by, also=(*kept.also, twin.result.citation))


@dataclass
class _Filling:
    """The parts taken so far, by document, in the order of the documents' best chunks."""

    candidates: Sequence[Candidate]
    allowance: int
    cost: Cost
    taken: dict[tuple[str, str], list[Part]] = field(default_factory=dict)
    costs: dict[tuple[str, str], int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    has_cut: bool = False

    def take(self, candidate: Candidate) -> None:
        part = Part.whole(candidate.result)
        if not self._fits(part) and (self.has_cut or (part := self._cut(part)) is None):
            result = candidate.result
            tokens = self._cost_of([Part.whole(result)])
            self.left_out.append(LeftOut(result.id, result.citation, round(candidate.score, 6), tokens))
            return
        self.has_cut |= part.text != candidate.result.content
        document = document_of(part.result)
        self.costs[document] = self._cost_with(part)
        self.taken.setdefault(document, []).append(part)

    def selection(self) -> Selection:
        numbered = enumerate(self._excerpts(), start=1)
        by_id = {candidate.result.id: candidate for candidate in self.candidates}
        passages = tuple(_cited(number, each, by_id, self.cost(each)) for number, each in numbered)
        return Selection(passages, tuple(self.left_out), sum(self.costs.values()))

    def _excerpts(self) -> Iterator[Excerpt]:
        for parts in self.taken.values():
            yield from excerpts(parts)

    def _fits(self, part: Part) -> bool:
        others = sum(self.costs.values()) - self.costs.get(document_of(part.result), 0)
        return others + self._cost_with(part) <= self.allowance

    def _cost_with(self, part: Part) -> int:
        return self._cost_of([*self.taken.get(document_of(part.result), ()), part])

    def _cost_of(self, parts: Iterable[Part]) -> int:
        return sum(map(self.cost, excerpts(parts)))

    def _cut(self, part: Part) -> Part | None:
        """The most lines of a chunk that fit, if they are enough to be worth reading."""
        fitting, too_many = 0, part.text.count("\n") + 1
        least = 1 if not self.taken else max(1, round(too_many * _LEAST_SHOWN))
        while too_many - fitting > 1:
            lines = (fitting + too_many) // 2
            if self._fits(part.first_lines(lines)):
                fitting = lines
            else:
                too_many = lines
        return part.first_lines(fitting) if fitting >= least else None


def _cited(number: int, excerpt: Excerpt, by_id: Mapping[str, Candidate], tokens: int) -> CitedPassage:
    candidates = [by_id[part.result.id] for part in excerpt.parts]
    best = max(candidates, key=lambda candidate: candidate.score)
    metadata = dict(best.result.metadata)
    symbols = [candidate.result.metadata.get("symbol") for candidate in candidates]
    for name in _OF_ONE_CHUNK if len(candidates) > 1 else ():
        metadata.pop(name, None)
    return CitedPassage(
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
        also=tuple(dict.fromkeys(place for each in candidates for place in each.also)),
    )
