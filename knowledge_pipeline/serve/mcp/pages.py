"""Cuts answers into pages: what fits a limit of tokens, from an offset on, in full or as places.

Where programs get a structured part, it has to fit as well: many clients hand the model that alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

from knowledge_pipeline.context.select import build_excerpts
from knowledge_pipeline.context.tokens import estimate_tokens
from knowledge_pipeline.contract.operation import IndexedSourcesResponse
from knowledge_pipeline.contract.responses import (
    ContextExcerpt,
    ContextResponse,
    GraphNode,
    GraphResponse,
    SearchResponse,
    SearchResult,
)
from knowledge_pipeline.serve.documents import document_id_of
from knowledge_pipeline.serve.mcp import outputs
from knowledge_pipeline.serve.mcp import text as texts
from knowledge_pipeline.serve.mcp.outputs import SourceItem, SourcesPage, ToolPage

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """An answer twice: for programs, and for a model to read."""

    page: ToolPage
    text: str

    @property
    def structured_content(self) -> dict[str, Any]:
        """The page as JSON."""
        return self.page.as_json()


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """How long an answer may be."""

    max_tokens: int
    has_structured: bool = False  # whether programs get it as well

    def allows(self, output: ToolOutput) -> bool:
        """Whether both parts fit, those that are sent."""
        parts = [output.text]
        if self.has_structured:
            written = json.dumps(output.structured_content, ensure_ascii=False)  # as clients do for a model
            parts.append(written)
        return all(estimate_tokens(part) <= self.max_tokens for part in parts)

    def fit(
        self,
        items: Sequence[ItemT],
        build: Callable[[Sequence[ItemT]], ToolOutput],
        cut: Callable[[ItemT, int], ItemT],
    ) -> ToolOutput:
        """As many of the first items as fit; where not even one does, what `cut` leaves of it.

        `cut` takes the tokens that are left for the content.
        """
        fitting, too_many, tried = 0, len(items) + 1, len(items)  # mostly all fit
        while fitting < tried < too_many:
            if self.allows(build(items[:tried])):
                fitting = tried
            else:
                too_many = tried
            tried = (fitting + too_many) // 2
        output, room = build(items[:fitting]), self.max_tokens
        while items and not fitting and room:
            room = room * 7 // 8
            output = build([cut(items[0], room)])
            if self.allows(output):
                break
        return output


def page_search(
    answer: SearchResponse, *, offset: int, limit: int, compact: bool, limits: AnswerLimits
) -> ToolOutput:
    """The results from an offset on that fit."""
    rest = answer.results[offset:]
    convert = outputs.to_place if compact else outputs.to_result

    def build(results: Sequence[SearchResult]) -> ToolOutput:
        end, has_more = offset + len(results), len(results) < len(rest) or len(rest) == limit
        page = outputs.ResultsPage(
            query_id=answer.query_id,
            notes=outputs.list_notes(replace(answer, results=tuple(results))),
            freshness=outputs.list_freshness(answer, (it.citation.source for it in results)),
            results=tuple(map(convert, count(offset + 1), results)),
            is_compact=compact,
            next_offset=end if results and has_more else None,
        )
        return ToolOutput(page, texts.render_results(page))

    return limits.fit(rest, build, _cut_result)


def page_document(
    answer: SearchResponse, *, offset: int, limit: int, compact: bool, limits: AnswerLimits
) -> ToolOutput:
    """The chunks of a document from an offset on that fit."""
    rest, total = answer.results[offset:][:limit], len(answer.results)

    def build(results: Sequence[SearchResult]) -> ToolOutput:
        end = offset + len(results)
        labels, notes = outputs.describe_document(results or rest[:1])
        missing = outputs.list_notes(replace(answer, results=rest))
        shown = map(outputs.from_document, count(1), build_excerpts(results))
        page = outputs.DocumentPage(
            query_id=answer.query_id,
            path=rest[0].citation.path,
            document_id=document_id_of(rest[0]),
            labels=labels,
            notes=missing if compact else (*missing, *notes),
            freshness=outputs.list_freshness(answer, (it.citation.source for it in results)),
            results=tuple(map(outputs.to_place, count(offset + 1), results) if compact else shown),
            is_compact=compact,
            offset=offset,
            total=total,
            next_offset=end if end < total else None,
        )
        return ToolOutput(page, (texts.render_results if compact else texts.render_document)(page))

    return limits.fit(rest, build, _cut_result)


def page_context(context: ContextResponse, *, limits: AnswerLimits) -> ToolOutput:
    """A context, whose prompt fits already; of its excerpts a structured part has the best that fit.

    Sentences on how its task was read are left out where the budget has no room for them.
    """
    text = texts.render_context(context)
    if estimate_tokens(text) > limits.max_tokens:
        context = replace(context, notes=())
        text = texts.render_context(context)

    def build(excerpts: Sequence[ContextExcerpt]) -> ToolOutput:
        missing = len(context.excerpts) - len(excerpts)
        notes = [f"{missing} more excerpts are in the text alone."] if missing else []
        page = outputs.ResultsPage(
            query_id=context.query_id,
            notes=(texts.describe_searches(context), *notes),
            freshness=outputs.list_freshness(context, (it.citation.source for it in excerpts)),
            results=tuple(map(outputs.from_context, sorted(excerpts, key=lambda excerpt: excerpt.number))),
        )
        return ToolOutput(page, text)

    if not limits.has_structured:
        return build(context.excerpts)
    best_first = sorted(context.excerpts, key=lambda excerpt: -excerpt.score)
    return limits.fit(
        best_first, build, lambda excerpt, room: replace(excerpt, text=_cut_at_lines(excerpt.text, room))
    )


_MAX_OWN_NODES = (100, 30, 10, 3)  # of the target, where all of them are too many: each in turn


def page_graph(
    answer: GraphResponse, *, offset: int, limit: int, compact: bool, limits: AnswerLimits
) -> ToolOutput:
    """The targets, and what was found from an offset on that fits; compact: without uses."""
    rest, ids_of_matches = answer.matches[offset:], {node.id for node in answer.matches}
    own = [node for node in answer.nodes if node.id not in ids_of_matches]

    def build(shown: Sequence[GraphNode], *, uses: bool = not compact, most: int | None = None) -> ToolOutput:
        ids = {node.id for node in (*shown, *own[:most])}
        hidden = len(own[most:] if most else ()) + len(answer.candidates[most:] if most else ())
        has_more = len(shown) < len(rest) or (bool(shown) and len(rest) == limit)
        page = outputs.to_graph_page(
            replace(
                answer,
                nodes=tuple(node for node in answer.nodes if node.id in ids),
                edges=tuple(edge for edge in answer.edges if uses and {edge.source, edge.target} <= ids),
                candidates=answer.candidates[:most],
            ),
            is_empty=not ids_of_matches,
            notes=[f"{hidden} more of the target are not shown: ask for a part of it"] if hidden else [],
            next_offset=offset + len(shown) if has_more else None,
        )
        return ToolOutput(page, texts.render_graph(page))

    output = limits.fit(rest, build, lambda node, _: node)
    for most in (None, *_MAX_OWN_NODES):
        if limits.allows(output):
            break
        output = build(rest[:1], uses=False, most=most)
    return output


def page_sources(
    answer: IndexedSourcesResponse, *, offset: int, compact: bool, limits: AnswerLimits
) -> ToolOutput:
    """The sources from an offset on that fit; compact: their ids alone."""
    items = [outputs.to_source_item(source, compact=compact) for source in answer.sources]

    def build(shown: Sequence[SourceItem]) -> ToolOutput:
        end = offset + len(shown)
        page = SourcesPage(
            notes=outputs.describe_sources(answer),
            sources=tuple(shown),
            next_offset=end if end < len(items) else None,
        )
        return ToolOutput(page, texts.render_sources(page))

    return limits.fit(items[offset:], build, lambda source, _: replace(source, repos=None, languages=None))


def _cut_result(result: SearchResult, room: int) -> SearchResult:
    return replace(result, content=_cut_at_lines(result.content, room), graph=None, related=())


def _cut_at_lines(text: str, room: int) -> str:
    """The first lines of a text, as many as there is room for, and how many are missing."""
    lines, kept, left = text.split("\n"), list[str](), room
    for line in lines:
        left -= estimate_tokens(line) + 1
        if left < 0:
            break
        kept.append(line)
    if not kept:
        kept = [f"{lines[0][: max(80, 2 * room)]} …"]
    missing = len(lines) - len(kept)
    return "\n".join([*kept, f"… {missing} more lines"] if missing else kept)
