"""The results of a search for people: citations first, then content, within bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from knowledge_pipeline.cli.render.relations import format_document_name
from knowledge_pipeline.cli.render.screen import Screen
from knowledge_pipeline.cli.render.terminal_text import format_count, one_line, truncate
from knowledge_pipeline.query.describe import (
    describe_blame,
    describe_branches,
    describe_doubt,
    describe_neighbours,
    describe_relation,
    describe_skipped_step,
)

if TYPE_CHECKING:
    from knowledge_pipeline.contract.responses.search import ScoreExplanation, SearchResponse, SearchResult

_MAX_LINE_CHARS = 200
_MAX_FULL_LINE_CHARS = 20_000
_MAX_NEIGHBOURS = 3  # of each kind
_MAX_COMMITS = 5  # that changed the lines of a result


def show_results(screen: Screen, answer: SearchResponse, *, lines: int | None, scores: bool = True) -> None:
    """Show results in their order, each with at most so many `lines` (None: all)."""
    screen.print_json(answer.as_json())
    for step in answer.degraded:
        note = describe_skipped_step(step, answer.embedded_share).rstrip(".")
        why = answer.explain["degraded"].get(step) if answer.explain else None
        reason = one_line(_format_nested(why)) if why else "--explain says why"
        screen.print_note(f"note: {note[:1].lower()}{note[1:]} ({reason})")
    corrected: Mapping[str, str] = (answer.explain or {}).get("corrected") or {}
    for word, near in corrected.items():
        screen.print_note(f"note: {word!r} is in no document, and was read as {near!r}")
    if doubt := describe_doubt(answer):
        screen.print_note(f"note: {doubt[:1].lower()}{doubt[1:].rstrip('.')}")
    for number, result in enumerate(answer.results, start=1):
        screen.print_text(_format_heading(number, result, scores=scores), style="bold cyan")
        if result.explain:
            screen.print_text(f"   {_format_explanation(result.explain)}")
        if lines != 0:
            _show_content(screen, result, lines)
        for line in describe_blame(result.blame or (), max_named=_MAX_COMMITS):
            screen.print_text(f"   {one_line(line)}", style="dim")
        if result.related:
            related = (
                f"{describe_relation(each)} {format_document_name(each.document)} [{each.document.source}]"
                for each in result.related
            )
            screen.print_text(f"   {' · '.join(related)}", style="dim")
        if result.graph:
            for line in describe_neighbours(result.graph, max_named=_MAX_NEIGHBOURS):
                screen.print_text(f"   {one_line(line)}", style="dim")
        screen.print_text()
    if not answer.results:
        screen.print_text("Nothing was found.")
    if answer.explain:
        steps = ", ".join(f"{step} {spent:.1f}" for step, spent in answer.timings_ms.items())
        screen.print_text(
            f"query {answer.query_id}, release {answer.release}, {answer.took_ms:.1f} ms: {steps}"
        )


def show_search_steps(screen: Screen, answer: SearchResponse) -> None:
    """Show how an answer was found: the question as understood, the steps, the candidates."""
    screen.print_json(answer.as_json())
    explain = answer.explain or {}
    understood = {
        **explain.get("question", {}),
        **{
            name: explain.get(name)
            for name in ("corrected", "generated", "filters", "confidence", "degraded")
        },
    }
    rows = [{"understood": name, "as": _format_nested(value)} for name, value in understood.items() if value]
    screen.print_table(rows)
    steps = [{"step": step, "ms": spent} for step, spent in answer.timings_ms.items()]
    screen.print_table([*steps, {"step": "all", "ms": answer.took_ms}], right_aligned=("ms",))
    rows = [_candidate_row(rank, result) for rank, result in enumerate(answer.results, start=1)]
    numbers = ("#", "score", "vector", "cosine", "words", "bm25", "fused", "rerank")
    screen.print_table(rows, right_aligned=numbers)
    if not answer.results:
        screen.print_text("Nothing was found.")


def _format_heading(number: int, result: SearchResult, *, scores: bool) -> str:
    """`1. src/flask/app.py:10-24  0.83  Flask.run  [flask-code]`, and the id that `get` takes."""
    score = f"  {result.score:.2f}" if scores else ""
    label = "  ".join(filter(None, (_format_label(result), one_line(describe_branches(result)))))
    return (
        f"{number}. {_format_location(result)}{score}{f'  {label}' if label else ''}"
        f"  [{result.citation.source}]  {result.id}"
    )


def _format_location(result: SearchResult) -> str:
    citation = result.citation
    return f"{one_line(citation.path or citation.url or '')}:{citation.lines.replace('L', '')}"


def _format_label(result: SearchResult) -> str:
    known = result.metadata
    label = known.get("symbol") or known.get("section") or result.citation.title or ""
    page = f" (page {known['page']})" if known.get("page") else ""
    return truncate(one_line(str(label)), 80) + page


def _show_content(screen: Screen, result: SearchResult, lines: int | None) -> None:
    every = result.content.split("\n")
    longest = _MAX_LINE_CHARS if lines is not None else _MAX_FULL_LINE_CHARS
    shown = [truncate(line, longest) for line in every[:lines]]
    first = re.search(r"\d+", result.citation.lines)
    language, first_line = result.metadata.get("language"), int(first[0]) if first else 1
    screen.print_code("\n".join(shown), language=language, first_line=first_line)
    if len(every) > len(shown):
        rest = format_count(len(every) - len(shown), "more line")
        screen.print_text(f"   … {rest}: knowledge get {result.id}")


def _format_explanation(explanation: ScoreExplanation) -> str:
    parts = [
        f"words #{explanation.bm25_rank} {explanation.bm25_score:.2f}" if explanation.bm25_rank else "",
        f"vector #{explanation.vector_rank} {explanation.vector_score:.3f}"
        if explanation.vector_rank
        else "",
        *(f"{name} {boost:+.2f}" for name, boost in explanation.boosts.items()),
        f"fused {explanation.fused:.3f}",
        f"reranked {explanation.rerank:.3f}" if explanation.rerank is not None else "",
    ]
    return " · ".join(part for part in parts if part)


def _format_nested(value: Any) -> str:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return "; ".join(f"{name}: {_format_nested(inner)}" for name, inner in items)
    is_list = isinstance(value, (list, tuple))
    return ", ".join(map(_format_nested, cast("Sequence[Any]", value))) if is_list else str(value)


def _candidate_row(rank: int, result: SearchResult) -> dict[str, Any]:
    why = result.explain
    assert why is not None
    return {
        "#": rank,
        "score": _format_score(result.score),
        "words": why.bm25_rank,
        "bm25": _format_score(why.bm25_score),
        "vector": why.vector_rank,
        "cosine": _format_score(why.vector_score),
        "boosts": ", ".join(f"{name} {boost:+.2f}" for name, boost in why.boosts.items()),
        "fused": _format_score(why.fused),
        "rerank": _format_score(why.rerank),
        "where": _format_location(result),
        "what": _format_label(result),
        "space": why.space,
    }


def _format_score(score: float | None) -> str | None:
    return None if score is None else f"{score:.3f}"
