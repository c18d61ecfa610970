"""Answers as a model reads them: the place first, then the content, and nothing twice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from knowledge_pipeline.query.agent_context.build import Context
from knowledge_pipeline.query.agent_context.excerpts import Excerpt, Part, document_of, excerpts
from knowledge_pipeline.query.agent_context.searches import SearchRun
from knowledge_pipeline.query.describe import surroundings
from knowledge_pipeline.query.search.assemble import Answer, Relation, Result

NOTHING = (
    "Nothing was found that you may see. Try other words, fewer or wider filters, or a search of everything."
)

_NEIGHBOURS = 5  # of each kind
_WITHOUT = {
    "vector": "by words alone: the embedding model could not be used",
    "rerank": "without reranking",
    "graph": "without the code graph",
}


def of_answer(answer: Answer) -> str:
    """Results, each as `[n] path:lines`, its labels, and its content."""
    head = _degraded(answer.degraded)
    if not answer.results:
        return "\n".join([*head, NOTHING])
    results = [_result(number, result) for number, result in enumerate(answer.results, start=1)]
    return "\n\n".join([*head, *results])


def of_document(results: Sequence[Result], *, offset: int, total: int) -> str:
    """Passages of one document, put together again, and how to read on."""
    first = results[0]
    said = [first.citation.title, f"source {first.citation.source}", first.citation.url]
    if first.metadata.get("archived"):
        said.append("archived: its source no longer has it")
    head = f"{first.citation.path}\n{' · '.join(filter(None, said))}\ndocument {_document(first)}"
    bodies = [_excerpt(each) for each in excerpts(Part.whole(result) for result in results)]
    end = offset + len(results)
    more = [f"Passages {offset + 1} to {end} of {total}: read on with offset={end}."] if end < total else []
    related = [f"related: {_relations(first.related)}"] if first.related else []
    return "\n\n".join([head, *bodies, *related, *more])


def of_context(context: Context) -> str:
    """The prompt, and what was searched for it."""
    left = f", {len(context.left_out)} more did not fit" if context.left_out else ""
    told = f"{context.tokens} of {context.max_tokens} tokens, {len(context.passages)} passages{left}"
    searched = "; ".join(f"{run.name}: {_outcome(run)}" for run in context.searches)
    return f"{context.text.rstrip()}\n\n(Searched {searched}. {told}.)"


def fenced(content: str, language: str = "") -> str:
    """Content between fences that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def place(path: str, lines: str | None) -> str:
    """`src/store.py:10-24`."""
    return f"{path}:{lines.replace('L', '')}" if lines else path


def _result(number: int, result: Result) -> str:
    known, citation = result.metadata, result.citation
    label = known.get("symbol") or known.get("section") or ""
    title = citation.title if citation.title not in (label, citation.path.rpartition("/")[2]) else None
    said = [label, title, f"source {citation.source}", f"score {result.score:.2f}"]
    said += [known.get("status"), str(known.get("last_modified") or "")[:10], citation.url]
    head = f"[{number}] {place(citation.path or citation.url or '', citation.lines)}"
    lines = [f"{head}  {' · '.join(str(each) for each in said if each)}"]
    lines.append(f"id {result.id} · document {_document(result)}")
    lines.append(fenced(result.content, known.get("language") or ""))
    lines += surroundings(result.graph, most=_NEIGHBOURS) if result.graph else []
    lines += [f"related: {_relations(result.related)}"] if result.related else []
    return "\n".join(lines)


def _document(result: Result) -> str:
    return ":".join(document_of(result))


def _excerpt(excerpt: Excerpt) -> str:
    language = excerpt.parts[0].result.metadata.get("language") or ""
    lines = excerpt.citation.lines.replace("L", "")
    return f"lines {lines}\n{fenced(excerpt.text, language)}"


def _relations(relations: Sequence[Relation]) -> str:
    return "; ".join(map(_relation, relations))


def _relation(relation: Relation) -> str:
    """`closes PAY-12 Double charge (jira:PAY-12)`, or `it is closed by …`."""
    document = relation.document
    said = relation.kind if relation.direction == "to" else f"{relation.kind} this:"
    return f"{said} {document.title or document.path} ({document.source}:{document.uri})"


def _degraded(steps: Sequence[str]) -> list[str]:
    return [f"(Searched {_WITHOUT.get(step, f'without {step}')}.)" for step in steps]


def _outcome(run: SearchRun) -> str:
    if run.problem:
        return f"could not be searched ({run.problem})"
    return f"{run.found} found, {run.shown} shown{_without(run.degraded)}"


def _without(degraded: Mapping[str, object]) -> str:
    return f" ({', '.join(f'without {step}' for step in degraded)})" if degraded else ""
