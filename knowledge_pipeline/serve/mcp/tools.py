"""The tools: what each is for, what it takes, what it returns, and what it calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from knowledge_pipeline.contract.graph_operations import GRAPH_OPERATIONS, GraphMethod
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.contract.responses.base import JsonResponse
from knowledge_pipeline.contract.responses.context import ContextResponse
from knowledge_pipeline.contract.responses.graph import GraphResponse
from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.contract.types import SearchType, SourceType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query import limits
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.engine import GraphRequest
from knowledge_pipeline.query.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.serve.documents import document_id_of
from knowledge_pipeline.serve.mcp import descriptions, inputs
from knowledge_pipeline.serve.mcp.answer_pages import page_document, page_graph, page_search
from knowledge_pipeline.serve.mcp.outputs import DocumentPageResponse, ToolSearchResponse
from knowledge_pipeline.serve.text_renderer import render_context
from knowledge_pipeline.serve.tool_inputs import KnowledgeQueryInput, ToolInput


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A response twice: for programs, and for a model to read."""

    structured: dict[str, Any]
    text: str


_NOTE_TOKENS = 60  # of the sentence on what was searched, which follows a context
_WIDE_TOKENS = 16_000  # of the context whose places a compact answer names

ToolHandler = Callable[[AsyncKnowledgeBase, Access, Any], Awaitable[ToolOutput]]
"""Takes the arguments as the input model of its tool, which differs by tool."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool; its handler raises `KnowledgeError`."""

    title: str
    description: str
    input_model: type[ToolInput]
    response: type[JsonResponse]
    handler: ToolHandler


async def _find_similar_code(
    base: AsyncKnowledgeBase, access: Access, arguments: inputs.SimilarCodeInput
) -> ToolOutput:
    answer = await base.similar(
        text=arguments.query,
        path=arguments.file,
        source=arguments.source,
        filters=replace(arguments.to_filters(), source_types=("code",)),
        limit=_count_results(base, arguments),
        access=access,
    )
    return _to_page(base, answer, arguments)


def _search(type: SearchType = "semantic", *, source_type: SourceType | None = None) -> ToolHandler:
    """Searches by a type, unless the arguments have one; of the sources of one type, or of all."""

    async def search(base: AsyncKnowledgeBase, access: Access, arguments: inputs.SearchInput) -> ToolOutput:
        filters = arguments.to_filters()
        if source_type is not None:
            filters = replace(filters, source_types=(source_type,))
        is_of_everything = isinstance(arguments, KnowledgeQueryInput)
        search_type = arguments.type if is_of_everything else type
        limit = _count_results(base, arguments)
        answer = await base.search(
            arguments.query,
            type=search_type,
            filters=filters,
            limit=limit,
            mode=arguments.mode if is_of_everything else "hybrid",
            access=access,
        )
        return _to_page(base, answer, arguments)

    return search


async def _read_document(
    base: AsyncKnowledgeBase, access: Access, arguments: inputs.DocumentInput
) -> ToolOutput:
    whole = await base.get(arguments.id, blame=arguments.blame, access=access)
    total = len(whole.results)
    if arguments.offset >= total:
        raise InvalidQuery(f"found offset {arguments.offset}; the document has {total} chunks")
    page, text = page_document(
        whole,
        offset=arguments.offset,
        limit=arguments.limit,
        compact=arguments.compact,
        max_tokens=base.settings.serve.mcp.max_tokens,
    )
    return ToolOutput({**_to_json(page), "offset": arguments.offset, "total": total}, text)


