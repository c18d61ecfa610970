"""`knowledge graph …`: questions to the code graph of the live release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from knowledge_pipeline.cli.exit_codes import WRONG_USAGE
from knowledge_pipeline.cli.screen import build_console, format_count, one_line
from knowledge_pipeline.cli.session import (
    MaxAge,
    Names,
    Session,
    WrongUsage,
    complete_source_ids,
    example,
    iter_index_locations,
)
from knowledge_pipeline.contract.filters import CallDirection, build_filters

if TYPE_CHECKING:
    from rich.tree import Tree

    from knowledge_pipeline.contract.responses import GraphEdge, GraphNode, GraphResponse
    from knowledge_pipeline.query.graph_queries import Graph


Target = Annotated[
    str, Argument(metavar="TARGET", help="A name, a path, PATH:LINE or PATH:NAME, or a folder.")
]
Name = Annotated[str, Argument(metavar="NAME", help="Its name, as it is written.")]
Depth = Annotated[int, Option("--depth", "-d", metavar="N", help="How many steps.", min=1)]
Direction = Annotated[CallDirection, Option("--direction", help="Which way to follow calls.")]
Limit = Annotated[int, Option("--limit", "-n", metavar="N", help="How many nodes.", min=1)]


def _scope(name: str, metavar: str, description: str, **extra: Any) -> Any:
    """`Any`: Typer types its options so."""
    shown = f"Look for TARGET in {description} (repeatable)."
    return Option(f"--{name}", metavar=metavar, help=shown, **extra)


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """The options that all graph commands share."""

    sources: Annotated[Names, _scope("source", "ID", "this source", autocompletion=complete_source_ids)] = (
        None
    )
    languages: Annotated[Names, _scope("language", "NAME", "this language")] = None
    repos: Annotated[Names, _scope("repo", "NAME", "this repository")] = None
    paths: Annotated[Names, _scope("path", "GLOB", "these files")] = None
    max_age: MaxAge = None
    mermaid: Annotated[bool, Option("--mermaid", help="Print a Mermaid flowchart, for Markdown pages.")] = (
        False
    )
    dot: Annotated[bool, Option("--dot", help="Print a graph for Graphviz.")] = False


@example("""
    knowledge graph usages Store.get
    knowledge graph usages src/auth.py:42
    knowledge graph usages get --path "src/store/**" --json
""")
def usages(session: Session, target: Target, limit: Limit = 100, *, options: GraphOptions) -> int | None:
    """Show what uses a definition, or anything defined in it.

    Lists the functions, classes and files that call, name, extend or import it, with their lines,
    in all sources, including other repositories.
    """
    return _answer(session, target, options, lambda it: it.find_usages, limit=limit)


@example("""
    knowledge graph references Store
    knowledge graph references src/store.py
""")
def references(session: Session, target: Target, limit: Limit = 100, *, options: GraphOptions) -> int | None:
    """Show every place that names this very definition or file."""
    return _answer(session, target, options, lambda it: it.find_references, limit=limit)


@example("""
    knowledge graph calls main
    knowledge graph calls Store.get --direction callers --depth 3
    knowledge graph calls Store --direction callees --mermaid
""")
def calls(
    session: Session,
    target: Target,
    depth: Depth = 1,
    direction: Direction = "both",
    limit: Limit = 100,
    *,
    options: GraphOptions,
) -> int | None:
    """Show what calls a function, and what it calls, step by step.

    For a class or a file: what calls its functions, and what they call.
    """
    arguments = {"depth": depth, "direction": direction, "limit": limit}
    return _answer(session, target, options, lambda it: it.get_call_graph, **arguments)


@example("""
    knowledge graph hierarchy BaseStore
    knowledge graph hierarchy BaseStore --dot | dot -Tsvg > stores.svg
""")
def hierarchy(
    session: Session, target: Target, depth: Depth = 5, limit: Limit = 100, *, options: GraphOptions
) -> int | None:
    """Show what a class extends or implements, and what extends or implements it."""
    return _answer(session, target, options, lambda it: it.get_class_hierarchy, depth=depth, limit=limit)


@example("""
    knowledge graph dependencies src/auth.py
    knowledge graph dependencies src/auth --depth 2
    knowledge graph dependencies Store.get
""")
def dependencies(
    session: Session, target: Target, depth: Depth = 1, limit: Limit = 100, *, options: GraphOptions
) -> int | None:
    """Show what a definition, a file or a folder depends on.

    For a file: other files, and the names that it imports from outside.
    """
    return _answer(session, target, options, lambda it: it.get_dependencies, depth=depth, limit=limit)


@example("""
    knowledge graph impact Store.get
    knowledge graph impact src/store.py --depth 2
""")
def impact(
    session: Session, target: Target, depth: Depth = 3, limit: Limit = 100, *, options: GraphOptions
) -> int | None:
    """Show what a change could break, directly and indirectly, and what it depends on."""
    return _answer(session, target, options, lambda it: it.analyze_dependencies, depth=depth, limit=limit)


@example("""
    knowledge graph related Store.get
    knowledge graph related src/store.py:12 --limit 5
