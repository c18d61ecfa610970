"""`knowledge graph …`: questions to the code graph of the live release."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from knowledge_pipeline.cli.exit_codes import WRONG_USAGE
from knowledge_pipeline.cli.options import complete_source_ids
from knowledge_pipeline.cli.search import iter_index_locations
from knowledge_pipeline.cli.session import Session, WrongUsage, example

if TYPE_CHECKING:
    from knowledge_pipeline.contract.filters import Filters
    from knowledge_pipeline.contract.responses import GraphResponse
    from knowledge_pipeline.query.code_graph.interface import Graph

OptionalStrings = list[str] | None
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A name, a path, PATH:LINE or PATH:NAME, or a folder."),
]
Depth = Annotated[int, typer.Option("--depth", "-d", metavar="N", help="How many steps.", min=1, max=10)]
Direction = Annotated[
    Literal["callers", "callees", "both"], typer.Option("--direction", help="Which way to follow calls.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many nodes.", min=1, max=1000)]
_GraphQuery = Callable[["Graph", str, "Filters"], "GraphResponse"]


def _scope_option(flag: str, metavar: str, description: str, **extra: Any) -> Any:
    return typer.Option(
        flag, metavar=metavar, help=f"Look for TARGET in {description} (repeatable).", **extra
    )


def _declare_graph_options(
    source: Annotated[
        OptionalStrings, _scope_option("--source", "ID", "this source", autocompletion=complete_source_ids)
    ] = None,
    language: Annotated[OptionalStrings, _scope_option("--language", "NAME", "this language")] = None,
    repo: Annotated[OptionalStrings, _scope_option("--repo", "NAME", "this repository")] = None,
    path: Annotated[OptionalStrings, _scope_option("--path", "GLOB", "these files")] = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid flowchart, for Markdown pages.")
    ] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print a graph for Graphviz.")] = False,
) -> None:
    """The options that all commands have; only the signature counts."""


_GRAPH_OPTIONS = inspect.signature(_declare_graph_options, eval_str=True).parameters


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """The options as given."""

    source: OptionalStrings = None
    language: OptionalStrings = None
    repo: OptionalStrings = None
    path: OptionalStrings = None
    mermaid: bool = False
    dot: bool = False


def _add_graph_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as `graph_options`."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        taken = {field.name: options.pop(field.name) for field in fields(GraphOptions)}
        return function(*args, **options, graph_options=GraphOptions(**taken))

    own = [*inspect.signature(function, eval_str=True).parameters.values()]
    added = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in _GRAPH_OPTIONS.values()]
    signed = [*(each for each in own if each.name != "graph_options"), *added]
    run.__dict__["__signature__"] = inspect.Signature(signed)
    return run


@_add_graph_options
@example("""
    knowledge graph usages Store.get
    knowledge graph usages src/auth.py:42
    knowledge graph usages get --path "src/store/**" --json
""")
def usages(
    session: Session,
    target: Target,
    limit: Limit = 100,
    *,
    graph_options: GraphOptions,
) -> int | None:
    """Show what uses a definition, or anything defined in it.

    Functions, classes and files that call, name, extend or import it, each with its lines, of all
    sources: another repository that imports it, too.
    """
    return _run_graph_query(
        session,
        target,
        graph_options,
        lambda graph, name, within: graph.find_usages(name, filters=within, limit=limit),
    )


@_add_graph_options
@example("""
    knowledge graph references Store
    knowledge graph references src/store.py
""")
def references(
    session: Session,
    target: Target,
    limit: Limit = 100,
    *,
    graph_options: GraphOptions,
) -> int | None:
    """Show every place that names exactly this definition or file."""
    return _run_graph_query(
        session,
        target,
        graph_options,
        lambda graph, name, within: graph.find_references(name, filters=within, limit=limit),
    )


@_add_graph_options
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
    graph_options: GraphOptions,
) -> int | None:
    """Show what calls a function, and what it calls, step by step.

    Of a class or a file: what calls its functions, and what they call.
    """
    how: dict[str, Any] = {"depth": depth, "direction": direction, "limit": limit}
    return _run_graph_query(
        session,
        target,
        graph_options,
        lambda graph, name, within: graph.get_call_graph(name, filters=within, **how),
    )


@_add_graph_options
@example("""
    knowledge graph hierarchy BaseStore
    knowledge graph hierarchy BaseStore --dot | dot -Tsvg > stores.svg
