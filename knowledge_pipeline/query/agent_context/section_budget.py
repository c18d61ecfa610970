"""Divides a budget between the sections of a context. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from knowledge_pipeline.contract.responses.search import SearchResult
from knowledge_pipeline.query.agent_context.excerpts import DocumentKey, document_key
from knowledge_pipeline.query.agent_context.select import (
    ContextCandidate,
    ContextSelection,
    ExcerptSelector,
)


@dataclass(frozen=True, slots=True)
class SectionSelector:
    """Selects for one section, or for the task's own searches, whose name is None."""

    name: str | None
    share: float
    selector: ExcerptSelector


@dataclass(frozen=True, slots=True)
class SectionedSelector:
    """Selects for several sections, each within its share; what one does not need goes to the others."""

    sections: Sequence[SectionSelector]  # in the order shown

    def select(self, max_tokens: int) -> ContextSelection:
        """The excerpts of all sections, numbered through."""
        selections: dict[int, ContextSelection] = {}
        left = max_tokens
        waiting: dict[int, SectionSelector] = dict(enumerate(self.sections))
        while waiting:
            shares = sum(each.share for each in waiting.values())
            tried = {
                at: each.selector.select(max(0, int(left * each.share / shares)))
                for at, each in waiting.items()
            }
            content = {at: selection for at, selection in tried.items() if not selection.is_cut}
            selections |= content or tried
            left -= sum(each.tokens for each in content.values())
            waiting = {at: each for at, each in waiting.items() if at not in selections}
        return self._join([selections[at] for at in range(len(self.sections))])

    def _join(self, selections: Sequence[ContextSelection]) -> ContextSelection:
        joined = ContextSelection()
        for section, selection in zip(self.sections, selections, strict=True):
            first = len(joined.excerpts) + 1
            excerpts = tuple(
                replace(each, number=n) for n, each in enumerate(selection.excerpts, start=first)
            )
            numbers = {section.name: tuple(each.number for each in excerpts)} if section.name else {}
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
        each
        for each in candidates
        if not any(
            start < each.result.span.end_char and each.result.span.start_char < end
            for start, end in spans.get(document_key(each.result), ())
        )
    ]