""")
def related(session: Session, target: Target, limit: Limit = 20, *, options: GraphOptions) -> int | None:
    """Show the definitions most related to this one, ranked.

    Related definitions use it, are used by it, or use the same rare names.
    """
    return _answer(session, target, options, lambda it: it.find_related_code, limit=limit)


def _build_name_command(kind: str, name: str, summary: str) -> Callable[..., int | None]:
    """`knowledge graph route NAME`, and the same of the other names at which the parts of a system meet."""

    def command(session: Session, name: Name, limit: Limit = 100, *, options: GraphOptions) -> int | None:
        return _answer(session, f"{kind} {name}", options, lambda it: it.find_usages, limit=limit)

    command.__name__, command.__doc__ = kind, summary
    return example(f"knowledge graph {kind} {name}\nknowledge graph {kind} {name} --json")(command)


_NAME_COMMANDS = (
    _build_name_command(
        "route", '"POST /orders"', "Show what declares a route and what calls it, everywhere."
    ),
    _build_name_command("topic", "orders", "Show what sends to a topic or queue, and what reads from it."),
    _build_name_command("table", "orders", "Show what defines a table, and which queries name it."),
    _build_name_command(
        "variable", "ORDERS_URL", "Show what sets an environment variable, and what reads it."
    ),
    _build_name_command("flag", "new-checkout", "Show what asks for a feature flag."),
)
COMMANDS = (usages, references, calls, hierarchy, dependencies, impact, related, *_NAME_COMMANDS)


def _answer(
    session: Session,
    target: str,
    options: GraphOptions,
    choose_query: Callable[[Graph], Callable[..., GraphResponse]],
    **arguments: int | str,
) -> int | None:
    from knowledge_pipeline.contract.describe import render_dot, render_mermaid

    if options.mermaid and options.dot:
        raise WrongUsage("give --mermaid or --dot, not both")
    file, colon, rest = target.partition(":")
    scope: dict[str, Any] = {
        name: tuple(getattr(options, name) or ()) for name in ("sources", "languages", "repos", "paths")
    }
    with session.open_knowledge_base() as base:
        if not scope["sources"] and Path(file).expanduser().is_file():  # perhaps inside a source's folder
            path, source = next(iter_index_locations(file, session.settings), (file, None))
            target, scope["sources"] = f"{path}{colon}{rest}", (source,) if source else ()
        response = choose_query(base.graph)(
            target, filters=build_filters(scope), max_age=options.max_age, **arguments
        )
    screen = session.screen
    screen.print_json(response.as_json())
    if response.candidates:
        screen.print_table([_node_row(node) for node in response.candidates])
    elif options.mermaid or options.dot:
        screen.print_text((render_mermaid if options.mermaid else render_dot)(response).rstrip("\n"))
    elif response.operation == "related":
        rows = [{"score": node.score, **_node_row(node)} for node in response.matches]
        screen.print_table(rows, right_aligned=("score",))
    elif tree := _build_tree(response):
        if screen.is_terminal:
            build_console().print(_to_rich_tree(tree))
        else:
            screen.print_text("\n".join(_iter_lines(tree)))
    if not (response.candidates or response.matches or options.mermaid or options.dot):
        screen.print_text("Nothing was found.")
    for note in response.notes:
        screen.print_note(f"note: {note}")
    return WRONG_USAGE if response.candidates else None


_MAX_LINES_SHOWN = 5  # of one file
_TITLES = {
    "usages": {"uses": "declared by", "used_by": "used by"},
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


def _node_row(node: GraphNode) -> dict[str, Any]:
    return {"name": node.name, "kind": node.kind, "source": node.source, "place": _format_location(node)}


def _build_tree(answer: GraphResponse) -> _Branch | None:
    if not answer.targets:
        return None
    first, *others = answer.targets
    root = _Branch(first.name, _format_detail(first))
    if others:
        root = _Branch(one_line(answer.target), format_count(len(answer.targets), "file"))
    own = {node.id for node in answer.nodes if node.role in ("target", "member")}
    for side in ("used_by", "uses"):
        title = _TITLES.get(answer.operation, {}).get(side)
        if title and (grown := _TreeBuilder(answer, side).build_branches(own, own)):
            count = sum(1 for node in answer.nodes if node.role == side)
            root.children.append(_Branch(title, f"({count})", grown))
    return root


class _TreeBuilder:
    """Grows the branches of one side; each node is followed once."""

    def __init__(self, answer: GraphResponse, side: str) -> None:
        self._side, self._links = side, answer.edges
        self._nodes = {node.id: node for node in answer.nodes}
        self._visited: set[str] = set()

    def build_branches(self, ids: set[str], own: set[str]) -> list[_Branch]:
        """What hangs below some nodes: the nearest first."""
        links_by_node: dict[str, list[GraphEdge]] = {}
        for link in self._links:
            near, far = (link.target, link.source) if self._side == "used_by" else (link.source, link.target)
            if near in ids and far not in own:
                links_by_node.setdefault(far, []).append(link)
        nodes = [self._nodes[id_] for id_ in links_by_node]
        branches: list[_Branch] = []
        for node in sorted(nodes, key=lambda node: (node.distance, node.path or "~", node.id)):
            detail = f"{_format_detail(node)}  {self._format_links(links_by_node[node.id])}".strip()
            if node.id in self._visited:
                branches.append(_Branch(node.name, f"{detail}  (as above)"))
            else:
                self._visited.add(node.id)
                branches.append(_Branch(node.name, detail, self.build_branches({node.id}, own)))
        return branches

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
    if node.source is None:
        return node.kind
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
