"""The code graph as `AsyncKnowledgeBase` and `KnowledgeBase` offer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses.graph import GraphResponse
from knowledge_pipeline.contract.types import CallDirection
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.engine import GraphRequest
from knowledge_pipeline.sync_facade import SyncFacade, blocking

_ALL = Filters()


class AsyncGraph:
    """Queries of the code graph of the live release.

    Args of every method: `target`, as `code_graph.target` describes; `filters` (sources, source types,
    repos, branches, languages, paths, tags), where to look for the target; `limit`, at most so many nodes
    in addition to the target; `depth`, at most so many steps from it; `access`, the caller's. Where limit
    and depth are None, `contract.graph_operations` has them.

    Raises (all methods):
        InvalidQuery: the target, depth, limit or filters make no sense.
        NotFound: nothing is released, there is no code graph, or it has no such target.
    """

    def __init__(self, run: Callable[[GraphRequest, Access | None], Awaitable[GraphResponse]]) -> None:
        self._run = run

    async def query(self, request: GraphRequest, *, access: Access | None = None) -> GraphResponse:
        """Any operation."""
        return await self._run(request, access)

    async def find_usages(
        self, target: str, *, filters: Filters = _ALL, limit: int | None = None, access: Access | None = None
    ) -> GraphResponse:
        """What uses a definition, or anything defined in it: definitions, with the places."""
        return await self._run(GraphRequest("find_usages", target, filters, limit), access)

    async def find_references(
        self, target: str, *, filters: Filters = _ALL, limit: int | None = None, access: Access | None = None
    ) -> GraphResponse:
        """Every place that names exactly this definition or file."""
        return await self._run(GraphRequest("find_references", target, filters, limit), access)

    async def get_call_graph(
        self,
        target: str,
        *,
        depth: int | None = None,
        direction: CallDirection = "both",
        filters: Filters = _ALL,
        limit: int | None = None,
        access: Access | None = None,
    ) -> GraphResponse:
        """What calls a function and what it calls, step by step; of a class or file, its functions."""
        request = GraphRequest("get_call_graph", target, filters, limit, depth, direction)
        return await self._run(request, access)

    async def get_class_hierarchy(
        self,
        target: str,
        *,
        depth: int | None = None,
        filters: Filters = _ALL,
        limit: int | None = None,
        access: Access | None = None,
    ) -> GraphResponse:
        """What a class extends or implements, and what extends or implements it."""
        return await self._run(GraphRequest("get_class_hierarchy", target, filters, limit, depth), access)

    async def get_dependencies(
        self,
        target: str,
        *,
        depth: int | None = None,
        filters: Filters = _ALL,
        limit: int | None = None,
        access: Access | None = None,
    ) -> GraphResponse:
        """What a definition, file or folder depends on; of files these are files and imported names."""
        return await self._run(GraphRequest("get_dependencies", target, filters, limit, depth), access)

    async def analyze_dependencies(
        self,
        target: str,
        *,
        depth: int | None = None,
        filters: Filters = _ALL,
        limit: int | None = None,
        access: Access | None = None,
    ) -> GraphResponse:
        """What a change could break, directly and indirectly, and what the target depends on.

        Of a definition: what calls, names or extends it, and so on, and who imports it. Of files: the
        files that use them, and so on.
        """
        return await self._run(GraphRequest("analyze_dependencies", target, filters, limit, depth), access)

    async def find_related_code(
        self, target: str, *, filters: Filters = _ALL, limit: int | None = None, access: Access | None = None
    ) -> GraphResponse:
        """The definitions most closely related to one, by use, by common uses and by place."""
        return await self._run(GraphRequest("find_related_code", target, filters, limit), access)


class Graph(SyncFacade[AsyncGraph]):
    """`AsyncGraph`, for code that waits for the response."""

    query = blocking(AsyncGraph.query)
    find_usages = blocking(AsyncGraph.find_usages)
    find_references = blocking(AsyncGraph.find_references)
    get_call_graph = blocking(AsyncGraph.get_call_graph)
    get_class_hierarchy = blocking(AsyncGraph.get_class_hierarchy)
    get_dependencies = blocking(AsyncGraph.get_dependencies)
    analyze_dependencies = blocking(AsyncGraph.analyze_dependencies)
    find_related_code = blocking(AsyncGraph.find_related_code)
