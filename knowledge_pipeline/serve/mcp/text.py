"""Answers as text for a model: the place of each result, then its content; each node once, with its edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from knowledge_pipeline.context.select import build_excerpts
from knowledge_pipeline.contract import describe, responses
from knowledge_pipeline.serve.documents import document_id_of

NO_RESULTS = (
    "Nothing was found that you may see. Try other words, fewer or wider filters, or search everything."
)

_MAX_NEIGHBOURS = 5  # of each kind
_MAX_COMMITS = 5  # that changed the lines of a result
_FILE_STATES = {"changed": "changed since it was indexed", "missing": "its file is gone"}
_MAX_PLACE_CHARS = 120  # of the line that stands for a result


def render_answer(answer: responses.SearchResponse, *, first_number: int = 1) -> str:
    """Results, each as `[n] path:lines`, its labels, and its content."""
    return _render_numbered(answer, first_number, _render_result, separator="\n\n")


def render_places(answer: responses.SearchResponse, *, first_number: int = 1) -> str:
    """Results without their content: each as `[n] path:lines`, its first telling line, and its id."""
    return _render_numbered(answer, first_number, _render_place, separator="\n")


def _render_numbered(
    answer: responses.SearchResponse,
    first: int,
    render: Callable[[int, responses.SearchResult], str],
    *,
    separator: str,
) -> str:
    """What an answer lacks and whether it is doubted, in parentheses; then its results."""
    skipped = (describe.describe_skipped_step(step, answer.embedded_share) for step in answer.degraded)
    notes = [f"({note})" for note in (*skipped, describe.describe_doubt(answer)) if note]
    if not answer.results:
        return "\n".join([*notes, NO_RESULTS])
    numbered = enumerate(answer.results, start=first)
    return separator.join([*notes, *(render(number, result) for number, result in numbered)])


def render_document(results: Sequence[responses.SearchResult], *, offset: int, total: int) -> str:
    """Chunks of one document, assembled, and how to read on."""
    first = results[0]
    labels = [first.citation.title, f"source {first.citation.source}", first.citation.url]
    if first.metadata.get("archived"):
        labels.append("archived: its source no longer has it")
    head = f"{first.citation.path}\n{' · '.join(filter(None, labels))}\ndocument {document_id_of(first)}"
    bodies = [
        f"lines {excerpt.citation.lines.replace('L', '')}\n"
        + fence_block(excerpt.text, excerpt.parts[0].metadata.get("language") or "")
        for excerpt in build_excerpts(results)
    ]
    end = offset + len(results)
    more = [f"Chunks {offset + 1} to {end} of {total}: read on with offset={end}."] if end < total else []
    blamed = [
        line
        for result in results
        for line in describe.describe_blame(result.blame or (), max_named=_MAX_COMMITS)
    ]
    related = [f"related: {_format_relations(first.related)}"] if first.related else []
    return "\n\n".join([head, *bodies, *blamed, *related, *more])


def render_context(context: responses.ContextResponse) -> str:
    """The prompt, and what was searched for it."""
    stale = [excerpt for excerpt in context.excerpts if excerpt.file_state in _FILE_STATES]
    notes = [f"[{excerpt.number}] {_FILE_STATES[excerpt.file_state or '']}" for excerpt in stale]
    omitted = f", {len(context.omitted)} chunks did not fit" if context.omitted else ""
    size = f"{context.tokens} of {context.max_tokens} tokens, {len(context.excerpts)} excerpts{omitted}"
    runs = (*context.searches, *(context.sections or ()))
    searched = "; ".join(f"{run.name}: {_format_outcome(run)}" for run in runs)
    return f"{context.text.rstrip()}\n\n(Searched {searched}. {'; '.join([size, *notes])}.)"


def fence_block(content: str, language: str = "") -> str:
    """Content in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def format_location(path: str, lines: str | None) -> str:
    """`src/store.py:10-24`."""
    return f"{path}:{lines.replace('L', '')}" if lines else path


def _render_place(number: int, result: responses.SearchResult) -> str:
    location = format_location(result.citation.path or result.citation.url or "", result.citation.lines)
    lines = [line.strip() for line in result.content.split("\n") if line.strip()]
    name = str(result.metadata.get("symbol") or "").rpartition(".")[2]
    telling = next((line for line in lines if name in line), lines[0] if lines else "")
    label = result.metadata.get("symbol") or result.metadata.get("section") or ""
    state = _FILE_STATES.get(result.file_state or "same")
    shown = [label, telling[:_MAX_PLACE_CHARS], describe.describe_branches(result), state, f"id {result.id}"]
    return f"[{number}] {location}  {' · '.join(filter(None, shown))}"


