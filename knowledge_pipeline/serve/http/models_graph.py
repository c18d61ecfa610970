"""What questions to the code graph say and get. Nothing here knows of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from knowledge_pipeline.config.settings import SourceType
from knowledge_pipeline.query.code_graph.engine import MAX_DEPTH, MAX_NODES, NODES, CallDirection
from knowledge_pipeline.query.code_graph.target import MAX_CHARS
from knowledge_pipeline.query.filters import MAX_VALUES
from knowledge_pipeline.serve.http.models import Asked, FiltersAsked, Measured, Names, Told

Target = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_CHARS,
        description="A definition by its name or full name, `path:name`, `path:line`, a file, or a folder.",
        examples=["Store.get", "src/store.py:120"],
    ),
]
Nodes = Annotated[int, Field(ge=1, le=MAX_NODES, description="How many nodes beside the target at most.")]
Depth = Annotated[int, Field(ge=1, le=MAX_DEPTH, description="How many steps away from the target.")]


class GraphFilters(Asked):
    """What the target is looked for among."""

    languages: Names = Field(default=[])
    sources: Names = Field(default=[])
    source_types: Sequence[SourceType] = Field(default=[], max_length=MAX_VALUES)
    repos: Names = Field(default=[])
    branches: Names = Field(default=[])
    paths: Names = Field(default=[])
    tags: Names = Field(default=[])

    def meant(self) -> FiltersAsked:
        """The same as filters of a search."""
        return FiltersAsked(**self.model_dump())


class GraphAsked(Asked):
    """A question about a piece of code."""

    target: Target
    filters: GraphFilters = GraphFilters()
    limit: Nodes = NODES


class GraphRelated(GraphAsked):
    """A question for what has most to do with a piece of code."""

    limit: Nodes = 20


class GraphWalk(GraphAsked):
    """A question that follows links, step by step."""

    depth: Depth = 1


class GraphCalls(GraphWalk):
    """A question that follows calls."""

    direction: CallDirection = "both"


class GraphHierarchy(GraphWalk):
    """A question that follows inheritance."""

    depth: Depth = 5


class GraphImpact(GraphWalk):
    """A question that follows uses."""

    depth: Depth = 3


class NodeTold(Told):
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


class LinkTold(Told):
    """One node has to do with another, at some lines of a file."""

    kind: str = Field(examples=["calls", "imports"])
    source: str = Field(description="Id of a node.")
    target: str = Field(description="Id of a node.")
    path: str
    lines: list[int]
    confidence: float = Field(ge=0, le=1)


class GraphTold(Measured):
    """Nodes and links; nothing but candidates where the target may mean several things."""

    question: str
    target: str
    nodes: list[NodeTold]
    links: list[LinkTold]
    candidates: list[NodeTold]
    notes: list[str] = Field(description="Sentences: what was cut, what could not be resolved.")
    timings_ms: dict[str, float]
