"""Selects from the results of several searches the lines that fit a reader's budget. Pure.

All that is shown is decided here. The chunks of a document are put together, each line gets an expected
gain (`line_gains`), and the runs of lines that gain the most for their tokens are shown (`windows`): those
at the price at which the budget is just spent. No line is shown twice, and of equal or nearly equal chunks
one, with the places of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowledge_pipeline.contract.responses.context import ContextExcerpt, OmittedChunk
from knowledge_pipeline.contract.responses.search import Citation, SearchResult
from knowledge_pipeline.query.agent_context.excerpts import (
    DocumentKey,
    Excerpt,
    build_excerpts,
    document_key,
)
from knowledge_pipeline.query.agent_context.line_gains import WordWeights
from knowledge_pipeline.query.agent_context.tokens import CountTokens
from knowledge_pipeline.query.agent_context.windows import LineRun, find_best_runs
from knowledge_pipeline.query.search.near_duplicates import find_first_duplicates

LINKING_RESULTS = 3  # of a search: what they call and extend, and what calls them, counts for more
_USED_FACTOR, _USER_FACTOR = 4.0, 2.0  # of the score of a definition that one of them uses; of a caller
_MAX_LINKED_SCORE = 0.4  # a little more than the third's
_SIGNATURE_FACTOR = 2.0  # of the gain of a definition's first line
_MIN_CUT_LINES = 3  # of a run that is cut, unless nothing else is shown
_PRICE_STEPS = 24  # halvings of the range in which the price is
_SINGLE_CHUNK_FIELDS = ("symbol", "symbol_kind", "anchor", "section", "page", "tokens")

Cost = Callable[[Excerpt], int]
"""Tokens of an excerpt's heading, as a reader gets it."""


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
    is_cut: bool = False  # whether more lines would be shown within a larger budget
    sections: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])  # numbers


def rank_candidates(searches: Iterable[WeightedResults]) -> list[ContextCandidate]:
    """The chunks of all searches, best first; equal and nearly equal ones once.

    Scores of different searches do not compare, ranks do: each search that found a chunk adds weight / rank.
    What the best code uses, or what uses it, counts several times that, but hardly more than the third.
    """
    best: dict[str, ContextCandidate] = {}
    for search in searches:
        factors = _find_link_factors(search.results[:LINKING_RESULTS])
        for rank, result in enumerate(search.results, start=1):
            score = 1 / rank
            if rank > LINKING_RESULTS:
                score = max(score, min(_MAX_LINKED_SCORE, score * _factor_of(result, factors)))
            score *= search.weight
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


def _find_link_factors(best: Sequence[SearchResult]) -> dict[tuple[str | None, str | None], dict[int, float]]:
    """By source and path, the lines that the best code leads to or is used from, with their factors."""
    factors: dict[tuple[str | None, str | None], dict[int, float]] = {}
    for result in best:
        if result.graph is None:
            continue
        users = ((each, _USER_FACTOR) for each in (*result.graph.called_by, *result.graph.implemented_by))
        used = ((each, _USED_FACTOR) for each in (*result.graph.calls, *result.graph.extends))
        for neighbour, factor in (*users, *used):
            if neighbour.line is not None:
                factors.setdefault((neighbour.source, neighbour.path), {})[neighbour.line] = factor
    return factors


def _factor_of(
    result: SearchResult, factors: Mapping[tuple[str | None, str | None], Mapping[int, float]]
) -> float:
    lines = factors.get((result.citation.source, result.citation.path), {})
    span = result.span
    return max(
        (each for line, each in lines.items() if span.start_line <= line <= span.end_line), default=1.0
    )


