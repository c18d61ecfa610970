"""`knowledge graph …`: questions to the code graph of the live release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from knowledge_pipeline.cli.exit_codes import WRONG_USAGE
from knowledge_pipeline.cli.local_files import iter_index_locations
from knowledge_pipeline.cli.options import Names, complete_source_ids
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import CallDirection

if TYPE_CHECKING:
    from knowledge_pipeline.contract.responses.graph import GraphResponse
    from knowledge_pipeline.query.code_graph.interface import Graph

Target = Annotated[
    str, Argument(metavar="TARGET", help="A name, a path, PATH:LINE or PATH:NAME, or a folder.")
]
Depth = Annotated[int, Option("--depth", "-d", metavar="N", help="How many steps.", min=1)]
Direction = Annotated[CallDirection, Option("--direction", help="Which way to follow calls.")]
Limit = Annotated[int, Option("--limit", "-n", metavar="N", help="How many nodes.", min=1)]


def _scope(metavar: str, description: str, **extra: Any) -> Any:
    """`Any`: Typer types its options so."""
    return Option(metavar=metavar, help=f"Look for TARGET in {description} (repeatable).", **extra)


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """The options that all graph commands share."""

    source: Annotated[Names, _scope("ID", "this source", autocompletion=complete_source_ids)] = None
    language: Annotated[Names, _scope("NAME", "this language")] = None
    repo: Annotated[Names, _scope("NAME", "this repository")] = None
    path: Annotated[Names, _scope("GLOB", "these files")] = None
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
    return _answer(
        session,
        target,
        options,
        lambda it: it.get_call_graph,
        depth=depth,
        direction=direction,
        limit=limit,
    )


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


COMMANDS = (usages, references, calls, hierarchy, dependencies, impact, related)


def _answer(
    session: Session,
    target: str,
    options: GraphOptions,
    choose_query: Callable[[Graph], Callable[..., GraphResponse]],
    **arguments: int | str,
) -> int | None:
    from knowledge_pipeline.cli.render.graph import show_candidates, show_ranked, show_tree
    from knowledge_pipeline.query.code_graph.diagrams import render_dot, render_mermaid

    if options.mermaid and options.dot:
        raise WrongUsage("give --mermaid or --dot, not both")
    with session.open_knowledge_base() as base:
        name, filters = _resolve_target(session, target, options)
        response = choose_query(base.graph)(name, filters=filters, **arguments)
    screen = session.screen
    screen.print_json(response.as_json())
    if response.candidates:
        show_candidates(screen, response)
    elif options.mermaid or options.dot:
        screen.print_text((render_mermaid if options.mermaid else render_dot)(response).rstrip("\n"))
    elif response.operation == "related":
        show_ranked(screen, response)
    else:
        show_tree(screen, response)
    for note in response.notes:
        screen.print_note(f"note: {note}")
    return WRONG_USAGE if response.candidates else None


def _resolve_target(session: Session, target: str, options: GraphOptions) -> tuple[str, Filters]:
    """The target and where to look for it; a file on disk inside a source's folder is that source's file."""
    file, colon, rest = target.partition(":")
    sources = tuple(options.source or ())
    if not sources and Path(file).expanduser().is_file():
        path, source = next(iter_index_locations(file, session.settings), (file, None))
        target, sources = f"{path}{colon}{rest}", (source,) if source else ()
    return target, Filters(
        sources=sources,
        languages=tuple(options.language or ()),
        repos=tuple(options.repo or ()),
        paths=tuple(options.path or ()),
    )
