"""What a question to the code graph gets: what was meant, what has to do with it, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from knowledge_pipeline.query.search.assemble import to_json_value
from knowledge_pipeline.query.stopwatch import Step

NodeRole = Literal["target", "used_by", "uses", "member"]
"""How a node came into an answer: it was asked for, it uses the target, the target uses it, or it is
defined within the target."""


@dataclass(frozen=True, slots=True)
class CodeNode:
    """A definition, a file, or a name outside of everything that is indexed."""

    id: str
    name: str  # qualified within its file: "Store.get"; of a file its path; of what is outside its full name
    kind: str  # "function", "class", "file", ...; "outside"
    full_name: str
    source: str | None = None  # None: outside
    path: str | None = None
    lines: str | None = None  # "L10-L24"
    language: str | None = None
    signature: str = ""
    url: str | None = None
    side: NodeRole = "target"
    distance: int = 0  # steps from the target
    score: float | None = None  # in (0, 1], where nodes are ranked


@dataclass(frozen=True, slots=True)
class CodeEdge:
    """One node has to do with another: all places in a file where it does so in one way."""

    kind: str  # "calls", "references", "extends", "implements", "imports"
    source: str  # id of a node
    target: str
    path: str  # of the file where it stands
    lines: tuple[int, ...]  # counted from 1
    confidence: float  # 0 to 1, of the surest place


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """Nodes and links; several candidates and nothing else where the target is ambiguous."""

    query_id: str
    question: str  # "usages", "calls", ...
    target: str  # as it was asked
    took_ms: float
    release: int
    nodes: tuple[CodeNode, ...] = ()  # those that were asked for first, then by distance
    links: tuple[CodeEdge, ...] = ()
    candidates: tuple[CodeNode, ...] = ()  # what the target may mean, where it may mean several things
    notes: tuple[str, ...] = ()  # sentences: what was cut, what could not be resolved
    degraded: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    steps: tuple[Step, ...] = ()  # when each was, for those who trace

    @property
    def targets(self) -> tuple[CodeNode, ...]:
        """The nodes that were asked for."""
        return tuple(node for node in self.nodes if node.side == "target")

    @property
    def matches(self) -> tuple[CodeNode, ...]:
        """The nodes that were found by way of them."""
        return tuple(node for node in self.nodes if node.side in ("used_by", "uses"))

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        told = to_json_value(asdict(self))
        del told["steps"]
        return told