@dataclass(frozen=True, slots=True)
class _Passage:
    """Consecutive lines of a document that were found, with what each gains and costs."""

    excerpt: Excerpt
    gains: Sequence[float]
    tokens: Sequence[float]
    heading_tokens: float
    density: float  # of its best line: at a higher price, nothing of it is worth it

    def find_runs(self, price: float) -> list[LineRun]:
        """What of it is worth a price."""
        if self.density <= price:
            return []
        return find_best_runs(self.gains, self.tokens, price=price, heading_tokens=self.heading_tokens)

    def take(self, run: LineRun) -> Excerpt:
        """The lines of a run."""
        start = self.excerpt.start_line
        return self.excerpt.take_lines(start + run.first, start + run.last)

    def shorten_run(self, run: LineRun, max_tokens: float, *, min_lines: int) -> LineRun | None:
        """The beginning of a run that fits; None if that is too little."""
        spent, last = float(self.heading_tokens), run.first - 1
        for at in range(run.first, run.last + 1):
            if spent + self.tokens[at] > max_tokens:
                break
            spent += self.tokens[at]
            last = at
        while last >= run.first and not self.gains[last]:  # no blank lines at the end
            last -= 1
        if last - run.first + 1 < min_lines:
            return None
        shown = slice(run.first, last + 1)
        return LineRun(run.first, last, sum(self.gains[shown]), self.heading_tokens + sum(self.tokens[shown]))


