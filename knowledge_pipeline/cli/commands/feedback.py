"""`feedback`: what a reader thought of a result."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.session import Session, WrongUsage, example


@example("""
    knowledge search "retry with backoff" --json
    knowledge feedback 1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed 3f2a9c... --useful
""")
def feedback(
    session: Session,
    query_id: Annotated[
        str, Argument(metavar="QUERY_ID", help="The answer's `query_id`; --json and --explain show it.")
    ],
    result_id: Annotated[str, Argument(metavar="RESULT_ID", help="The result's id.")],
    clicked: Annotated[bool, Option("--clicked", help="The result was opened.")] = False,
    useful: Annotated[bool, Option("--useful", help="The result helped.")] = False,
    useless: Annotated[bool, Option("--useless", help="The result did not help.")] = False,
) -> None:
    """Record whether a result was opened, useful or useless.

    Feedback is stored for reports on answer quality, and `knowledge tune` learns from it; by itself
    it does not change any search.
    """
    if clicked + useful + useless != 1:
        raise WrongUsage("give one of --clicked, --useful and --useless")
    judgement = "clicked" if clicked else "useful" if useful else "useless"
    with session.open_knowledge_base(session.settings_without_secrets) as base:
        base.feedback(query_id, result_id, judgement)
    session.screen.print_json({"query_id": query_id, "result_id": result_id, "judgement": judgement})
    session.screen.print_text(f"Noted: {judgement}.")
