"""`debug`: how a question is answered, step by step."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.filter_options import FilterOptions
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.contract.types import SearchMode, SearchType


@example("""
    knowledge debug --query "how are sessions signed" --explain
""")
def debug(
    session: Session,
    query: Annotated[str, Option(metavar="QUERY", help="The question to look into.")],
    type: Annotated[SearchType, Option("--type", "-t", help="What to look for.")] = "semantic",
    limit: Annotated[int, Option("--limit", "-n", metavar="N", help="How many candidates.", min=1)] = 20,
    mode: Annotated[
        SearchMode, Option("--mode", help="Search by words and meaning, by words alone, or by meaning alone.")
    ] = "hybrid",
    explain: Annotated[
        bool, Option("--explain", help="Accepted for scripts; this command always explains.")
    ] = True,
    *,
    filter_options: FilterOptions,
) -> None:
    """Show how a question is answered, step by step.

    Shows how the question was understood, the time of each step, and each candidate's ranks and scores.
    """
    from knowledge_pipeline.cli.render.search_results import show_search_steps

    del explain
    filters = filter_options.to_filters()
    with session.open_knowledge_base() as base:
        if type == "similar":
            response = base.similar(text=query, filters=filters, limit=limit, explain=True, mode=mode)
        else:
            response = base.search(query, type=type, filters=filters, limit=limit, explain=True, mode=mode)
    show_search_steps(session.screen, response)
