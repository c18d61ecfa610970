"""The code graph as `KnowledgeBase` offers it: `graph` answers at once, `agraph` to be awaited."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphResponse
from knowledge_pipeline.contract.types import CallDirection
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.engine import DEFAULT_LIMIT, CodeGraph, GraphRequest

GraphCall = Callable[[Access], Coroutine[Any, Any, GraphResponse]]
AnswerT = TypeVar("AnswerT")
"""A `GraphAnswer`, or what can be awaited for one."""

_NO_FILTERS = Filters()
_HIERARCHY_DEPTH = 5


class GraphQueries(Generic[AnswerT]):
    """Questions to the code graph of the live release.

    Args of every method: `target` as `graph_target` says; `filters` (sources, repos, branches,
    languages, paths, tags) narrow what the target is looked for among; `limit` is how many nodes beside
    the target; `depth` how many steps; `access` whose question it is.

    Raises (all methods):
        QuestionRefused: the target, depth, limit or filters make no sense.
        NotFound: nothing is released, no code graph is, or it has no such target.
    """

    def __init__(
        self, graph: CodeGraph, run: Callable[[GraphRequest, GraphCall, Access | None], AnswerT]
    ) -> None:
        self._graph, self._run = graph, run

    def find_usages(
        self,
        target: str,
        *,
        filters: Filters = _NO_FILTERS,
        limit: int = DEFAULT_LIMIT,
        access: Access | None = None,
    ) -> AnswerT:
        """See `CodeGraph.find_usages`."""
        asked = GraphRequest("usages", target, filters, limit)
        return self._run(asked, lambda who: self._graph.find_usages(asked, who), access)

    def find_references(
        self,
        target: str,
        *,
        filters: Filters = _NO_FILTERS,
        limit: int = DEFAULT_LIMIT,
        access: Access | None = None,
    ) -> AnswerT:
        """See `CodeGraph.find_references`."""
        asked = GraphRequest("references", target, filters, limit)
        return self._run(asked, lambda who: self._graph.find_references(asked, who), access)

    def get_call_graph(
        self,
        target: str,
        *,
        depth: int = 1,
        direction: CallDirection = "both",
        filters: Filters = _NO_FILTERS,
        limit: int = DEFAULT_LIMIT,
        access: Access | None = None,
    ) -> AnswerT:
        """See `CodeGraph.get_call_graph`."""
        asked = GraphRequest("calls", target, filters, limit, depth)
        return self._run(
            asked, lambda who: self._graph.get_call_graph(asked, who, direction=direction), access
        )

    def get_class_hierarchy(
        self,
        target: str,
        *,
        depth: int = _HIERARCHY_DEPTH,
        filters: Filters = _NO_FILTERS,
        limit: int = DEFAULT_LIMIT,
        access: Access | None = None,
    ) -> AnswerT:
        """See `CodeGraph.get_class_hierarchy`."""
        asked = GraphRequest("hierarchy", target, filters, limit, depth)
        return self._run(asked, lambda who: self._graph.get_class_hierarchy(asked, who), access)

    def get_dependencies(
        self,
        target: str,
        *,
        depth: int = 1,
        filters: Filters = _NO_FILTERS,
        limit: int = DEFAULT_LIMIT,
        access: Access | None = None,
    ) -> AnswerT:
        """See `CodeGraph.get_dependencies`."""
        asked = GraphRequest("dependencies", target, filters, limit, depth)
        return self._run(asked, lambda who: self._graph.get_dependencies(asked, who), access)

    def analyze_dependencies(
        self,
        target: str,
        *,
        depth: int = 3,
        filters: Filters = _NO_FILTERS,
        limit: int = DEFAULT_LIMIT,
        access: Access | None = None,
    ) -> AnswerT:
        """See `CodeGraph.analyze_dependencies`."""
        asked = GraphRequest("impact", target, filters, limit, depth)
        return self._run(asked, lambda who: self._graph.analyze_dependencies(asked, who), access)

    def find_related_code(
        self, target: str, *, filters: Filters = _NO_FILTERS, limit: int = 20, access: Access | None = None
    ) -> AnswerT:
        """See `CodeGraph.find_related_code`."""
        asked = GraphRequest("related", target, filters, limit)
        return self._run(asked, lambda who: self._graph.find_related_code(asked, who), access)
