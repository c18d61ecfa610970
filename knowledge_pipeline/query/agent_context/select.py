"""Selects from the results of searches the lines that fit a reader's budget. Pure.

All that is shown is decided here. The chunks of a document are put together, each line gets an expected
gain (`line_gains`) by the chance that its chunk answers, whatever type of source it is of, and the runs of
lines that gain the most for their tokens are shown (`windows`): those at the price at which the budget is
just spent. No line is shown twice, and of equal or nearly equal chunks one, with the places of the others.
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

_SHARPNESS = 3.0  # power of a chance: what surely answers has also more lines that do
_MIN_CUT_LINES = 3  # of a run that is cut, unless nothing else is shown
_PRICE_STEPS = 24  # halvings of the range in which the price is
_SINGLE_CHUNK_FIELDS = ("symbol", "symbol_kind", "anchor", "section", "page", "tokens")

_PassageRuns = list[tuple[int, LineRun]]
"""Runs, each with the index of its passage."""

Cost = Callable[[Excerpt], int]
"""Tokens of an excerpt's heading, as a reader gets it."""


@dataclass(frozen=True, slots=True)
class SearchChances:
    """What one search found, best first, and of each result the chance that it answers, 0 to 1."""

    name: str
    results: Sequence[SearchResult]
    chances: Sequence[float]

    @classmethod
    def by_rank(cls, name: str, results: Sequence[SearchResult], first: float = 1.0) -> SearchChances:
        """Of a search whose scores are no probabilities: the first result's, and less by rank."""
        return cls(name, results, [first / rank for rank, _ in enumerate(results, start=1)])


@dataclass(frozen=True, slots=True)
class ContextCandidate:
    """A chunk, once, no matter how many searches found it."""

    result: SearchResult
    score: float  # the chance that it answers, 0 to 1
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


def rank_candidates(searches: Iterable[SearchChances]) -> list[ContextCandidate]:
    """The chunks of all searches, best first; equal and nearly equal ones once.

    What several searches found has the chance that one of them is right.
    """
    best: dict[str, ContextCandidate] = {}
    for search in searches:
        for result, chance in zip(search.results, search.chances, strict=True):
            existing = best.get(result.id) or ContextCandidate(result, 0.0, ())
            found_by = tuple(dict.fromkeys((*existing.found_by, search.name)))
            score = 1 - (1 - existing.score) * (1 - chance)
            best[result.id] = replace(existing, score=score, found_by=found_by)
    ordered = sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.result.id))
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

    def cut_run(
        self, run: LineRun, inside: Iterable[LineRun], max_tokens: float, *, min_lines: int
    ) -> list[LineRun]:
        """The densest runs inside a run that fit, the last of them as long as fits; else its beginning."""
        kept: list[LineRun] = []
        for part in sorted(inside, key=lambda part: -part.density):
            if part.tokens <= max_tokens:
                kept.append(part)
                max_tokens -= part.tokens
        last = max(kept, key=lambda part: part.first, default=None)
        if last is None:
            shortened = self.shorten_run(run, max_tokens, min_lines=min_lines)
            return [shortened] if shortened else []
        longest = replace(last, last=run.last)
        grown = self.shorten_run(longest, max_tokens + last.tokens, min_lines=1)
        return [*(part for part in kept if part is not last), grown or last]

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
        runs_over, runs_within = self._find_runs_around(max_tokens)
        runs = self._fit(runs_over, runs_within, max_tokens)
        taken = sorted(runs, key=lambda each: (each[0], each[1].first))  # documents best first
        excerpts = [self._passages[at].take(run) for at, run in taken]
        shown_ids = {part.id for excerpt in excerpts for part in excerpt.parts}
        omitted = tuple(each for each in self._chunks if each.id not in shown_ids)
        shown = tuple(self._to_context_excerpt(n, each) for n, each in enumerate(excerpts, start=1))
        is_cut = sum(run.tokens for _, run in runs_over) > max_tokens
        return ContextSelection(shown, omitted, sum(each.tokens for each in shown), is_cut)

    def _find_runs_around(self, max_tokens: int) -> tuple[_PassageRuns, _PassageRuns]:
        """What is worth the highest price at which it exceeds the budget; what is at the lowest within it."""
        low, high = 0.0, max((gain for each in self._passages for gain in each.gains), default=0.0)
        over, within = self._find_runs(low), _PassageRuns()
        for _ in range(_PRICE_STEPS if sum(run.tokens for _, run in over) > max_tokens else 0):
            price = (low + high) / 2 if low else high / 64
            runs = self._find_runs(price)
            if sum(run.tokens for _, run in runs) > max_tokens:
                low, over = price, runs
            else:
                high, within = price, runs
        return over, within

    def _find_runs(self, price: float) -> _PassageRuns:
        if price not in self._runs_at:
            self._runs_at[price] = [
                (at, run) for at, each in enumerate(self._passages) for run in each.find_runs(price)
            ]
        return self._runs_at[price]

    def _fit(self, runs: _PassageRuns, runs_within: _PassageRuns, max_tokens: int) -> _PassageRuns:
        """The densest runs, the last of them cut to what of it was worth more, and on from there."""
        left = float(max_tokens)
        fitting = _PassageRuns()
        for at, run in sorted(runs, key=lambda each: -each[1].density):
            if run.tokens > left:
                inside = [inner for passage, inner in runs_within if passage == at and run.contains(inner)]
                kept = self._passages[at].cut_run(
                    run, inside, left, min_lines=1 if not fitting else _MIN_CUT_LINES
                )
                fitting += [(at, kept_run) for kept_run in kept]
                break
            fitting.append((at, run))
            left -= run.tokens
        return fitting

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
        gains = [gain * score**_SHARPNESS for gain, score in zip(gains, scores, strict=True)]
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