async def _build_context(
    base: AsyncKnowledgeBase, access: Access, arguments: inputs.ContextInput
) -> ToolOutput:
    task = Task(
        arguments.task,
        kind=arguments.kind,
        files=arguments.files,
        source=arguments.source,
        snippet=arguments.snippet,
        suffix=arguments.suffix,
        history=arguments.history,
        filters=arguments.to_filters(),
    )
    most = base.settings.serve.mcp.max_tokens
    budget = arguments.max_tokens or min(base.settings.context.max_tokens, most)
    # the agent knows its task, and is told none of it again
    limits.check_task(base.settings.limits, task, budget)  # of which a part is kept back
    if not arguments.compact:
        room = max(budget - _NOTE_TOKENS, budget // 2)
        context = await base.context(task, max_tokens=room, template="excerpts", access=access)
        return ToolOutput(context.as_json(), render_context(context))
    context = await base.context(task, max_tokens=_WIDE_TOKENS, template="excerpts", access=access)
    found = SearchResponse(
        context.query_id, context.took_ms, context.release, context.degraded, context.results, {}
    )
    limit = len(context.results) + 1
    page, text = page_search(found, offset=arguments.offset, limit=limit, compact=True, max_tokens=budget)
    return ToolOutput(_to_json(page), text)


def _query_graph(method: GraphMethod) -> ToolHandler:
    """Runs one operation of the code graph."""
    default_limit = min(GRAPH_OPERATIONS[method].default_limit, inputs.DEFAULT_NODES)

    async def query(
        base: AsyncKnowledgeBase, access: Access, arguments: inputs.GraphTargetInput
    ) -> ToolOutput:
        limit = arguments.limit or default_limit
        request = GraphRequest(
            method,
            arguments.target,
            arguments.to_filters(),
            limit=_end_of_page(arguments.offset, limit, base.settings.limits.graph_nodes),
            depth=arguments.depth if isinstance(arguments, inputs.GraphTraversalInput) else None,
            direction=arguments.direction if isinstance(arguments, inputs.CallGraphInput) else "both",
        )
        answer = await base.graph.query(request, access=access)
        page, text = page_graph(
            answer,
            offset=arguments.offset,
            limit=limit,
            compact=arguments.compact,
            max_tokens=base.settings.serve.mcp.max_tokens,
        )
        return ToolOutput(page.as_json(), text)

    return query


def _count_results(base: AsyncKnowledgeBase, arguments: inputs.SimilarCodeInput | inputs.SearchInput) -> int:
    """How many results a page ends at. Raises `InvalidQuery`: a search has fewer."""
    most = base.settings.limits.results
    if arguments.offset >= most:
        raise InvalidQuery(f"found offset {arguments.offset}; a search has at most {most} results")
    return _end_of_page(arguments.offset, arguments.limit, most)


def _end_of_page(offset: int, limit: int, most: int) -> int:
    """Where a page ends: as far as anything can be asked for, or further, to be refused, by its own limit."""
    return max(limit, min(offset + limit, most))


def _to_page(
    base: AsyncKnowledgeBase, answer: SearchResponse, arguments: inputs.SimilarCodeInput | inputs.SearchInput
) -> ToolOutput:
    page, text = page_search(
        answer,
        offset=arguments.offset,
        limit=arguments.limit,
        compact=arguments.compact,
        max_tokens=base.settings.serve.mcp.max_tokens,
    )
    return ToolOutput(_to_json(page), text)


def _to_json(answer: SearchResponse) -> dict[str, Any]:
    """The JSON of every interface, with the document of each result."""
    structured = answer.as_json()
    for result, found in zip(structured["results"], answer.results, strict=True):
        result["document_id"] = document_id_of(found)
    return structured


_SEARCH_TOOLS = {
    "knowledge_query": Tool(
        "Search everything", descriptions.QUERY, inputs.KnowledgeSearchInput, ToolSearchResponse, _search()
    ),
    "code_search": Tool(
        "Search code by meaning",
        descriptions.CODE,
        inputs.CodeSearchInput,
        ToolSearchResponse,
        _search("code"),
    ),
    "search_code": Tool(
        "Find similar code",
        descriptions.SIMILAR_CODE,
        inputs.SimilarCodeInput,
        ToolSearchResponse,
        _find_similar_code,
    ),
    "search_jira_tickets": Tool(
        "Search Jira tickets",
        descriptions.TICKETS,
        inputs.TicketSearchInput,
        ToolSearchResponse,
        _search(source_type="jira"),
    ),
    "search_confluence": Tool(
        "Search Confluence pages",
        descriptions.CONFLUENCE_PAGES,
        inputs.WikiSearchInput,
        ToolSearchResponse,
        _search(source_type="confluence"),
    ),
    "get_document": Tool(
        "Read a document", descriptions.DOCUMENT, inputs.DocumentInput, DocumentPageResponse, _read_document
    ),
    "build_context": Tool(
        "Build context for a task", descriptions.CONTEXT, inputs.ContextInput, ContextResponse, _build_context
    ),
}


def _build_graph_tool(method: GraphMethod) -> Tool:
    operation = GRAPH_OPERATIONS[method]
    input_model = inputs.GraphTargetInput
    if operation.default_depth is not None:
        input_model = inputs.CallGraphInput if operation.has_direction else inputs.GraphTraversalInput
    return Tool(operation.title, descriptions.GRAPH[method], input_model, GraphResponse, _query_graph(method))


TOOLS: Mapping[str, Tool] = {
    **_SEARCH_TOOLS,
    **{method: _build_graph_tool(method) for method in GRAPH_OPERATIONS},
}
"""By name."""

CORE_TOOLS = ("knowledge_query", "build_context", "get_document", "find_usages", "get_call_graph")
"""What most tasks need."""

_TOOLS_OF_SOURCES: Mapping[str, SourceType] = {
    "search_jira_tickets": "jira",
    "search_confluence": "confluence",
}


def select_tools(chosen: Literal["all", "core"], source_types: Collection[SourceType]) -> dict[str, Tool]:
    """The tools that a server offers: those chosen, without the ones whose sources are not configured."""
    names = CORE_TOOLS if chosen == "core" else TOOLS
    return {
        name: TOOLS[name]
        for name in names
        if name not in _TOOLS_OF_SOURCES or _TOOLS_OF_SOURCES[name] in source_types
    }
