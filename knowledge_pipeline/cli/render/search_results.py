"""An answer as a person reads it: citations first, content after, bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.related import named
from knowledge_pipeline.cli.render.screen import Screen
from knowledge_pipeline.cli.render.terminal_text import counted, one_line, shortened
from knowledge_pipeline.query.describe import said, surroundings

if TYPE_CHECKING:
    from knowledge_pipeline.query.search.assemble import Answer, Relation, Result
    from knowledge_pipeline.query.search.hits import Explanation

_LINE_CHARS = 200
_WHOLE_LINE_CHARS = 20_000
_NEIGHBOURS = 3  # of each kind
_WITHOUT = {
    "vector": "searched by words alone, because the embedding model could not be used",
    "hyde": "searched without a hypothetical answer, because the language model did not make one",
    "expansion": "searched without related terms, because the language model did not name any",
    "decompose": "searched as one question, because the language model did not take it apart",
    "graph": "without what calls the code and what it calls, because there is no code graph to read",
    "rerank": "not reranked, because the reranker could not be used or took too long",
}


def show(screen: Screen, answer: Answer, *, lines: int | None, scores: bool = True) -> None:
    """Show results in their order.

    Args:
        screen: where to.
        answer: the results.
        lines: how many lines of each result at most; None: all.
        scores: whether a score means anything here.
    """
    if screen.as_json:
        screen.answer(answer.as_json())
        return
    for step in answer.degraded:
        screen.note(f"note: {_without(step, answer)}")
    for number, result in enumerate(answer.results, start=1):
        screen.say(_head(number, result, scores=scores), style="bold cyan")
        if result.explain:
            screen.say(f"   {_explained(result.explain)}")
        if lines != 0:
            _show_content(screen, result, lines)
        if result.related:
            screen.say(f"   {' · '.join(map(_relation, result.related))}", style="dim")
        if result.graph:
            told = [f"   {one_line(line)}" for line in surroundings(result.graph, most=_NEIGHBOURS)]
            screen.say("\n".join(told), style="dim")
        screen.say()
    if not answer.results:
        screen.say("Nothing was found.")
    if answer.explain:
        screen.say(_timed(answer))


def show_steps(screen: Screen, answer: Answer) -> None:
    """Show how the answer came to be: the question as understood, the steps, the candidates."""
    if screen.as_json:
        screen.answer(answer.as_json())
        return
    screen.table([{"understood": name, "as": text} for name, text in _understood(answer)])
    steps = [{"step": step, "ms": spent} for step, spent in answer.timings_ms.items()]
    screen.table([*steps, {"step": "all", "ms": answer.took_ms}], right=("ms",))
    rows = [_candidate(rank, result) for rank, result in enumerate(answer.results, start=1)]
    screen.table(rows, right=("#", "score", "vector", "cosine", "words", "bm25", "fused", "rerank"))
    if not answer.results:
        screen.say("Nothing was found.")


def _without(step: str, answer: Answer) -> str:
    """What the answer had to do without, and why where it was asked for."""
    what = _WITHOUT.get(step, f"answered without {step}")
    why = answer.explain["degraded"].get(step) if answer.explain else None
    return f"{what}: {one_line(_listed(why))}" if why else f"{what} (--explain says why)"


def _head(number: int, result: Result, *, scores: bool) -> str:
    """`1. src/flask/app.py:10-24  0.83  Flask.run  [flask-code]`, and the id that `get` takes."""
    score = f"  {result.score:.2f}" if scores else ""
    label = _label(result)
    return (
        f"{number}. {_place(result)}{score}{f'  {label}' if label else ''}"
        f"  [{result.citation.source}]  {result.id}"
    )


def _place(result: Result) -> str:
    citation = result.citation
    return f"{one_line(citation.path or citation.url or '')}:{citation.lines.replace('L', '')}"


def _label(result: Result) -> str:
    known = result.metadata
    label = known.get("symbol") or known.get("section") or result.citation.title or ""
    page = f" (page {known['page']})" if known.get("page") else ""
    return shortened(one_line(str(label)), 80) + page


def _relation(relation: Relation) -> str:
    return f"{said(relation)} {named(relation.document)} [{relation.document.source}]"


def _show_content(screen: Screen, result: Result, lines: int | None) -> None:
    every = result.content.split("\n")
    longest = _LINE_CHARS if lines is not None else _WHOLE_LINE_CHARS
    shown = [shortened(line, longest) for line in every[:lines]]
    first = re.search(r"\d+", result.citation.lines)
    screen.code(
        "\n".join(shown),
        language=result.metadata.get("language"),
        first_line=int(first[0]) if first else 1,
    )
    if len(every) > len(shown):
        screen.say(f"   … {counted(len(every) - len(shown), 'more line')}: knowledge get {result.id}")


def _explained(explanation: Explanation) -> str:
    parts = [
        f"words #{explanation.bm25_rank} {explanation.bm25_score:.2f}" if explanation.bm25_rank else "",
        f"vector #{explanation.vector_rank} {explanation.vector_score:.3f}"
        if explanation.vector_rank
        else "",
        *(f"{name} boost {boost:.2f}" for name, boost in explanation.boosts.items()),
        f"fused {explanation.fused:.3f}",
        f"reranked {explanation.rerank:.3f}" if explanation.rerank is not None else "",
    ]
    return " · ".join(part for part in parts if part)


def _timed(answer: Answer) -> str:
    steps = ", ".join(f"{step} {spent:.1f}" for step, spent in answer.timings_ms.items())
    return f"query {answer.query_id}, release {answer.release}, {answer.took_ms:.1f} ms: {steps}"


def _understood(answer: Answer) -> list[tuple[str, str]]:
    explain = answer.explain or {}
    question: Mapping[str, Any] = explain.get("question", {})
    found = {**question, **{name: explain.get(name) for name in ("generated", "filters", "degraded")}}
    return [(name, _listed(value)) for name, value in found.items() if value]


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_listed(inner)}" for name, inner in value.items())
    return ", ".join(map(_listed, value)) if isinstance(value, (list, tuple)) else str(value)


def _candidate(rank: int, result: Result) -> dict[str, Any]:
    why = result.explain
    assert why is not None
    return {
        "#": rank,
        "score": _rounded(result.score),
        "words": why.bm25_rank,
        "bm25": _rounded(why.bm25_score),
        "vector": why.vector_rank,
        "cosine": _rounded(why.vector_score),
        "boosts": ", ".join(f"{name} {boost:.2f}" for name, boost in why.boosts.items()),
        "fused": _rounded(why.fused),
        "rerank": _rounded(why.rerank),
        "where": _place(result),
        "what": _label(result),
        "space": why.space,
    }


def _rounded(score: float | None) -> str | None:
    return None if score is None else f"{score:.3f}"
