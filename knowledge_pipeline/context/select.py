"""Selects from the results of searches the lines that fit a reader's budget.

All that is shown is decided here. The chunks of a document are put together, each line gets an expected gain
by the chance that its chunk answers, whatever type of source it is of, and the runs of lines that gain the
most for their tokens are shown: those at the price at which the budget is just spent. No line is shown
twice, and of equal or nearly equal chunks one, with the places of the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from knowledge_pipeline.context.tokens import CountTokens
from knowledge_pipeline.contract.describe import cite_other_lines, parse_first_line
from knowledge_pipeline.contract.filters import SectionFormat
from knowledge_pipeline.contract.responses import Citation, ContextExcerpt, OmittedChunk, SearchResult
from knowledge_pipeline.query.assemble import find_first_duplicates
from knowledge_pipeline.query.plan import remove_stopwords
from knowledge_pipeline.records import locate_front_matter
from knowledge_pipeline.text import truncate
from knowledge_pipeline.words import list_stems

DocumentKey = tuple[str, str]  # source, URI


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Consecutive characters of one document, from one or several chunks, or whole lines of such."""

    start_char: int
    body: str
    start_line: int
    end_line: int
    parts: tuple[SearchResult, ...]  # in reading order
    indentation: str = ""  # of its first line

    @classmethod
    def from_result(cls, result: SearchResult) -> Excerpt:
        """All of a chunk."""
        span = result.span
        space = span.space_before or ""
        _, line_break, indentation = space.rpartition("\n")
        begins_line = bool(line_break) or len(space) == span.start_char  # else more than space precedes it
        indentation = indentation if begins_line else ""
        return cls(span.start_char, result.content, span.start_line, span.end_line, (result,), indentation)

    @property
    def end_char(self) -> int:
        """Half-open."""
        return self.start_char + len(self.body)

    @property
    def text(self) -> str:
        """The document's text, with the indentation of its first line."""
        return self.indentation + self.body

    @property
    def lines(self) -> list[str]:
        """Of its text."""
        return self.text.split("\n")

    @property
    def missing_lines(self) -> int:
        """Lines of its chunks that were cut off at the end."""
        return max(0, max(part.span.end_line for part in self.parts) - self.end_line)

    @property
    def citation(self) -> Citation:
        """Where it is from; of what stands elsewhere in its file by now, where it stands."""
        first, last = self.parts[0], self.parts[-1]
        start, end = self.start_line + _count_moved(first), self.end_line + _count_moved(last)
        return cite_other_lines(first.citation, start, end)

    def take_lines(self, first: int, last: int) -> Excerpt:
        """Some of its lines, named by their numbers in the document, both included."""
        before, lines = first - self.start_line, self.lines
        text = "\n".join(lines[before : last - self.start_line + 1])
        if before == 0:
            start_char, indentation = self.start_char, self.indentation
        else:
            skipped = sum(len(line) + 1 for line in lines[:before]) - len(self.indentation)
            start_char, indentation = self.start_char + skipped, ""
        parts = (part for part in self.parts if part.span.start_line <= last and part.span.end_line >= first)
        return Excerpt(start_char, text[len(indentation) :], first, last, tuple(parts), indentation)


def _count_moved(result: SearchResult) -> int:
    """By how many lines a chunk stands below where it was indexed."""
    return parse_first_line(result.citation.lines) - result.span.start_line


def document_key(result: SearchResult) -> DocumentKey:
    """The document of a chunk."""
    return result.citation.source, result.span.uri


def build_excerpts(results: Iterable[SearchResult]) -> list[Excerpt]:
    """Chunks of one document, in any order, as its excerpts in reading order.

    Two chunks are joined if they overlap, or if only the white space that is known to precede the second
    lies between them. Anything else between them would make that distance longer, so an excerpt never hides
    a gap.
    """
    excerpts: list[Excerpt] = []
    ordered = sorted(results, key=lambda result: (result.span.start_char, -len(result.content), result.id))
    for excerpt in map(Excerpt.from_result, ordered):
        if excerpts and (joined := _join_excerpts(excerpts[-1], excerpt)):
            excerpts[-1] = joined
        else:
            excerpts.append(excerpt)
    return excerpts


