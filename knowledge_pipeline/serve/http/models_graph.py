"""What questions to the code graph say and get. Nothing here knows of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from knowledge_pipeline.contract.types import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_TARGET_CHARS,
    MAX_VALUES,
    CallDirection,
    SourceType,
)
from knowledge_pipeline.query.code_graph.engine import DEFAULT_LIMIT
from knowledge_pipeline.serve.http.models import (
    Names,
    QueryResponse,
    RequestModel,
    ResponseModel,
    SearchFilters,
)

Target = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_TARGET_CHARS,
        description="A definition by its name or full name, `path:name`, `path:line`, a file, or a folder.",
        examples=["Store.get", "src/store.py:120"],
    ),
]
NodeLimit = Annotated[int, Field(ge=1, le=MAX_NODES, description="How many nodes beside the target at most.")]
Depth = Annotated[int, Field(ge=1, le=MAX_DEPTH, description="How many steps away from the target.")]


class GraphFilters(RequestModel):
    """What the target is looked for among."""

    languages: Names = Field(default=[])
    sources: Names = Field(default=[])
    source_types: Sequence[SourceType] = Field(default=[], max_length=MAX_VALUES)
    repos: Names = Field(default=[])
    branches: Names = Field(default=[])
    paths: Names = Field(default=[])
    tags: Names = Field(default=[])

    def to_search_filters(self) -> SearchFilters:
        """The same as filters of a search."""
        return SearchFilters(**self.model_dump())


class GraphRequestBody(RequestModel):
    """A question about a piece of code."""

    target: Target
    filters: GraphFilters = GraphFilters()
    limit: NodeLimit = DEFAULT_LIMIT


class RelatedCodeRequest(GraphRequestBody):
    """A question for what has most to do with a piece of code."""

    limit: NodeLimit = 20


class GraphTraversalRequest(GraphRequestBody):
    """A question that follows links, step by step."""

    depth: Depth = 1


class CallGraphRequest(GraphTraversalRequest):
    """A question that follows calls."""

    direction: CallDirection = "both"


class ClassHierarchyRequest(GraphTraversalRequest):
    """A question that follows inheritance."""

    depth: Depth = 5


class ImpactRequest(GraphTraversalRequest):
    """A question that follows uses."""

    depth: Depth = 3


class GraphNode(ResponseModel):
    """A definition, a file, or a name outside of everything that is indexed."""

    id: str
    name: str
    kind: str = Field(examples=["function", "class", "file", "outside"])
    full_name: str
    source: str | None
    path: str | None
    lines: str | None
    language: str | None
    signature: str
    url: str | None
    side: str = Field(description="target, member (of the target), used_by, or uses.")
    distance: int
    score: float | None


class GraphEdge(ResponseModel):
    """One node has to do with another, at some lines of a file."""

    kind: str = Field(examples=["calls", "imports"])
    source: str = Field(description="Id of a node.")
    target: str = Field(description="Id of a node.")
    path: str
    lines: list[int]
    confidence: float = Field(ge=0, le=1)


class GraphResponse(QueryResponse):
    """Nodes and links; nothing but candidates where the target may mean several things."""

    question: str
    target: str
    nodes: list[GraphNode]
    links: list[GraphEdge]
    candidates: list[GraphNode]
    notes: list[str] = Field(description="Sentences: what was cut, what could not be resolved.")
    timings_ms: dict[str, float]