class ExcerptSelector:
    """Selects from some candidates, for any budget.

    Args:
        candidates: best first.
        question: what they were searched for.
        count: tokens of a text.
        heading_cost: tokens of what stands around an excerpt.
        heading_share: of that cost, with which lines are chosen: a lower one gives more and shorter excerpts.
    """

    def __init__(
        self,
        candidates: Sequence[ContextCandidate],
        question: str,
        *,
        count: CountTokens,
        heading_cost: Cost,
        heading_share: float = 1.0,
    ) -> None:
        self._by_id = {each.result.id: each for each in candidates}
        self._count = count
        self._heading_cost = heading_cost
        self._heading_share = heading_share
        self._chunks = [
            OmittedChunk(id_, each.result.citation, round(each.score, 6), self._cost(each.result))
            for id_, each in self._by_id.items()
        ]
        self._weights = WordWeights(question, [each.result.content for each in candidates])
        documents: dict[DocumentKey, list[SearchResult]] = {}
        for each in candidates:
            documents.setdefault(document_key(each.result), []).append(each.result)
        excerpts = (excerpt for results in documents.values() for excerpt in build_excerpts(results))
        self._passages = [self._to_passage(excerpt) for excerpt in excerpts]
        self._runs_at: dict[
            float, list[tuple[int, LineRun]]
        ] = {}  # prices that were tried, as many are again

    def select(self, max_tokens: int) -> ContextSelection:
        """The lines that gain the most, of at most `max_tokens` tokens as counted line by line.

        Headings count by their share.
        """
        runs_over = self._find_runs_over(max_tokens)
        runs = self._fit(runs_over, max_tokens)
        taken = sorted(runs, key=lambda each: (each[0], each[1].first))  # documents best first
        excerpts = [self._passages[at].take(run) for at, run in taken]
        shown_ids = {part.id for excerpt in excerpts for part in excerpt.parts}
        omitted = tuple(each for each in self._chunks if each.id not in shown_ids)
        shown = tuple(self._to_context_excerpt(n, each) for n, each in enumerate(excerpts, start=1))
        is_cut = sum(run.tokens for _, run in runs_over) > max_tokens
        return ContextSelection(shown, omitted, sum(each.tokens for each in shown), is_cut)

    def _find_runs_over(self, max_tokens: int) -> list[tuple[int, LineRun]]:
        """Passage and run of all that is worth the highest price at which it exceeds the budget."""
        low, high = 0.0, max((gain for each in self._passages for gain in each.gains), default=0.0)
        found: list[tuple[int, LineRun]] = self._find_runs(low)
        for _ in range(_PRICE_STEPS if sum(run.tokens for _, run in found) > max_tokens else 0):
            price = (low + high) / 2 if low else high / 64
            runs = self._find_runs(price)
            if sum(run.tokens for _, run in runs) > max_tokens:
                low, found = price, runs
            else:
                high = price
        return found

    def _find_runs(self, price: float) -> list[tuple[int, LineRun]]:
        if price not in self._runs_at:
            self._runs_at[price] = [
                (at, run) for at, each in enumerate(self._passages) for run in each.find_runs(price)
            ]
        return self._runs_at[price]

    def _fit(self, runs: Iterable[tuple[int, LineRun]], max_tokens: int) -> list[tuple[int, LineRun]]:
        """The densest runs, the last of them cut."""
        left = float(max_tokens)
        taken: list[tuple[int, LineRun]] = []
        for at, run in sorted(runs, key=lambda each: -each[1].density):
            if run.tokens > left:
                least = _MIN_CUT_LINES if taken else 1
                if shortened := self._passages[at].shorten_run(run, left, min_lines=least):
                    taken.append((at, shortened))
                break
            taken.append((at, run))
            left -= run.tokens
        return taken

    def _to_passage(self, excerpt: Excerpt) -> _Passage:
        """Each line with the score of the best chunk that has it."""
        scores = [0.0] * len(excerpt.lines)
        for part in excerpt.parts:
            score = self._by_id[part.id].score
            for at in range(
                part.span.start_line - excerpt.start_line, part.span.end_line - excerpt.start_line + 1
            ):
                scores[at] = max(scores[at], score)
        gains = self._weights.estimate_gains(excerpt.lines)
        for part in excerpt.parts:
            signature = _find_signature(part)
            if signature is not None:
                gains[part.span.start_line - excerpt.start_line + signature] *= _SIGNATURE_FACTOR
        gains = [gain * score for gain, score in zip(gains, scores, strict=True)]
        tokens = [self._count(line.strip()) + 1 for line in excerpt.lines]
        density = max(gain / cost for gain, cost in zip(gains, tokens, strict=True))
        heading_tokens = self._heading_cost(excerpt) * self._heading_share
        return _Passage(excerpt, gains, tokens, heading_tokens, density)

    def _cost(self, result: SearchResult) -> int:
        return self._count(result.content) + self._heading_cost(Excerpt.from_result(result))

    def _to_context_excerpt(self, number: int, excerpt: Excerpt) -> ContextExcerpt:
        candidates = [self._by_id[part.id] for part in excerpt.parts]
        best = max(candidates, key=lambda candidate: candidate.score)
        metadata = dict(best.result.metadata)
        symbols = [candidate.result.metadata.get("symbol") for candidate in candidates]
        for name in _SINGLE_CHUNK_FIELDS if len(candidates) > 1 else ():
            metadata.pop(name, None)
        places = dict.fromkeys(place for each in candidates for place in each.near_duplicates)
        return ContextExcerpt(
            number=number,
            text=excerpt.text,
            citation=excerpt.citation,
            score=round(best.score, 6),
            tokens=self._count(excerpt.text) + self._heading_cost(excerpt),
            found_by=tuple(dict.fromkeys(name for each in candidates for name in each.found_by)),
            symbols=tuple(dict.fromkeys(filter(None, symbols))),
            metadata=metadata,
            chunks=tuple(part.id for part in excerpt.parts),
            missing_lines=excerpt.missing_lines,
            near_duplicates=tuple(places),
            within=_find_signature_above(excerpt),
        )


def _find_signature_above(excerpt: Excerpt) -> str | None:
    """The first line of the definition that an excerpt begins in the middle of, where its chunk has it."""
    first = excerpt.parts[0]
    signature = _find_signature(first)
    if signature is None or first.span.start_line + signature >= excerpt.start_line:
        return None
    return first.content.split("\n")[signature].strip()


def _find_signature(chunk: SearchResult) -> int | None:
    """By index, the first line of a chunk that has the name of what it defines."""
    name = str(chunk.metadata.get("symbol") or "").rpartition(".")[2]
    lines = chunk.content.split("\n") if name else []
    return next((at for at, line in enumerate(lines) if name in line), None)
