"""Answers of the code graph for people: a tree from the target, or a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.screen import Screen, build_console
from knowledge_pipeline.cli.render.terminal_text import format_count, one_line

if TYPE_CHECKING:
    from rich.tree import Tree

    from knowledge_pipeline.contract.responses.graph import GraphEdge, GraphNode, GraphResponse

_MAX_LINES_SHOWN = 5  # of one file
_TITLES = {
    "usages": {"used_by": "used by"},
    "references": {"used_by": "named by"},
    "calls": {"used_by": "called by", "uses": "calls"},
    "hierarchy": {"used_by": "extended by", "uses": "extends"},
    "dependencies": {"uses": "depends on"},
    "impact": {"used_by": "could break", "uses": "depends on"},
}


@dataclass(slots=True)
class _Branch:
    """One line of the tree, and what hangs below it."""

    name: str
    detail: str = ""
    children: list[_Branch] = field(default_factory=list["_Branch"])


def show_tree(screen: Screen, answer: GraphResponse) -> None:
    """Show a tree from the targets: in colour on a terminal, or else plain."""
    tree = _build_tree(answer)
    if tree and screen.is_terminal:
        build_console().print(_to_rich_tree(tree))
    elif tree:
        screen.print_text("\n".join(_iter_lines(tree)))
    if not answer.matches:
        screen.print_text("Nothing was found.")


def show_candidates(screen: Screen, answer: GraphResponse) -> None:
    """Show what an ambiguous name may mean."""
    screen.print_table([_node_row(node) for node in answer.candidates])


def show_ranked(screen: Screen, answer: GraphResponse) -> None:
    """Show the nodes by score."""
    rows = [{"score": node.score, **_node_row(node)} for node in answer.matches]
    screen.print_table(rows, right_aligned=("score",))
    if not rows:
        screen.print_text("Nothing was found.")


def _node_row(node: GraphNode) -> dict[str, Any]:
    return {"name": node.name, "kind": node.kind, "source": node.source, "place": _format_location(node)}


def _build_tree(answer: GraphResponse) -> _Branch | None:
    """One tree, which several targets share, such as the files of a folder."""
    if not answer.targets:
        return None
    first, *others = answer.targets
    root = _Branch(first.name, _format_detail(first))
    if others:
        root = _Branch(one_line(answer.target), format_count(len(answer.targets), "file"))
    own = {node.id for node in answer.nodes if node.role in ("target", "member")}
    for side in ("used_by", "uses"):
        title = _TITLES.get(answer.operation, {}).get(side)
        grown = _TreeBuilder(answer, side).build_branches(own, own) if title else []
        if title and grown:
            count = sum(1 for node in answer.nodes if node.role == side)
            root.children.append(_Branch(title, f"({count})", grown))
    return root


class _TreeBuilder:
    """Grows the branches of one side; each node is followed once."""

    def __init__(self, answer: GraphResponse, side: str) -> None:
        self._side = side
        self._nodes = {node.id: node for node in answer.nodes}
        self._links = answer.edges
        self._visited: set[str] = set()

    def build_branches(self, ids: set[str], own: set[str]) -> list[_Branch]:
        """What hangs below some nodes: the nearest first."""
        found: dict[str, list[GraphEdge]] = {}
        for link in self._links:
            near, far = (link.target, link.source) if self._side == "used_by" else (link.source, link.target)
            if near in ids and far not in own:
                found.setdefault(far, []).append(link)
        nodes = sorted((self._nodes[id_] for id_ in found), key=lambda n: (n.distance, n.path or "~", n.id))
        return [self._build_branch(node, found[node.id], own) for node in nodes]

    def _build_branch(self, node: GraphNode, links: Sequence[GraphEdge], own: set[str]) -> _Branch:
        detail = f"{_format_detail(node)}  {self._format_links(links)}".strip()
        if node.id in self._visited:
            return _Branch(node.name, f"{detail}  (as above)")
        self._visited.add(node.id)
        return _Branch(node.name, detail, self.build_branches({node.id}, own))

    def _format_links(self, links: Sequence[GraphEdge]) -> str:
        """`calls Store.put at L15, L20 · by value · 0.8`: names the other end if it is a member."""
        kinds = ", ".join(dict.fromkeys(link.kind for link in links))
        ends = {link.target if self._side == "used_by" else link.source for link in links}
        parts = sorted(self._nodes[id_].name for id_ in ends if self._nodes[id_].role == "member")
        lines = sorted({line for link in links for line in link.lines})
        shown = ", ".join(f"L{line}" for line in lines[:_MAX_LINES_SHOWN])
        more = f" and {len(lines) - _MAX_LINES_SHOWN} more" if len(lines) > _MAX_LINES_SHOWN else ""
        of = f" {', '.join(parts[:3])}{' …' if len(parts) > 3 else ''}" if parts else ""
        surest = max(links, key=lambda link: link.confidence)
        return f"[{kinds}{of} at {shown}{more} · {surest.certainty}]"


def _format_detail(node: GraphNode) -> str:
    if node.kind == "outside":
        return "outside"
    return f"{node.source}:{_format_location(node)}" if node.kind != "file" else f"{node.source}"


def _format_location(node: GraphNode) -> str:
    if node.path is None:
        return ""
    return f"{node.path}:{node.lines.removeprefix('L').partition('-')[0]}" if node.lines else node.path


def _iter_lines(branch: _Branch, indent: str = "", prefix: str = "") -> Iterator[str]:
    yield f"{prefix}{one_line(branch.name)}  {one_line(branch.detail)}".rstrip()
    for at, child in enumerate(branch.children, start=1):
        last = at == len(branch.children)
        below, prefix = ("   ", "└─ ") if last else ("│  ", "├─ ")
        yield from _iter_lines(child, indent + below, indent + prefix)


def _to_rich_tree(branch: _Branch) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    def format_label(item: _Branch) -> Text:
        return Text.assemble((one_line(item.name), "bold"), "  ", (one_line(item.detail), "dim"))

    def add_children(tree: Tree, item: _Branch) -> Tree:
        for child in item.children:
            add_children(tree.add(format_label(child)), child)
        return tree

    return add_children(Tree(format_label(branch)), branch)
