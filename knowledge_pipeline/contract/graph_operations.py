"""The operations of the code graph, declared once for Python, HTTP, MCP, the client and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

GraphMethod = Literal[
    "find_usages",
    "find_references",
    "get_call_graph",
    "get_class_hierarchy",
    "get_dependencies",
    "analyze_dependencies",
    "find_related_code",
]
"""A method of `KnowledgeBase.graph`, and a tool of MCP."""


@dataclass(frozen=True, slots=True)
class GraphOperation:
    """One operation; the defaults hold where a request does not say."""

    path: str  # of the HTTP API, below /graph; the name that a response carries
    title: str
    summary: str
    default_depth: int | None = None  # None: it does not follow edges step by step
    has_direction: bool = False
    default_limit: int = 100


GRAPH_OPERATIONS: Mapping[GraphMethod, GraphOperation] = {
    "find_usages": GraphOperation(
        "usages", "Find usages", "What uses a definition, or anything defined in it."
    ),
    "find_references": GraphOperation(
        "references", "Find references", "Every place that names exactly this definition or file."
    ),
    "get_call_graph": GraphOperation(
        "calls",
        "Show calls",
        "What calls a function and what it calls, step by step.",
        default_depth=1,
        has_direction=True,
    ),
    "get_class_hierarchy": GraphOperation(
        "hierarchy",
        "Show inheritance",
        "What a class extends or implements, and what extends or implements it.",
        default_depth=5,
    ),
    "get_dependencies": GraphOperation(
        "dependencies", "Show dependencies", "What a definition, file or folder depends on.", default_depth=1
    ),
    "analyze_dependencies": GraphOperation(
        "impact",
        "Show the impact of a change",
        "What a change could break, directly and indirectly, and what the target depends on.",
        default_depth=3,
    ),
    "find_related_code": GraphOperation(
        "related",
        "Find related code",
        "The definitions most closely related to one, ranked.",
        default_limit=20,
    ),
}