def _join_excerpts(first: Excerpt, second: Excerpt) -> Excerpt | None:
    """Both as one; None where they do not touch, or are of different versions of the document."""
    between = second.start_char - first.end_char
    if between > 0:
        space = second.parts[0].span.space_before
        if space is None or len(space) != between:
            return None
        body = first.body + space + second.body
    else:
        shared = first.body[second.start_char - first.start_char :][: len(second.body)]
        if not second.body.startswith(shared):
            return None
        body = first.body + second.body[len(shared) :]
    end_line = max(first.end_line, second.end_line)
    parts = (*first.parts, *second.parts)
    return Excerpt(first.start_char, body, first.start_line, end_line, parts, first.indentation)


_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class LineRun:
    """Consecutive lines, by index, both ends included."""

    first: int
    last: int
    gain: float
    tokens: float  # with the heading

    @property
    def density(self) -> float:
        """Gain of a token."""
        return self.gain / self.tokens


def find_best_runs(
    gains: Sequence[float], tokens: Sequence[float], *, price: float, heading_tokens: float
) -> list[LineRun]:
    """The disjoint runs of some consecutive lines that are together worth the most, in order.

    A budget of tokens is a knapsack, and lines beside each other share a heading: a run is worth what its
    lines gain, less the price of their tokens and of its heading.

    Args:
        gains: of each line, not negative.
        tokens: of each line.
        price: in gain, of a token.
        heading_tokens: that each run has in addition.
    """
    inside, outside = _NEVER, 0.0  # the most that the lines so far are worth, if a run goes on, or may not
    extends: list[bool] = []  # whether the run in which a line is the last began before it
    best: list[float] = []  # the most that the lines so far are worth
    for gain, cost in zip(gains, tokens, strict=True):
        begun = outside - price * heading_tokens
        extends.append(inside >= begun)
        inside = max(inside, begun) + gain - price * cost
        outside = max(outside, inside)
        best.append(outside)
    runs: list[LineRun] = []
    last = len(best) - 1
    while last >= 0:
        if best[last] > (best[last - 1] if last else 0.0):
            first = last
            while extends[first]:
                first -= 1
            shown = slice(first, last + 1)
            runs.append(LineRun(first, last, sum(gains[shown]), heading_tokens + sum(tokens[shown])))
            last = first
        last -= 1
    return runs[::-1]


_BASE = 2.0  # gain of a line without any word of the question
_BESIDE = 2  # lines to each side, whose words count as well
_MAX_WORDS = 12  # the rarest, that count as the whole question: issues are long


class WordWeights:
    """The question's words, by how rare they are among the texts that were found."""

    def __init__(self, question: str, texts: Sequence[str]) -> None:
        (question_words,) = list_stems([remove_stopwords(question)])
        counts = Counter(word for stems in list_stems(texts) for word in question_words & stems)
        self._weights = {word: math.log((len(texts) + 1) / (count + 0.5)) for word, count in counts.items()}
        self._total = sum(sorted(self._weights.values())[-_MAX_WORDS:]) or 1.0

    def estimate_gains(self, lines: Sequence[str]) -> list[float]:
        """The gain of each of some consecutive lines, for a chunk that surely answers.

        By the share of the question's words in it and in the lines beside it; a rare word counts for more.
        A line without a letter or a digit, such as a closing bracket, says nothing by itself.
        (docs/decisions/contexts.md)
        """
        weights = self._weights
        shares = [sum(map(weights.__getitem__, stems & weights.keys())) for stems in list_stems(lines)]
        sums = [0.0, *accumulate(shares)]
        gains: list[float] = []
        for at, line in enumerate(lines):
            around = sums[min(at + _BESIDE + 1, len(lines))] - sums[max(at - _BESIDE, 0)]
            gains.append(_BASE + around / self._total if any(map(str.isalnum, line)) else 0.0)
        return gains


_SHARPNESS = 3.0  # power of a chance: what surely answers has also more lines that do
_MIN_CUT_LINES = 3  # of a run that is cut, unless nothing else is shown
_PRICE_STEPS = 24  # halvings of the range in which the price is
_LINE_MARKS, _SUMMARY_CHARS = " \t#*->/\"'`|=", 120
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


