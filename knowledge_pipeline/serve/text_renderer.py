"""Answers as a model reads them: the place first, then the content, and nothing twice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from knowledge_pipeline.contract.responses import (
    ContextResponse,
    Relation,
    SearchResponse,
    SearchResult,
    SearchRun,
)
from knowledge_pipeline.query.agent_context.excerpts import ChunkPart, Excerpt, build_excerpts, document_key
from knowledge_pipeline.query.describe import describe_neighbours

NO_RESULTS = (
    "Nothing was found that you may see. Try other words, fewer or wider filters, or a search of everything."
)

_MAX_NEIGHBOURS = 5  # of each kind
_DEGRADED_NOTES = {
    "vector": "by words alone: the embedding model could not be used",
    "rerank": "without reranking",
    "graph": "without the code graph",
}


def render_answer(answer: SearchResponse) -> str:
    """Results, each as `[n] path:lines`, its labels, and its content."""
    head = _format_degraded(answer.degraded)
    if not answer.results:
        return "\n".join([*head, NO_RESULTS])
    results = [_render_result(number, result) for number, result in enumerate(answer.results, start=1)]
    return "\n\n".join([*head, *results])


def render_document(results: Sequence[SearchResult], *, offset: int, total: int) -> str:
    """Passages of one document, put together again, and how to read on."""
    first = results[0]
    said = [first.citation.title, f"source {first.citation.source}", first.citation.url]
    if first.metadata.get("archived"):
        said.append("archived: its source no longer has it")
    head = f"{first.citation.path}\n{' · '.join(filter(None, said))}\ndocument {_document_id_of(first)}"
    bodies = [
        _render_excerpt(each) for each in build_excerpts(ChunkPart.from_result(result) for result in results)
    ]
    end = offset + len(results)
    more = [f"Passages {offset + 1} to {end} of {total}: read on with offset={end}."] if end < total else []
    related = [f"related: {_format_relations(first.related)}"] if first.related else []
    return "\n\n".join([head, *bodies, *related, *more])


def render_context(context: ContextResponse) -> str:
    """The prompt, and what was searched for it."""
    left = f", {len(context.omitted)} more did not fit" if context.omitted else ""
    told = f"{context.tokens} of {context.max_tokens} tokens, {len(context.excerpts)} passages{left}"
    searched = "; ".join(f"{run.name}: {_format_outcome(run)}" for run in context.searches)
    return f"{context.text.rstrip()}\n\n(Searched {searched}. {told}.)"


def fence_block(content: str, language: str = "") -> str:
    """Content between fences that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def format_location(path: str, lines: str | None) -> str:
    """`src/store.py:10-24`."""
    return f"{path}:{lines.replace('L', '')}" if lines else path


def _render_result(number: int, result: SearchResult) -> str:
    known, citation = result.metadata, result.citation
    label = known.get("symbol") or known.get("section") or ""
    title = citation.title if citation.title not in (label, citation.path.rpartition("/")[2]) else None
    said = [label, title, f"source {citation.source}", f"score {result.score:.2f}"]
    said += [known.get("status"), str(known.get("last_modified") or "")[:10], citation.url]
    head = f"[{number}] {format_location(citation.path or citation.url or '', citation.lines)}"
    lines = [f"{head}  {' · '.join(str(each) for each in said if each)}"]
    lines.append(f"id {result.id} · document {_document_id_of(result)}")
    lines.append(fence_block(result.content, known.get("language") or ""))
    lines += describe_neighbours(result.graph, max_named=_MAX_NEIGHBOURS) if result.graph else []
    lines += [f"related: {_format_relations(result.related)}"] if result.related else []
    return "\n".join(lines)


def _document_id_of(result: SearchResult) -> str:
    return ":".join(document_key(result))


def _render_excerpt(excerpt: Excerpt) -> str:
    language = excerpt.parts[0].result.metadata.get("language") or ""
    lines = excerpt.citation.lines.replace("L", "")
    return f"lines {lines}\n{fence_block(excerpt.text, language)}"


def _format_relations(relations: Sequence[Relation]) -> str:
    return "; ".join(map(_format_relation, relations))


def _format_relation(relation: Relation) -> str:
    """`closes PAY-12 Double charge (jira:PAY-12)`, or `it is closed by …`."""
    document = relation.document
    said = relation.kind if relation.direction == "to" else f"{relation.kind} this:"
    return f"{said} {document.title or document.path} ({document.source}:{document.uri})"


def _format_degraded(steps: Sequence[str]) -> list[str]:
    return [f"(Searched {_DEGRADED_NOTES.get(step, f'without {step}')}.)" for step in steps]


def _format_outcome(run: SearchRun) -> str:
    if run.problem:
        return f"could not be searched ({run.problem})"
    return f"{run.found} found, {run.shown} shown{_format_skipped_steps(run.degraded)}"


def _format_skipped_steps(degraded: Mapping[str, object]) -> str:
    return f" ({', '.join(f'without {step}' for step in degraded)})" if degraded else ""
