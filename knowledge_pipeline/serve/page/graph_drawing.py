"""The code graph around a target as a drawing: what uses it on the left, what it uses on the right. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge_pipeline.contract.responses.graph import GraphNode, GraphResponse

MAX_BOXES = 10  # boxes in one column
_WIDTH, _HEIGHT = 220, 40
_GAP_X, _GAP_Y = 90, 12
_NAME_CHARS, _PLACE_CHARS = 27, 34


@dataclass(frozen=True, slots=True)
class Box:
    """One node, with the left and top of its box in pixels."""

    node: GraphNode | None  # None: those that are not drawn
    x: int
    y: int
    name: str
    location: str

    @property
    def middle_y(self) -> int:
        """The height at which lines end."""
        return self.y + _HEIGHT // 2


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes, the curves between them as paths of SVG with the kinds of their links, and the size."""

    boxes: tuple[Box, ...]
    curves: tuple[tuple[str, str], ...]
    width: int
    height: int
    box_width: int = _WIDTH
    box_height: int = _HEIGHT


def draw_graph(answer: GraphResponse) -> Drawing | None:
    """The nearest nodes of an answer about one thing; None where there is nothing to draw."""
    users = [node for node in answer.nodes if node.role == "used_by" and node.distance <= 1]
    used = [node for node in answer.nodes if node.role == "uses" and node.distance <= 1]
    middle = [node for node in answer.nodes if node.role in ("target", "member")]
    if not middle or not (users or used):
        return None
    columns = [users, middle, used]
    rows = max(min(len(each), MAX_BOXES + 1) for each in columns)
    height = rows * (_HEIGHT + _GAP_Y) - _GAP_Y
    boxes = [list(_layout_column(nodes, at, height)) for at, nodes in enumerate(columns)]
    every = tuple(box for column in boxes for box in column)
    width = 3 * _WIDTH + 2 * _GAP_X
    return Drawing(every, tuple(_iter_curves(answer, every)), width, height)


def _layout_column(nodes: Sequence[GraphNode], column: int, height: int) -> Iterator[Box]:
    drawn = nodes if len(nodes) <= MAX_BOXES + 1 else nodes[:MAX_BOXES]
    count = len(drawn) + (len(drawn) < len(nodes))
    x, top = column * (_WIDTH + _GAP_X), (height - count * (_HEIGHT + _GAP_Y) + _GAP_Y) // 2
    for row, node in enumerate(drawn):
        y = top + row * (_HEIGHT + _GAP_Y)
        yield Box(node, x, y, _truncate_start(node.name, _NAME_CHARS), _format_location(node))
    if len(drawn) < len(nodes):
        y = top + len(drawn) * (_HEIGHT + _GAP_Y)
        yield Box(None, x, y, f"{len(nodes) - len(drawn)} more", "in the list below")


def _format_location(node: GraphNode) -> str:
    if node.path is None:
        return "outside"
    line = (node.lines or "").partition("-")[0].removeprefix("L")
    place = f"{node.path}:{line}" if line and node.kind != "file" else node.path
    while len(place) > _PLACE_CHARS and "/" in place:
        place = place.partition("/")[2]
    return _truncate_start(place, _PLACE_CHARS)


def _iter_curves(answer: GraphResponse, boxes: Sequence[Box]) -> Iterator[tuple[str, str]]:
    at = {box.node.id: box for box in boxes if box.node}
    drawn = set[tuple[str, str]]()
    for link in answer.edges:
        start, end = at.get(link.source), at.get(link.target)
        if start is None or end is None or start.x >= end.x or (link.source, link.target) in drawn:
            continue
        drawn.add((link.source, link.target))
        left, right = start.x + _WIDTH, end.x - 6
        bend = (right - left) // 2
        bent = f"{left + bend} {start.middle_y} {right - bend} {end.middle_y}"
        yield f"M{left} {start.middle_y}C{bent} {right} {end.middle_y}", link.kind


def _truncate_start(text: str, max_chars: int) -> str:
    """The end of a text, which tells more of a path or a qualified name than its beginning."""
    spaced = " ".join(text.split())
    return spaced if len(spaced) <= max_chars else f"…{spaced[1 - max_chars :]}"
