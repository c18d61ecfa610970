"""`search`, `similar`, `get`, `debug`: questions to the live release."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knowledge_pipeline.cli.filter_options import FilterOptions, with_filter_options
from knowledge_pipeline.cli.options import SearchKind
from knowledge_pipeline.cli.render import search_results
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.errors import NotFound

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.contract.filters import Filters
    from knowledge_pipeline.contract.responses import SearchResponse
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase

_MAX_FILE_CHARS = 20_000  # of a file that is not in the index

Limit = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", help="How many results.", min=1, max=100)
]
Lines = Annotated[
    int, typer.Option("--lines", metavar="N", help="Lines shown of each result; 0: only its place.", min=0)
]
Explain = Annotated[bool, typer.Option("--explain", help="Say where each score comes from, and the time.")]
File = Annotated[
    str | None,
    typer.Option("--file", metavar="PATH", help="Find what is like this file, indexed or not."),
]


@with_filter_options
@example("""
    knowledge search "how are sessions signed"
    knowledge search "retry with backoff" --type code --language python --path "src/**"
    knowledge search "why was the cache removed" --type historical --since 180d
    knowledge search --file src/auth.py --json
""")
def search(
    session: Session,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY", help="A question, keywords, or a name; `lang:go path:src/` narrow it."
        ),
    ] = None,
    type: Annotated[
        SearchKind | None, typer.Option("--type", "-t", help="What to look for.  [default: semantic]")
    ] = None,
    file: File = None,
    limit: Limit = None,
    lines: Lines = 12,
    explain: Explain = False,
    *,
    filter_options: FilterOptions,
) -> None:
    """Find the passages that answer a question best.

    Types: semantic (everything), code (source files alone), similar (like the given text
    or --file), historical (commits). Results are citations: path, lines, score, content.
    """
    if file is not None and type not in (None, "similar"):
        raise WrongUsage(f"--file looks for what is similar to it: leave out --type {type}")
    if query is None and file is None:
        raise WrongUsage("give a QUERY, or --file")
    filters = filter_options.to_filters()
    with _open_knowledge_base(session) as base:
        if file is not None or type == "similar":
            answer = _search_similar(base, query, file, filters, limit=limit, explain=explain)
        else:
            answer = base.search(
                query or "", type=type or "semantic", filters=filters, limit=limit, explain=explain
            )
    search_results.show_results(session.screen, answer, lines=lines)


@with_filter_options
@example("""
    knowledge similar --file src/auth.py
    knowledge similar "for attempt in range(tries): ..."
    git show HEAD:src/auth.py | knowledge similar -
""")
def similar(
    session: Session,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Code or prose; `-` reads it from stdin.")
    ] = None,
    file: File = None,
    limit: Limit = None,
    lines: Lines = 12,
    explain: Explain = False,
    *,
    filter_options: FilterOptions,
) -> None:
    """Find passages that are like a text, or like a file.

    Of a file that is indexed, its own passages are left out. What is found is of the
    file's type, unless --source-type says otherwise.
    """
    if (text is None) == (file is None):
        raise WrongUsage("give either TEXT or --file")
    filters = filter_options.to_filters()
    wanted = sys.stdin.read(_MAX_FILE_CHARS) if text == "-" else text
    with _open_knowledge_base(session) as base:
        answer = _search_similar(base, wanted, file, filters, limit=limit, explain=explain)
    search_results.show_results(session.screen, answer, lines=lines)


@example("""
    knowledge get 3f2a9c...
    knowledge get flask-code:src/flask/app.py --json
""")
def get(
    session: Session,
    id: Annotated[str, typer.Argument(metavar="ID", help="A chunk's id, or SOURCE:URI of a document.")],
) -> None:
    """Show one chunk, or all chunks of a document, whole."""
    with _open_knowledge_base(session) as base:
        answer = base.get(id)
    search_results.show_results(session.screen, answer, lines=None, scores=False)


@with_filter_options
@example("""
    knowledge debug --query "how are sessions signed" --explain
""")
def debug(
    session: Session,
    query: Annotated[str, typer.Option("--query", metavar="QUERY", help="The question to look into.")],
    type: Annotated[SearchKind, typer.Option("--type", "-t", help="What to look for.")] = "semantic",
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", help="How many candidates.", min=1, max=100)
    ] = 20,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every step (what this command does anyway).")
    ] = True,
    *,
    filter_options: FilterOptions,
) -> None:
    """Show how a question is answered, step by step.

    How it was understood, how long each step took, and each candidate's ranks and scores."""
    del explain  # scripts may say so
    filters = filter_options.to_filters()
    with _open_knowledge_base(session) as base:
        if type == "similar":
            answer = base.similar(text=query, filters=filters, limit=limit, explain=True)
        else:
            answer = base.search(query, type=type, filters=filters, limit=limit, explain=True)
    search_results.show_search_steps(session.screen, answer)


def _open_knowledge_base(session: Session) -> KnowledgeBase:
    from knowledge_pipeline.query.access import Access
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase

    return KnowledgeBase.open(session.settings, access=Access.operator("cli"))


def _search_similar(
    base: KnowledgeBase,
    text: str | None,
    file: str | None,
    filters: Filters,
    *,
    limit: int | None,
    explain: bool,
) -> SearchResponse:
    """Like the indexed file; like the content of a file that is only on this machine."""
    if file is None:
        return base.similar(text=text, filters=filters, limit=limit, explain=explain)
    missing: NotFound | None = None
    for path, source in iter_index_locations(file, base.settings):
        given = filters.sources[0] if len(filters.sources) == 1 else source
        try:
            return base.similar(
                text=text, path=path, source=given, filters=filters, limit=limit, explain=explain
            )
        except NotFound as error:
            missing = error
    if missing and not Path(file).is_file():
        raise missing
    content = Path(file).read_text(encoding="utf-8", errors="replace")[:_MAX_FILE_CHARS]
    return base.similar(text=text or content, filters=filters, limit=limit, explain=explain)


def iter_index_locations(file: str, settings: Settings) -> Iterator[tuple[str, str | None]]:
    """Path and source that a file may have in the index.

    A file of this machine that lies in a source's folder is that one; any other name is
    looked for in all sources.
    """
    from knowledge_pipeline.config.settings import LocalConnection

    path = Path(file).expanduser()
    inside = False
    for source in settings.sources if path.is_file() else ():
        folder = source.connection.path if isinstance(source.connection, LocalConnection) else None
        if folder is not None and path.resolve().is_relative_to(folder.resolve()):
            inside = True
            yield path.resolve().relative_to(folder.resolve()).as_posix(), source.id
    if not inside:
        yield file, None
