"""`search`: ask the live release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.filter_options import FilterOptions
from knowledge_pipeline.cli.local_files import iter_index_locations, read_beginning
from knowledge_pipeline.cli.options import Blame
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.contract.types import SearchMode, SearchType
from knowledge_pipeline.errors import NotFound

if TYPE_CHECKING:
    from knowledge_pipeline.contract.filters import Filters
    from knowledge_pipeline.contract.responses.search import SearchResponse
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase

Limit = Annotated[int | None, Option("--limit", "-n", metavar="N", help="How many results.", min=1)]
Lines = Annotated[
    int, Option("--lines", metavar="N", help="Lines to show of each result; 0: only its location.", min=0)
]
Explain = Annotated[bool, Option("--explain", help="Explain each score, and show timings.")]
Mode = Annotated[
    SearchMode,
    Option("--mode", help="Search by words and meaning, by words alone (no model), or by meaning alone."),
]
File = Annotated[
    str | None, Option("--file", metavar="PATH", help="Find what is similar to this file, indexed or not.")
]


@example("""
    knowledge search "how are sessions signed"
    knowledge search "retry with backoff" --type code --language python --path "src/**"
    knowledge search "why was the cache removed" --type historical --since 180d
    knowledge search "E_CONN_RESET" --mode words
    knowledge search --file src/auth.py --json
""")
def search(
    session: Session,
    query: Annotated[
        str | None,
        Argument(metavar="QUERY", help="A question, keywords, or a name; `lang:go path:src/` narrow it."),
    ] = None,
    type: Annotated[
        SearchType | None, Option("--type", "-t", help="What to look for.  [default: semantic]")
    ] = None,
    file: File = None,
    limit: Limit = None,
    lines: Lines = 12,
    explain: Explain = False,
    blame: Blame = False,
    mode: Mode = "hybrid",
    *,
    filter_options: FilterOptions,
) -> None:
    """Find what answers a question best.

    Types: semantic (everything), code (source files only), similar (like the given text
    or --file), historical (commits). Results are citations: path, lines, score, content.
    """
    from knowledge_pipeline.cli.render.search_results import show_results

    if file is not None and type not in (None, "similar"):
        raise WrongUsage(f"--file finds what is similar to a file: omit --type {type}")
    if blame and (file is not None or type == "similar"):
        raise WrongUsage("--blame is for a question: ask `knowledge get ID --blame` of a similar result")
    if query is None and file is None:
        raise WrongUsage("give a QUERY, or --file")
    filters = filter_options.to_filters()
    if mode != "words":
        session.preload_models(query or "")
    with session.open_knowledge_base() as base:
        if file is not None or type == "similar":
            response = search_similar(base, query, file, filters, limit=limit, explain=explain, mode=mode)
        else:
            kind = type or "semantic"
            response = base.search(
                query or "",
                type=kind,
                filters=filters,
                limit=limit,
                explain=explain,
                blame=blame,
                mode=mode,
            )
        show_results(session.screen, response, lines=lines)  # the log need not be written for that


def search_similar(
    base: KnowledgeBase,
    text: str | None,
    file: str | None,
    filters: Filters,
    *,
    limit: int | None,
    explain: bool,
    mode: SearchMode = "hybrid",
) -> SearchResponse:
    """What is similar to a text, to an indexed file, or to the content of another file."""
    if file is None:
        return base.similar(text=text, filters=filters, limit=limit, explain=explain, mode=mode)
    missing: NotFound | None = None
    for path, source in iter_index_locations(file, base.settings):
        only_source = filters.sources[0] if len(filters.sources) == 1 else source
        try:
            return base.similar(
                text=text,
                path=path,
                source=only_source,
                filters=filters,
                limit=limit,
                explain=explain,
                mode=mode,
            )
        except NotFound as error:
            missing = error
    if missing and not Path(file).is_file():
        raise missing
    return base.similar(
        text=text or read_beginning(file, base.settings),
        filters=filters,
        limit=limit,
        explain=explain,
        mode=mode,
    )
