"""An answer of the code graph as a person reads it: a tree from what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.screen import Screen, console
from knowledge_pipeline.cli.render.terminal_text import counted, one_line, visible

if TYPE_CHECKING:
    from rich.tree import Tree

    from knowledge_pipeline.query.code_graph.answers import GraphAnswer, Link, Node

_LINES_SHOWN = 5  # of one file
_SIDES = ("used_by", "uses")
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
    beside: str = ""
    below: list[_Branch] = field(default_factory=list["_Branch"])


def show(screen: Screen, answer: GraphAnswer) -> None:
    """A tree for what was asked for: on a terminal with colours, else plain."""
    trees = list(_trees(answer))
    for tree in trees:
        if screen.terminal:
            console().print(_rich(tree))
        else:
            screen.say("\n".join(_lines(tree)))
    if not answer.found:
        screen.say("Nothing was found.")


def show_candidates(screen: Screen, answer: GraphAnswer) -> None:
    """What an ambiguous name may mean."""
    screen.table([_row(node) for node in answer.candidates])


def show_ranked(screen: Screen, answer: GraphAnswer) -> None:
    """The nodes by their scores."""
    rows = [{"score": node.score, **_row(node)} for node in answer.found]
    screen.table(rows, right=("score",))
    if not rows:
        screen.say("Nothing was found.")


def _row(node: Node) -> dict[str, Any]:
    return {"name": node.name, "kind": node.kind, "source": node.source, "place": _place(node)}


def _trees(answer: GraphAnswer) -> Iterator[_Branch]:
    """One tree: several targets, as the files of a folder, share it."""
    if not answer.targets:
        return
    first, *others = answer.targets
    root = _Branch(first.name, _beside(first))
    if others:
        root = _Branch(one_line(answer.target), counted(len(answer.targets), "file"))
    own = {node.id for node in answer.nodes if node.side in ("target", "member")}
    for side in _SIDES:
        title = _TITLES.get(answer.question, {}).get(side)
        grown = _Grown(answer, side).below(own, own) if title else []
        if title and grown:
            count = sum(1 for node in answer.nodes if node.side == side)
            root.below.append(_Branch(title, f"({count})", grown))
    yield root


class _Grown:
    """Grows the branches of one side; each node is followed once."""

    def __init__(self, answer: GraphAnswer, side: str) -> None:
        self._side = side
        self._nodes = {node.id: node for node in answer.nodes}
        self._links = answer.links
        self._followed: set[str] = set()

    def below(self, ids: set[str], own: set[str]) -> list[_Branch]:
        """What hangs below some nodes: the nearest first."""
        found: dict[str, list[Link]] = {}
        for link in self._links:
            near, far = (link.target, link.source) if self._side == "used_by" else (link.source, link.target)
            if near in ids and far not in own:
                found.setdefault(far, []).append(link)
        ordered = sorted(
            found, key=lambda id_: (self._nodes[id_].distance, self._nodes[id_].path or "~", id_)
        )
        return [self._branch(self._nodes[id_], found[id_], own) for id_ in ordered]

    def _branch(self, node: Node, links: Sequence[Link], own: set[str]) -> _Branch:
        told = f"{_beside(node)}  {self._how(links)}".strip()
        if node.id in self._followed:
            return _Branch(node.name, f"{told}  (as above)")
        self._followed.add(node.id)
        return _Branch(node.name, told, self.below({node.id}, own))

    def _how(self, links: Sequence[Link]) -> str:
        """`calls Store.put at L15, L20`: the other end is named where it is a part of the target."""
        kinds = ", ".join(dict.fromkeys(link.kind for link in links))
        ends = {link.target if self._side == "used_by" else link.source for link in links}
        parts = sorted(self._nodes[id_].name for id_ in ends if self._nodes[id_].side == "member")
        lines = sorted({line for link in links for line in link.lines})
        shown = ", ".join(f"L{line}" for line in lines[:_LINES_SHOWN])
        more = f" and {len(lines) - _LINES_SHOWN} more" if len(lines) > _LINES_SHOWN else ""
        of = f" {', '.join(parts[:3])}{' …' if len(parts) > 3 else ''}" if parts else ""
        sure = max(link.confidence for link in links)
        doubt = f", confidence {sure:.2f}" if sure < 0.9 else ""
        return f"[{kinds}{of} at {shown}{more}{doubt}]"


def _beside(node: Node) -> str:
    if node.kind == "outside":
        return "outside"
    return f"{node.source}:{_place(node)}" if node.kind != "file" else f"{node.source}"


def _place(node: Node) -> str:
    if node.path is None:
        return ""
    return f"{node.path}:{node.lines.removeprefix('L').partition('-')[0]}" if node.lines else node.path


def _lines(branch: _Branch, before: str = "", here: str = "") -> Iterator[str]:
    yield f"{here}{one_line(branch.name)}  {one_line(branch.beside)}".rstrip()
    for at, child in enumerate(branch.below, start=1):
        last = at == len(branch.below)
        yield from _lines(child, f"{before}{'   ' if last else '│  '}", f"{before}{'└─ ' if last else '├─ '}")


def _rich(branch: _Branch) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    def label(of: _Branch) -> Text:
        return Text.assemble(
            (visible(one_line(of.name)), "bold"), "  ", (visible(one_line(of.beside)), "dim")
        )

    def grow(tree: Tree, of: _Branch) -> Tree:
        for child in of.below:
            grow(tree.add(label(child)), child)
        return tree

    return grow(Tree(label(branch)), branch)
