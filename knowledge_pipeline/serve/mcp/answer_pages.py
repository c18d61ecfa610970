"""Pages of answers: what fits a limit of tokens, from an offset on, in full or as places with signatures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from knowledge_pipeline.contract.responses.graph import GraphResponse
from knowledge_pipeline.contract.responses.search import SearchResponse, SearchResult
from knowledge_pipeline.query.agent_context.tokens import estimate_tokens
from knowledge_pipeline.serve.mcp.graph_text_renderer import render_graph_answer
from knowledge_pipeline.serve.text_renderer import render_answer, render_document, render_places

_NOTE_TOKENS = 40  # of the sentence that says how to read on


def page_search(
    answer: SearchResponse, *, offset: int, limit: int, compact: bool, max_tokens: int
) -> tuple[SearchResponse, str]:
    """The results from an offset on that fit, and their text."""
    rest = answer.results[offset:]
    render = render_places if compact else render_answer

    def render_first(count: int) -> str:
        return render(replace(answer, results=rest[:count]), first_number=offset + 1)

    count = _count_fitting(len(rest), render_first, max_tokens)
    shown = rest[:count] or _cut_first(rest, max_tokens)
    end = offset + len(shown)
    page = replace(answer, results=shown)
    text = render(page, first_number=offset + 1)
    has_more = len(shown) < len(rest) or (shown and len(rest) == limit)
    return page, f"{text}\n\n(Read on with offset={end}.)" if has_more else text


def page_document(
    answer: SearchResponse, *, offset: int, limit: int, compact: bool, max_tokens: int
) -> tuple[SearchResponse, str]:
    """The chunks of a document from an offset on that fit, and their text."""
    total = len(answer.results)
    rest = answer.results[offset:][:limit]

    def render_first(count: int) -> str:
        if compact:
            return render_places(replace(answer, results=rest[:count]), first_number=offset + 1)
        return render_document(rest[: max(count, 1)], offset=offset, total=total)

    count = _count_fitting(len(rest), render_first, max_tokens)
    shown = rest[:count] or _cut_first(rest, max_tokens)
    page = replace(answer, results=shown)
    if not compact:
        return page, render_document(shown, offset=offset, total=total)
    end = offset + len(shown)
    text = render_places(page, first_number=offset + 1)
    return page, f"{text}\n\n(Read on with offset={end}.)" if end < total else text


def page_graph(
    answer: GraphResponse, *, offset: int, limit: int, compact: bool, max_tokens: int
) -> tuple[GraphResponse, str]:
    """The targets, what was found from an offset on that fits, and their text; compact: without edges."""
    rest = answer.matches[offset:]

    def take_first(count: int) -> GraphResponse:
        left_out = {node.id for node in answer.matches} - {node.id for node in rest[:count]}
        nodes = tuple(node for node in answer.nodes if node.id not in left_out)
        kept = {node.id for node in nodes}
        edges = tuple(each for each in answer.edges if not compact and {each.source, each.target} <= kept)
        has_more = count < len(rest) or (count and len(rest) == limit)
        more = (f"read on with offset={offset + count}",) if has_more else ()
        return replace(answer, nodes=nodes, edges=edges, notes=(*answer.notes, *more))

    count = _count_fitting(len(rest), lambda count: render_graph_answer(take_first(count)), max_tokens)
    page = take_first(max(count, min(1, len(rest))))
    return page, render_graph_answer(page)


def _count_fitting(total: int, render_first: Callable[[int], str], max_tokens: int) -> int:
    """How many of some items fit, by the text of the first few."""
    fitting, too_many, count = 0, total + 1, total  # mostly all fit
    while fitting < count < too_many:
        if estimate_tokens(render_first(count)) + _NOTE_TOKENS <= max_tokens:
            fitting = count
        else:
            too_many = count
        count = (fitting + too_many) // 2
    return fitting


def _cut_first(results: tuple[SearchResult, ...], max_tokens: int) -> tuple[SearchResult, ...]:
    """The first result alone, cut at a line so that it fits."""
    if not results:
        return ()
    lines = results[0].content.split("\n")
    room, kept = max_tokens - 5 * _NOTE_TOKENS, list[str]()
    for line in lines:
        room -= estimate_tokens(line) + 1
        if room < 0:
            break
        kept.append(line)
    if not kept:
        kept = [lines[0][: max(80, 2 * max_tokens)]]
    missing = len(lines) - len(kept)
    content = "\n".join([*kept, f"… {missing} more lines"] if missing else kept)
    return (replace(results[0], content=content, graph=None, related=()),)
