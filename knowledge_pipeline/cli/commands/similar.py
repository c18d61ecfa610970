"""`similar`: find what is like a text or a file."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument

from knowledge_pipeline.cli.commands.search import Explain, File, Limit, Lines, Mode, search_similar
from knowledge_pipeline.cli.filter_options import FilterOptions
from knowledge_pipeline.cli.session import Session, WrongUsage, example


@example("""
    knowledge similar --file src/auth.py
    knowledge similar "for attempt in range(tries): ..."
    git show HEAD:src/auth.py | knowledge similar -
""")
def similar(
    session: Session,
    text: Annotated[
        str | None, Argument(metavar="TEXT", help="Code or prose; `-` reads it from stdin.")
    ] = None,
    file: File = None,
    limit: Limit = None,
    lines: Lines = 12,
    explain: Explain = False,
    mode: Mode = "hybrid",
    *,
    filter_options: FilterOptions,
) -> None:
    """Find what is similar to a text or to a file.

    Chunks of the file itself are left out. Results are of the file's type, unless
    --source-type says otherwise.
    """
    from knowledge_pipeline.cli.render.search_results import show_results

    if (text is None) == (file is None):
        raise WrongUsage("give either TEXT or --file")
    filters = filter_options.to_filters()
    example_text = sys.stdin.read(session.settings.limits.example_chars) if text == "-" else text
    if mode != "words":
        session.preload_models()
    with session.open_knowledge_base() as base:
        response = search_similar(base, example_text, file, filters, limit=limit, explain=explain, mode=mode)
    show_results(session.screen, response, lines=lines)
