"""The tools: what each is for, what it takes, what it answers, and whom it asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.excerpts import document_key
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.serve.http.models_documents import ContextResponse
from knowledge_pipeline.serve.http.models_graph import GraphResponse
from knowledge_pipeline.serve.mcp import descriptions, inputs
from knowledge_pipeline.serve.mcp.graph_text_renderer import render_graph_answer
from knowledge_pipeline.serve.mcp.outputs import DocumentPageResponse, ToolSearchResponse
from knowledge_pipeline.serve.text_renderer import render_answer, render_context, render_document
from knowledge_pipeline.serve.tool_inputs import KnowledgeQueryInput, ToolInput


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """An answer twice: for programs, and for a model to read."""

    structured: dict[str, Any]
    text: str


ToolHandler = Callable[[KnowledgeBase, Access, Any], Awaitable[ToolOutput]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `ask` takes the model that `takes` names, and raises `KnowledgeError`."""

    name: str
    title: str
    descriptions: str
    inputs: type[ToolInput]
    output_model: type[BaseModel]
    handler: ToolHandler


async def _search_everything(
    base: KnowledgeBase, access: Access, arguments: KnowledgeQueryInput
) -> ToolOutput:
    how = {"type": arguments.type, "filters": arguments.to_filters(), "limit": arguments.limit}
    return _to_search_output(await base.asearch(arguments.query, access=access, **how))


async def _search_code(base: KnowledgeBase, access: Access, arguments: inputs.CodeSearchInput) -> ToolOutput:
    how = {"filters": arguments.to_filters(), "limit": arguments.limit}
    return _to_search_output(await base.asearch(arguments.query, type="code", access=access, **how))


async def _find_similar_code(
    base: KnowledgeBase, access: Access, arguments: inputs.SimilarCodeInput
) -> ToolOutput:
    how = {"filters": replace(arguments.to_filters(), source_types=("code",)), "limit": arguments.limit}
    answer = await base.asimilar(
        text=arguments.query, path=arguments.file, source=arguments.source, access=access, **how
    )
    return _to_search_output(answer)


def _search_source_type(source_type: str) -> ToolHandler:
    """Searches the sources of one type."""

    async def search(
        base: KnowledgeBase, access: Access, arguments: inputs.TicketSearchInput | inputs.WikiSearchInput
    ) -> ToolOutput:
        filters = replace(arguments.to_filters(), source_types=(source_type,))
        return _to_search_output(
            await base.asearch(arguments.query, filters=filters, limit=arguments.limit, access=access)
        )

    return search


async def _read_document(base: KnowledgeBase, access: Access, arguments: inputs.DocumentInput) -> ToolOutput:
    whole = await base.aget(arguments.id, access=access)
    total = len(whole.results)
    if arguments.offset >= total:
        raise InvalidQuery(f"found offset {arguments.offset}; the document has {total} passages")
    shown = replace(whole, results=whole.results[arguments.offset :][: arguments.limit])
    text = render_document(shown.results, offset=arguments.offset, total=total)
    return ToolOutput({**_to_structured(shown), "offset": arguments.offset, "total": total}, text)


async def _build_context(base: KnowledgeBase, access: Access, arguments: inputs.ContextInput) -> ToolOutput:
    about_it = {"file": arguments.file, "source": arguments.source, "snippet": arguments.snippet}
    task = Task(arguments.task, kind=arguments.kind, filters=arguments.to_filters(), **about_it)
    made = await base.acontext(task, max_tokens=arguments.max_tokens, access=access)
    return ToolOutput(made.as_json(), render_context(made))


def _query_graph(method_name: str, *extra_arguments: str) -> ToolHandler:
    """Asks the code graph a question, with these of the arguments beside the target."""

    async def query(base: KnowledgeBase, access: Access, arguments: inputs.GraphTargetInput) -> ToolOutput:
        how = {name: getattr(arguments, name) for name in ("limit", *extra_arguments)}
        filters: Filters = arguments.to_filters()
        answer = await getattr(base.agraph, method_name)(
            arguments.target, filters=filters, access=access, **how
        )
        return ToolOutput(answer.as_json(), render_graph_answer(answer))

    return query


def _to_search_output(answer: SearchResponse) -> ToolOutput:
    return ToolOutput(_to_structured(answer), render_answer(answer))


def _to_structured(answer: SearchResponse) -> dict[str, Any]:
    """The JSON of every door, and of each result where the whole document is."""
    told = answer.as_json()
    for result, held in zip(told["results"], answer.results, strict=True):
        result["document"] = ":".join(document_key(held))
    return told


def _iter_search_tools() -> Iterator[Tool]:
    yield Tool(
        "knowledge_query",
        "Ask everything",
        descriptions.QUERY,
        KnowledgeQueryInput,
        ToolSearchResponse,
        _search_everything,
    )
    yield Tool(
        "code_search",
        "Search code by meaning",
        descriptions.CODE,
        inputs.CodeSearchInput,
        ToolSearchResponse,
        _search_code,
    )
    yield Tool(
        "search_code",
        "Search code like code",
        descriptions.SIMILAR_CODE,
        inputs.SimilarCodeInput,
        ToolSearchResponse,
        _find_similar_code,
    )
    yield Tool(
        "search_jira_tickets",
        "Search Jira tickets",
        descriptions.TICKETS,
        inputs.TicketSearchInput,
        ToolSearchResponse,
        _search_source_type("jira"),
    )
    yield Tool(
        "search_confluence",
        "Search Confluence pages",
        descriptions.CONFLUENCE_PAGES,
        inputs.WikiSearchInput,
        ToolSearchResponse,
        _search_source_type("confluence"),
    )
    yield Tool(
        "get_document",
        "Read a document",
        descriptions.DOCUMENT,
        inputs.DocumentInput,
        DocumentPageResponse,
        _read_document,
    )
    yield Tool(
        "build_context",
        "Gather what a task needs",
        descriptions.CONTEXT,
        inputs.ContextInput,
        ContextResponse,
        _build_context,
    )


def _iter_graph_tools() -> Iterator[Tool]:
    asked: tuple[tuple[str, str, str, type[ToolInput], tuple[str, ...]], ...] = (
        ("find_usages", "Find usages", descriptions.USAGES, inputs.GraphTargetInput, ()),
        ("find_references", "Find references", descriptions.REFERENCES, inputs.GraphTargetInput, ()),
        ("get_call_graph", "Show calls", descriptions.CALLS, inputs.CallGraphInput, ("depth", "direction")),
        (
            "get_class_hierarchy",
            "Show inheritance",
            descriptions.HIERARCHY,
            inputs.ClassHierarchyInput,
            ("depth",),
        ),
        (
            "get_dependencies",
            "Show dependencies",
            descriptions.DEPENDENCIES,
            inputs.GraphTraversalInput,
            ("depth",),
        ),
        (
            "analyze_dependencies",
            "Show the impact of a change",
            descriptions.IMPACT,
            inputs.ImpactInput,
            ("depth",),
        ),
        ("find_related_code", "Find related code", descriptions.RELATED, inputs.RelatedCodeInput, ()),
    )
    for name, title, told, model, more in asked:
        yield Tool(name, title, told, model, GraphResponse, _query_graph(name, *more))


TOOLS = {tool.name: tool for tool in (*_iter_search_tools(), *_iter_graph_tools())}