def _render_result(number: int, result: responses.SearchResult) -> str:
    metadata, citation = result.metadata, result.citation
    label = metadata.get("symbol") or metadata.get("section") or ""
    title = citation.title if citation.title not in (label, citation.path.rpartition("/")[2]) else None
    labels = [label, title, f"source {citation.source}", f"score {result.score:.2f}"]
    labels += [
        _FILE_STATES.get(result.file_state or "same"),
        describe.describe_branches(result),
        metadata.get("status"),
        str(metadata.get("last_modified") or "")[:10],
        citation.url,
    ]
    head = f"[{number}] {format_location(citation.path or citation.url or '', citation.lines)}"
    lines = [f"{head}  {' · '.join(str(label) for label in labels if label)}"]
    lines.append(f"id {result.id} · document {document_id_of(result)}")
    lines.append(fence_block(result.content, metadata.get("language") or ""))
    lines += describe.describe_blame(result.blame or (), max_named=_MAX_COMMITS)
    lines += describe.describe_neighbours(result.graph, max_named=_MAX_NEIGHBOURS) if result.graph else []
    lines += [f"related: {_format_relations(result.related)}"] if result.related else []
    return "\n".join(lines)


def _format_relations(relations: Sequence[responses.Relation]) -> str:
    """`closes PAY-12 Double charge (jira:PAY-12); closed by …`."""
    return "; ".join(
        f"{describe.describe_relation(relation)} {relation.document.title or relation.document.path} "
        f"({relation.document.source}:{relation.document.uri})"
        for relation in relations
    )


def _format_outcome(run: responses.SearchRun | responses.ContextSection) -> str:
    if run.problem:
        return f"could not be searched ({run.problem})"
    skipped = f" ({', '.join(f'without {step}' for step in run.degraded)})" if run.degraded else ""
    return f"{run.found} found, {run.shown} shown{skipped}"


_SECTIONS = {"used_by": "Uses it", "uses": "Used by it", "member": "Defined in it"}


def render_graph_answer(answer: responses.GraphResponse) -> str:
    """The targets, then what was found by its role, then notes."""
    if answer.candidates:
        return _render_candidates(answer)
    names = {node.id: node.name for node in answer.nodes}
    lines = [
        f"{_format_node(node)}{f'  {node.signature}' if node.signature else ''}" for node in answer.targets
    ]
    rendered: set[responses.GraphEdge] = set()
    for role, title in _SECTIONS.items():
        nodes = [node for node in answer.nodes if node.role == role]
        lines += [f"{title}:" for _ in nodes[:1]]
        for node in nodes:
            edges = [edge for edge in answer.edges if edge not in rendered and _connects(edge, node)]
            rendered.update(edges)
            distance = f"  ({node.distance} steps away)" if node.distance > 1 else ""
            score = f"  score {node.score:.2f}" if node.score is not None else ""
            lines.append(f"- {_format_node(node)}{distance}{score}")
            for edge in edges:
                subject = "" if edge.source == node.id else f"{names[edge.source]} "
                lines.append(f"    {subject}{_format_edge(edge, names)}")
    between = [
        f"- {names[edge.source]} {_format_edge(edge, names)}" for edge in answer.edges if edge not in rendered
    ]
    lines += ["Between them:", *between] if between else []
    if not answer.matches:
        lines.append("Nothing else was found.")
    return "\n".join([*lines, *(f"({note}.)" for note in answer.notes)])


def _render_candidates(answer: responses.GraphResponse) -> str:
    lines = [f"`{answer.target}` may mean several things. Ask again with one of these as the target:"]
    for node in answer.candidates:
        within = f"  (sources=[{node.source!r}])" if node.source else ""
        target = node.path if node.kind == "file" else f"{node.path}:{node.name}"
        lines.append(f"- {target}  {node.kind}, {format_location(node.path or '', node.lines)}{within}")
    return "\n".join([*lines, *(f"({note}.)" for note in answer.notes)])


def _format_node(node: responses.GraphNode) -> str:
    if node.path is None:
        return f"{node.kind} {node.full_name or node.name}"
    where = format_location(node.path, node.lines)
    label = f"{node.kind} {where}" if node.kind == "file" else f"{node.kind} {node.name}  {where}"
    return f"{label}  [{node.source}]"


def _connects(edge: responses.GraphEdge, node: responses.GraphNode) -> bool:
    """Whether an edge is why a node was found: what it does, or what is done with it."""
    return (edge.source == node.id and node.role != "uses") or (
        edge.target == node.id and node.role != "used_by"
    )


def _format_edge(edge: responses.GraphEdge, names: dict[str, str]) -> str:
    """`calls Store.get at src/app.py:5,12 · by import or scope · 1.0`."""
    lines = ",".join(map(str, edge.lines))
    return f"{edge.kind} {names[edge.target]} at {edge.path}:{lines} · {edge.certainty}"
