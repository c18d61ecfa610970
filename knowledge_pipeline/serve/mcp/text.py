"""Answers as text for a model: the place of each result, then its content; each node once, with its edges."""

from __future__ import annotations

import re
from collections.abc import Iterable

from knowledge_pipeline.contract import describe, responses
from knowledge_pipeline.serve.mcp import outputs
from knowledge_pipeline.serve.mcp.advice import drop_commands
from knowledge_pipeline.serve.mcp.outputs import (
    NO_RESULTS,
    DocumentPage,
    GraphItem,
    GraphPage,
    ResultsPage,
    SourceItem,
    SourcesPage,
    ToolPage,
    ToolResult,
)


def render_answer(answer: responses.SearchResponse) -> str:
    """All results of an answer, each as `[n] path:lines`, its labels, and its content."""
    results = tuple(outputs.to_result(number, result) for number, result in enumerate(answer.results, 1))
    return render_results(
        ResultsPage(query_id=answer.query_id, notes=outputs.list_notes(answer), results=results)
    )


def render_results(page: ResultsPage) -> str:
    """What the answer lacks and whether it is doubted, in parentheses; its results; how to read on."""
    notes = [note if note == NO_RESULTS else f"({note})" for note in page.notes]
    if not page.results:
        return "\n".join(notes)
    render, separator = (_render_place, "\n") if page.is_compact else (_render_result, "\n\n")
    return separator.join([*notes, *map(render, page.results)]) + _render_end(page)


def render_document(page: DocumentPage) -> str:
    """Chunks of one document, assembled, and how to read on."""
    head = f"{page.path}\n{' · '.join(page.labels)}\ndocument {page.document_id}"
    bodies = [
        f"lines {result.location.removeprefix(page.path).lstrip(':')}\n{_fence(result)}"
        for result in page.results
    ]
    end = page.next_offset
    more = [f"Chunks {page.offset + 1} to {end} of {page.total}: read on with offset={end}."] if end else []
    return "\n\n".join([head, *bodies, *page.notes, *more])


def render_context(context: responses.ContextResponse) -> str:
    """The prompt, and what was searched for it."""
    return f"{context.text.rstrip()}\n\n({describe_searches(context)})"


def describe_searches(context: responses.ContextResponse) -> str:
    """What was searched for a context, what it shows of that, and whose file is another one now."""
    states = ((excerpt, outputs.describe_file_state(excerpt.file_state)) for excerpt in context.excerpts)
    notes = [f"[{excerpt.number}] {state}" for excerpt, state in states if state]
    omitted = f", {len(context.omitted)} chunks did not fit" if context.omitted else ""
    size = f"{context.tokens} of {context.max_tokens} tokens, {len(context.excerpts)} excerpts{omitted}"
    runs = (*context.searches, *(context.sections or ()))
    searched = "; ".join(f"{run.name}: {_format_outcome(run)}" for run in runs)
    sentences = "".join(f" {drop_commands(describe.to_sentence(note))}" for note in context.notes)
    return f"Searched {searched}. {'; '.join([size, *notes])}.{sentences}"


def fence_block(content: str, language: str = "") -> str:
    """Content in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _fence(result: ToolResult) -> str:
    return fence_block(result.content, result.language or "")


def _render_end(page: ToolPage) -> str:
    return f"\n\n(Read on with offset={page.next_offset}.)" if page.next_offset else ""


def _render_place(result: ToolResult) -> str:
    shown = [result.title, result.content, *(result.labels or ()), f"id {result.id}"]
    return f"[{result.number}] {result.location}  {' · '.join(filter(None, shown))}"


def _render_result(result: ToolResult) -> str:
    labels = [result.title, f"source {result.source}", f"score {result.score:.2f}", *(result.labels or ())]
    head = f"[{result.number}] {result.location}  {' · '.join(filter(None, labels))}"
    ids = f"id {result.id} · document {result.document_id}"
    return "\n".join([head, ids, _fence(result), *(result.details or ())])


def _format_outcome(run: responses.SearchRun | responses.ContextSection) -> str:
    if run.problem:
        return f"could not be searched ({drop_commands(run.problem)})"
    skipped = f" ({', '.join(f'without {step}' for step in run.degraded)})" if run.degraded else ""
    return f"{run.found} found, {run.shown} shown{skipped}"


_SECTIONS = {"used_by": "Uses it", "uses": "Used by it", "member": "Defined in it"}


def render_graph(page: GraphPage) -> str:
    """The targets, then what was found by its role, then notes."""
    lines = list(_iter_candidates(page))
    for node in page.nodes:
        if node.role == "target":
            lines.append(f"{_format_item(node)}{f'  {node.signature}' if node.signature else ''}")
    for role, title in _SECTIONS.items():
        nodes = [node for node in page.nodes if node.role == role]
        lines += [f"{title}:" for _ in nodes[:1]]
        for node in nodes:
            distance = f"  ({node.distance} steps away)" if node.distance else ""
            score = f"  score {node.score:.2f}" if node.score is not None else ""
            lines.append(f"- {_format_item(node)}{distance}{score}")
            lines += [f"    {use}" for use in node.uses or ()]
    lines += ["Between them:", *(f"- {use}" for use in page.between)] if page.between else []
    return "\n".join([*lines, *(f"({note}.)" for note in page.notes)]) + _render_end(page)


def _iter_candidates(page: GraphPage) -> Iterable[str]:
    if page.candidates:
        yield f"`{page.target}` may mean several things. Ask again with one of these as the target:"
    for node in page.candidates or ():
        within = f"  (sources=[{node.source!r}])" if node.source else ""
        path = (node.location or "").rpartition(":")[0] or node.location or ""
        target = node.location if node.kind == "file" else f"{path}:{node.name}"
        yield f"- {target}  {node.kind}, {node.location}{within}"


def _format_item(node: GraphItem) -> str:
    if node.location is None:
        return f"{node.kind} {node.name}"
    label = (
        f"{node.kind} {node.location}" if node.kind == "file" else f"{node.kind} {node.name}  {node.location}"
    )
    return f"{label}  [{node.source}]"


def render_sources(page: SourcesPage) -> str:
    """Sources, each with its type, repositories and languages; how many there are, and how to read on."""
    notes = [f"({note})" for note in page.notes]
    return "\n".join([*map(_format_source, page.sources), *notes]) + _render_end(page)


def _format_source(source: SourceItem) -> str:
    chunks = f"{source.chunks:,} chunks" if source.chunks else ""
    repos = f"repos {', '.join(source.repos)}" if source.repos else ""
    labels = [source.type, repos, ", ".join(source.languages or ()), chunks]
    return f"- {source.id}  {' · '.join(filter(None, labels))}".rstrip()