Select = Callable[[int], ContextSelection]
"""Selects within so many tokens."""


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
    for index, first in enumerate(find_first_duplicates(candidate.result.content for candidate in ordered)):
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
        """What of it is worth a price; nothing at one that is not below its density."""
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
        self._by_id = {candidate.result.id: candidate for candidate in candidates}
        self._count = count
        self._heading_cost = heading_cost
        self._heading_share = heading_share
        self._chunks: list[OmittedChunk] = []
        for id_, candidate in self._by_id.items():
            result = candidate.result
            tokens = count(result.content) + heading_cost(Excerpt.from_result(result))
            self._chunks.append(OmittedChunk(id_, result.citation, round(candidate.score, 6), tokens))
        self._weights = WordWeights(question, [candidate.result.content for candidate in candidates])
        documents: dict[DocumentKey, list[SearchResult]] = {}
        for candidate in candidates:
            documents.setdefault(document_key(candidate.result), []).append(candidate.result)
        excerpts = (excerpt for results in documents.values() for excerpt in build_excerpts(results))
        self._passages = [self._to_passage(excerpt) for excerpt in excerpts]
        self._runs_at: dict[float, _PassageRuns] = {}  # prices that were tried, as many are again

    def select(self, max_tokens: int) -> ContextSelection:
        """The lines that gain the most, of at most `max_tokens` tokens as counted line by line.

        Headings count by their share.
        """
        runs_over, runs_within = self._find_runs_around(max_tokens)
        runs = self._fit(runs_over, runs_within, max_tokens)
        in_order = sorted(runs, key=lambda pair: (pair[0], pair[1].first))  # documents best first
        excerpts = (self._passages[at].take(run) for at, run in in_order)
        shown = [self._to_context_excerpt(n, excerpt) for n, excerpt in enumerate(excerpts, start=1)]
        return self._build_selection(shown, is_cut=sum(run.tokens for _, run in runs_over) > max_tokens)

    def select_whole(self, get_shown_text: Callable[[str], str], max_tokens: int) -> ContextSelection:
        """What was found whole, documents best first, as much as fits; of its text a part may be shown."""
        shown, left = list[ContextExcerpt](), max_tokens
        for passage in self._passages:
            excerpt = self._to_context_excerpt(len(shown) + 1, passage.excerpt)
            unshown = self._count(excerpt.text) - self._count(get_shown_text(excerpt.text))
            if (tokens := excerpt.tokens - unshown) <= left:
                shown.append(replace(excerpt, tokens=tokens))
                left -= tokens
        return self._build_selection(shown, is_cut=len(shown) < len(self._passages))

    def _build_selection(self, shown: Sequence[ContextExcerpt], *, is_cut: bool) -> ContextSelection:
        shown_ids = {id_ for excerpt in shown for id_ in excerpt.chunks}
        omitted = tuple(chunk for chunk in self._chunks if chunk.id not in shown_ids)
        return ContextSelection(tuple(shown), omitted, sum(excerpt.tokens for excerpt in shown), is_cut)

    def _find_runs_around(self, max_tokens: int) -> tuple[_PassageRuns, _PassageRuns]:
        """What is worth the highest price at which it exceeds the budget; what is at the lowest within it."""
        low, high = 0.0, max((gain for passage in self._passages for gain in passage.gains), default=0.0)
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
                (at, run)
                for at, passage in enumerate(self._passages)
                if passage.density > price
                for run in passage.find_runs(price)
            ]
        return self._runs_at[price]

    def _fit(self, runs: _PassageRuns, runs_within: _PassageRuns, max_tokens: int) -> _PassageRuns:
        """The densest runs, the last of them cut to what of it was worth more, and on from there."""
        left = float(max_tokens)
        fitting = _PassageRuns()
        for at, run in sorted(runs, key=lambda pair: -pair[1].density):
            if run.tokens > left:
                inside = [
                    inner
                    for passage, inner in runs_within
                    if passage == at and run.first <= inner.first and inner.last <= run.last
                ]
                min_lines = _MIN_CUT_LINES if fitting else 1
                kept = self._passages[at].cut_run(run, inside, left, min_lines=min_lines)
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
            for line in range(part.span.start_line, part.span.end_line + 1):
                at = line - excerpt.start_line
                scores[at] = max(scores[at], score)
        gains = self._weights.estimate_gains(excerpt.lines)
        gains = [gain * score**_SHARPNESS for gain, score in zip(gains, scores, strict=True)]
        tokens = [self._count(line.strip()) + 1 for line in excerpt.lines]
        density = max(gain / cost for gain, cost in zip(gains, tokens, strict=True))
        heading_tokens = self._heading_cost(excerpt) * self._heading_share
        return _Passage(excerpt, gains, tokens, heading_tokens, density)

    def _to_context_excerpt(self, number: int, excerpt: Excerpt) -> ContextExcerpt:
        candidates = [self._by_id[part.id] for part in excerpt.parts]
        best = max(candidates, key=lambda candidate: candidate.score)
        metadata = dict(best.result.metadata)
        symbols = [candidate.result.metadata.get("symbol") for candidate in candidates]
        for name in _SINGLE_CHUNK_FIELDS if len(candidates) > 1 else ():
            metadata.pop(name, None)
        places = dict.fromkeys(citation for candidate in candidates for citation in candidate.near_duplicates)
        return ContextExcerpt(
            number=number,
            text=excerpt.text,
            citation=excerpt.citation,
            score=round(best.score, 6),
            tokens=self._count(excerpt.text) + self._heading_cost(excerpt),
            found_by=tuple(dict.fromkeys(name for candidate in candidates for name in candidate.found_by)),
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
    name = str(first.metadata.get("symbol") or "").rpartition(".")[2]
    lines = first.content.split("\n") if name else []
    signature = next((at for at, line in enumerate(lines) if name in line), None)
    if signature is None or first.span.start_line + signature >= excerpt.start_line:
        return None
    return lines[signature].strip()


def summarize(text: str, title: str | None = None) -> str:
    """The first line of a text that says more than its title, without marks of a heading or a comment."""
    front = locate_front_matter(text)
    body = text[front.end :] if front and front.end else text
    lines = (line.strip(_LINE_MARKS) for line in body.split("\n"))
    telling = (line for line in lines if line != title and any(map(str.isalnum, line)))
    return truncate(next(telling, ""), _SUMMARY_CHARS)


SHOWN_TEXTS: Mapping[SectionFormat, Callable[[str], str]] = {
    "full": lambda text: text,
    "list": lambda _: "",
    "summary": summarize,
}
"""What formats that show all results show of the text of each; others show the lines that say most."""


def select_sections(
    sections: Sequence[tuple[str | None, float, Select]], max_tokens: int
) -> ContextSelection:
    """The excerpts of all sections in their order, numbered through.

    Each is selected within the section's share of the budget; what one does not need goes to the others. The
    task's own searches are a section without a name.
    """
    selections: dict[int, ContextSelection] = {}
    left = max_tokens
    waiting: dict[int, tuple[str | None, float, Select]] = dict(enumerate(sections))
    while waiting:
        shares = sum(share for _, share, _ in waiting.values())
        tried = {at: select(max(0, int(left * share / shares))) for at, (_, share, select) in waiting.items()}
        content = {at: selection for at, selection in tried.items() if not selection.is_cut}
        selections |= content or tried
        left -= sum(selection.tokens for selection in content.values())
        waiting = {at: section for at, section in waiting.items() if at not in selections}
    joined = ContextSelection()
    for at, (name, _, _) in enumerate(sections):
        selection, first = selections[at], len(joined.excerpts) + 1
        numbered = enumerate(selection.excerpts, start=first)
        excerpts = tuple(replace(excerpt, number=number) for number, excerpt in numbered)
        numbers = {name: tuple(excerpt.number for excerpt in excerpts)} if name else {}
        joined = ContextSelection(
            (*joined.excerpts, *excerpts),
            (*joined.omitted, *selection.omitted),
            joined.tokens + selection.tokens,
            joined.is_cut or selection.is_cut,
            {**joined.sections, **numbers},
        )
    return joined


def leave_out_shown(
    candidates: Iterable[ContextCandidate], shown: Iterable[SearchResult]
) -> list[ContextCandidate]:
    """The candidates that overlap with nothing that another section has: no line is shown twice."""
    spans: dict[DocumentKey, list[tuple[int, int]]] = {}
    for result in shown:
        spans.setdefault(document_key(result), []).append((result.span.start_char, result.span.end_char))
    return [
        candidate
        for candidate in candidates
        if not any(
            start < candidate.result.span.end_char and candidate.result.span.start_char < end
            for start, end in spans.get(document_key(candidate.result), ())
        )
    ]
