"""The code graph: nodes and edges, and the neighbours of one result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from knowledge_pipeline.contract.responses.base import HIDDEN, QueryResponse, Step
from knowledge_pipeline.contract.types import NodeRole

_RESOLUTIONS = {
    1.0: "by import or scope",
    0.9: "by declared type",
    0.8: "by value",
    0.7: "by subclass",
    0.5: "by name",
    0.0: "not resolved",
}
"""How an edge of the code graph found its target, by its confidence; docs/code-graph.md explains them."""


_SEVERAL = "one of several"


def describe_resolution(confidence: float) -> str:
    """How an edge of a confidence was resolved; other confidences than those of one target are shared."""
    return _RESOLUTIONS.get(round(confidence, 2), _SEVERAL)


def describe_certainty(resolution: str, confidence: float) -> str:
    """`by import or scope · 1.0`."""
    return f"{resolution} · {round(confidence, 2)}"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A definition, a file, or a name outside of everything that is indexed."""

    id: str
    name: str  # qualified within its file: "Store.get"; of a file its path; outside its full name
    kind: str = field(metadata={"examples": ["function", "class", "file", "outside"]})
    full_name: str
    source: str | None = None  # None: outside
    path: str | None = None
    lines: str | None = None  # "L10-L24"
    language: str | None = None
    signature: str = ""
    url: str | None = None
    role: NodeRole = field(
        default="target", metadata={"description": "target, member (of the target), used_by, or uses."}
    )
    distance: int = field(default=0, metadata={"description": "Steps from the target."})
    score: float | None = None  # in (0, 1], where nodes are ranked


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A connection of two nodes: all places in a file where one uses the other in one way."""

    kind: str = field(metadata={"examples": ["calls", "references", "extends", "implements", "imports"]})
    source: str = field(metadata={"description": "Id of a node."})
    target: str = field(metadata={"description": "Id of a node."})
    path: str  # of the file that has the lines
    lines: tuple[int, ...]  # counted from 1
    confidence: float = field(metadata={"ge": 0, "le": 1})  # of the surest place
    resolution: str = field(
        default="",
        metadata={
            "description": "How the target was found.",
            "examples": [*_RESOLUTIONS.values(), _SEVERAL],
        },
    )

    def __post_init__(self) -> None:
        if not self.resolution:
            object.__setattr__(self, "resolution", describe_resolution(self.confidence))

    @property
    def certainty(self) -> str:
        """`by import or scope · 1.0`."""
        return describe_certainty(self.resolution, self.confidence)


@dataclass(frozen=True, slots=True)
class GraphResponse(QueryResponse):
    """Nodes and edges; only candidates if the target is ambiguous."""

    operation: str = field(metadata={"examples": ["usages", "calls"]})
    target: str  # as requested
    nodes: tuple[GraphNode, ...] = ()  # targets first, then by distance
    edges: tuple[GraphEdge, ...] = ()
    candidates: tuple[GraphNode, ...] = ()  # what an ambiguous target may mean
    notes: tuple[str, ...] = field(
        default=(), metadata={"description": "Sentences: what was left out, what could not be resolved."}
    )
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    steps: tuple[Step, ...] = field(default=(), metadata=HIDDEN)

    @property
    def targets(self) -> tuple[GraphNode, ...]:
        """The nodes that were asked for."""
        return tuple(node for node in self.nodes if node.role == "target")

    @property
    def matches(self) -> tuple[GraphNode, ...]:
        """The nodes that were found from the targets."""
        return tuple(node for node in self.nodes if node.role in ("used_by", "uses"))


@dataclass(frozen=True, slots=True)
class CodeNeighbour:
    """Code that a result is connected to."""

    name: str  # in its file: "Store.get"; of a file its path; of what is not indexed the full name
    source: str | None = field(default=None, metadata={"description": "null: it is not indexed."})
    path: str | None = None
    line: int | None = None  # where it begins; of a caller, where it first calls the result
    signature: str = ""
    edge_line: int | None = field(
        default=None, metadata={"description": "Line of the use, in the file that has it."}
    )
    confidence: float | None = field(
        default=None, metadata={"ge": 0, "le": 1, "description": "How sure it is that this is meant."}
    )

    resolution: str = field(default="", metadata={"description": "How it was found to be meant."})

    def __post_init__(self) -> None:
        if not self.resolution and self.confidence is not None:
            object.__setattr__(self, "resolution", describe_resolution(self.confidence))

    @property
    def certainty(self) -> str:
        """`by declared type · 0.9`; empty where nothing is known of the edge."""
        return "" if self.confidence is None else describe_certainty(self.resolution, self.confidence)


@dataclass(frozen=True, slots=True)
class CodeNeighbours:
    """What a result of code is connected to: a few neighbours of each kind."""

    calls: tuple[CodeNeighbour, ...] = ()  # in the order of its lines
    called_by: tuple[CodeNeighbour, ...] = ()  # of its own source first, then the surest
    imports: tuple[CodeNeighbour, ...] = ()  # of its file; what it uses itself first
    extends: tuple[CodeNeighbour, ...] = ()  # classes and interfaces
    implemented_by: tuple[CodeNeighbour, ...] = ()  # what extends or implements it
    omitted: Mapping[str, int] = field(
        default_factory=dict[str, int],
        metadata={"description": "How many more neighbours of each kind there are."},
    )

    def __bool__(self) -> bool:
        return any((self.calls, self.called_by, self.imports, self.extends, self.implemented_by))
