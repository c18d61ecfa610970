"""The tools: what each is for, what it takes, what it answers, and whom it asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.excerpts import document_of
from knowledge_pipeline.query.agent_context.searches import Task
from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.search.assemble import Answer
from knowledge_pipeline.serve.http.models_documents import ContextTold
from knowledge_pipeline.serve.http.models_graph import GraphTold
from knowledge_pipeline.serve.mcp import descriptions, inputs
from knowledge_pipeline.serve.mcp.graph_text_renderer import of_graph
from knowledge_pipeline.serve.mcp.outputs import FoundAnswerTold, PagedTold
from knowledge_pipeline.serve.text_renderer import of_answer, of_context, of_document
from knowledge_pipeline.serve.tool_inputs import Arguments, KnowledgeQuery


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer twice: for programs, and for a model to read."""

    told: dict[str, Any]
    text: str


Ask = Callable[[KnowledgeBase, Access, Any], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `ask` takes the model that `takes` names, and raises `KnowledgeError`."""

    name: str
    title: str
    descriptions: str
    inputs: type[Arguments]
    gives: type[BaseModel]
    ask: Ask


async def _query(base: KnowledgeBase, access: Access, asked: KnowledgeQuery) -> Reply:
    how = {"type": asked.type, "filters": asked.filters(), "limit": asked.limit}
    return _found(await base.asearch(asked.query, access=access, **how))


async def _code(base: KnowledgeBase, access: Access, asked: inputs.CodeSearch) -> Reply:
    how = {"filters": asked.filters(), "limit": asked.limit}
    return _found(await base.asearch(asked.query, type="code", access=access, **how))


async def _like(base: KnowledgeBase, access: Access, asked: inputs.SearchCode) -> Reply:
    how = {"filters": replace(asked.filters(), source_types=("code",)), "limit": asked.limit}
    answer = await base.asimilar(text=asked.query, path=asked.file, source=asked.source, access=access, **how)
    return _found(answer)


def _of(source_type: str) -> Ask:
    """Searches the sources of one type."""

    async def ask(
        base: KnowledgeBase, access: Access, asked: inputs.SearchTickets | inputs.SearchPages
    ) -> Reply:
        filters = replace(asked.filters(), source_types=(source_type,))
        return _found(await base.asearch(asked.query, filters=filters, limit=asked.limit, access=access))

    return ask


async def _document(base: KnowledgeBase, access: Access, asked: inputs.GetDocument) -> Reply:
    whole = await base.aget(asked.id, access=access)
    total = len(whole.results)
    if asked.offset >= total:
        raise QuestionRefused(f"found offset {asked.offset}; the document has {total} passages")
    shown = replace(whole, results=whole.results[asked.offset :][: asked.limit])
    text = of_document(shown.results, offset=asked.offset, total=total)
    return Reply({**_told(shown), "offset": asked.offset, "total": total}, text)


async def _context(base: KnowledgeBase, access: Access, asked: inputs.BuildContext) -> Reply:
    about_it = {"file": asked.file, "source": asked.source, "snippet": asked.snippet}
    task = Task(asked.task, kind=asked.kind, filters=asked.filters(), **about_it)
    made = await base.acontext(task, max_tokens=asked.max_tokens, access=access)
    return Reply(made.as_json(), of_context(made))


def _of_graph(question: str, *more: str) -> Ask:
    """Asks the code graph a question, with these of the arguments beside the target."""

    async def ask(base: KnowledgeBase, access: Access, asked: inputs.Targeted) -> Reply:
        how = {name: getattr(asked, name) for name in ("limit", *more)}
        filters: Filters = asked.filters()
        answer = await getattr(base.agraph, question)(asked.target, filters=filters, access=access, **how)
        return Reply(answer.as_json(), of_graph(answer))

    return ask


def _found(answer: Answer) -> Reply:
    return Reply(_told(answer), of_answer(answer))


def _told(answer: Answer) -> dict[str, Any]:
    """The JSON of every door, and of each result where the whole document is."""
    told = answer.as_json()
    for result, held in zip(told["results"], answer.results, strict=True):
        result["document"] = ":".join(document_of(held))
    return told


def _searches() -> Iterator[Tool]:
    yield Tool(
        "knowledge_query", "Ask everything", descriptions.QUERY, KnowledgeQuery, FoundAnswerTold, _query
    )
    yield Tool(
        "code_search", "Search code by meaning", descriptions.CODE, inputs.CodeSearch, FoundAnswerTold, _code
    )
    yield Tool(
        "search_code", "Search code like code", descriptions.LIKE, inputs.SearchCode, FoundAnswerTold, _like
    )
    yield Tool(
        "search_jira_tickets",
        "Search Jira tickets",
        descriptions.TICKETS,
        inputs.SearchTickets,
        FoundAnswerTold,
        _of("jira"),
    )
    yield Tool(
        "search_confluence",
        "Search Confluence pages",
        descriptions.PAGES,
        inputs.SearchPages,
        FoundAnswerTold,
        _of("confluence"),
    )
    yield Tool(
        "get_document", "Read a document", descriptions.DOCUMENT, inputs.GetDocument, PagedTold, _document
    )
    yield Tool(
        "build_context",
        "Gather what a task needs",
        descriptions.CONTEXT,
        inputs.BuildContext,
        ContextTold,
        _context,
    )


def _graph_questions() -> Iterator[Tool]:
    asked: tuple[tuple[str, str, str, type[Arguments], tuple[str, ...]], ...] = (
        ("find_usages", "Find usages", descriptions.USAGES, inputs.Targeted, ()),
        ("find_references", "Find references", descriptions.REFERENCES, inputs.Targeted, ()),
        ("get_call_graph", "Show calls", descriptions.CALLS, inputs.Calls, ("depth", "direction")),
        ("get_class_hierarchy", "Show inheritance", descriptions.HIERARCHY, inputs.Hierarchy, ("depth",)),
        ("get_dependencies", "Show dependencies", descriptions.DEPENDENCIES, inputs.Stepped, ("depth",)),
        ("analyze_dependencies", "Show the impact of a change", descriptions.IMPACT, inputs.Deep, ("depth",)),
        ("find_related_code", "Find related code", descriptions.RELATED, inputs.Related, ()),
    )
    for name, title, told, model, more in asked:
        yield Tool(name, title, told, model, GraphTold, _of_graph(name, *more))


TOOLS = {tool.name: tool for tool in (*_searches(), *_graph_questions())}