""")
def hierarchy(
    session: Session,
    target: Target,
    depth: Depth = 5,
    limit: Limit = 100,
    *,
    graph_options: GraphOptions,
) -> int | None:
    """Show what a class extends or implements, and what extends or implements it."""
    how: dict[str, Any] = {"depth": depth, "limit": limit}
    return _run_graph_query(
        session,
        target,
        graph_options,
        lambda graph, name, within: graph.get_class_hierarchy(name, filters=within, **how),
    )


@_add_graph_options
@example("""
    knowledge graph dependencies src/auth.py
    knowledge graph dependencies src/auth --depth 2
    knowledge graph dependencies Store.get
""")
def dependencies(
    session: Session,
    target: Target,
    depth: Depth = 1,
    limit: Limit = 100,
    *,
    graph_options: GraphOptions,
) -> int | None:
    """Show what a definition, a file or a folder depends on.

    Of files these are files, and the names that they take from outside.
    """
    how: dict[str, Any] = {"depth": depth, "limit": limit}
    return _run_graph_query(
        session,
        target,
        graph_options,
        lambda graph, name, within: graph.get_dependencies(name, filters=within, **how),
    )


@_add_graph_options
@example("""
    knowledge graph impact Store.get
    knowledge graph impact src/store.py --depth 2
""")
def impact(
    session: Session,
    target: Target,
    depth: Depth = 3,
    limit: Limit = 100,
    *,
    graph_options: GraphOptions,
) -> int | None:
    """Show what a change of this could break, also by way of others, and what it depends on itself."""
    how: dict[str, Any] = {"depth": depth, "limit": limit}
    return _run_graph_query(
        session,
        target,
        graph_options,
        lambda graph, name, within: graph.analyze_dependencies(name, filters=within, **how),
    )


@_add_graph_options
@example("""
    knowledge graph related Store.get
    knowledge graph related src/store.py:12 --limit 5
""")
def related(
    session: Session,
    target: Target,
    limit: Limit = 20,
    *,
    graph_options: GraphOptions,
) -> int | None:
    """Show the definitions that have most to do with this one, ranked.

    They use it, are used by it, or use the same rare things.
    """
    return _run_graph_query(
        session,
        target,
        graph_options,
        lambda graph, name, within: graph.find_related_code(name, filters=within, limit=limit),
    )


def _run_graph_query(
    session: Session, target: str, graph_options: GraphOptions, query: _GraphQuery
) -> int | None:
    from knowledge_pipeline.query.access import Access
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase

    if graph_options.mermaid and graph_options.dot:
        raise WrongUsage("give --mermaid or --dot, not both")
    with KnowledgeBase.open(session.settings, access=Access.operator("cli")) as base:
        answer = query(base.graph, *_resolve_target(session, target, graph_options))
    return _show_answer(session, answer, graph_options)


def _resolve_target(session: Session, target: str, graph_options: GraphOptions) -> tuple[str, Filters]:
    """A file of this machine that lies in a source's folder is that source's file."""
    from knowledge_pipeline.contract.filters import Filters

    file, colon, rest = target.partition(":")
    sources = tuple(graph_options.source or ())
    if not sources and Path(file).expanduser().is_file():
        place, source = next(iter_index_locations(file, session.settings), (file, None))
        target, sources = f"{place}{colon}{rest}", (source,) if source else ()
    return target, Filters(
        sources=sources,
        languages=tuple(graph_options.language or ()),
        repos=tuple(graph_options.repo or ()),
        paths=tuple(graph_options.path or ()),
    )


def _show_answer(session: Session, answer: GraphResponse, graph_options: GraphOptions) -> int | None:
    from knowledge_pipeline.cli.render import graph as graph_tree
    from knowledge_pipeline.query.code_graph.diagrams import render_dot, render_mermaid

    screen = session.screen
    if screen.as_json:
        screen.print_json(answer.as_json())
    elif answer.candidates:
        graph_tree.show_candidates(screen, answer)
    elif graph_options.mermaid or graph_options.dot:
        screen.print_text((render_mermaid if graph_options.mermaid else render_dot)(answer).rstrip("\n"))
    elif answer.operation == "related":
        graph_tree.show_ranked(screen, answer)
    else:
        graph_tree.show_tree(screen, answer)
    for note in answer.notes:
        screen.print_note(f"note: {note}")
    return WRONG_USAGE if answer.candidates else None
