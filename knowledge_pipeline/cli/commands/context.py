"""`context`: what an agent should read before a task, as a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.filter_options import FilterOptions
from knowledge_pipeline.cli.local_files import iter_index_locations, read_beginning
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.contract.types import TaskKind

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task
    from knowledge_pipeline.contract.responses import ContextResponse
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase


@example("""
    knowledge context "add retries to the payment client"
    knowledge context "why do sessions expire early" --task issue_resolution --max-tokens 8000
    git diff | knowledge context "review this change" --task code_review --file src/auth.py --snippet -
    knowledge context "port the importer" --template my.j2 --json
""")
def context(
    session: Session,
    text: Annotated[str, Argument(metavar="TASK", help="What to do; `-` reads it from stdin.")],
    task: Annotated[
        TaskKind, Option("--task", "-t", help="The kind of task: its searches and its prompt.")
    ] = "code_generation",
    max_tokens: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Token budget of the whole prompt.  [default: context.max_tokens]",
            min=1,
        ),
    ] = None,
    template: Annotated[
        str | None, Option(metavar="NAME_OR_FILE", help="Use another prompt: a name, or a Jinja2 file.")
    ] = None,
    file: Annotated[
        str | None, Option(metavar="PATH", help="The file that the task is about, indexed or not.")
    ] = None,
    snippet: Annotated[
        str | None, Option(metavar="TEXT", help="Code that the task is about; `-` reads it from stdin.")
    ] = None,
    *,
    filter_options: FilterOptions,
) -> None:
    """Gather what an agent should read before it does a task.

    Runs the searches that suit the task, and prints a prompt with numbered results that
    fits the budget. Lists on stderr what was searched and what did not fit.
    """
    from knowledge_pipeline.cli.render.context import show_searches
    from knowledge_pipeline.contract.requests import Task

    if text == "-" and snippet == "-":
        raise WrongUsage("only one of TASK and --snippet can be read from stdin")
    request = Task(
        sys.stdin.read() if text == "-" else text,
        kind=task,
        file=file,
        snippet=sys.stdin.read(session.settings.limits.example_chars) if snippet == "-" else snippet,
        filters=filter_options.to_filters(),
    )
    is_path = template is not None and (Path(template).is_file() or "/" in template)
    session.preload_models()
    with session.open_knowledge_base() as base:
        response = _build_context(base, request, max_tokens, Path(template or "") if is_path else template)
    session.screen.print_json(response.as_json())
    show_searches(session.screen, response)
    session.screen.print_text(response.text)


def _build_context(
    base: KnowledgeBase, task: Task, max_tokens: int | None, template: str | Path | None
) -> ContextResponse:
    """For an indexed file, or with the content of a file that is on this machine only."""
    from dataclasses import replace

    from knowledge_pipeline.errors import NotFound

    if task.file is None:
        return base.context(task, max_tokens=max_tokens, template=template)
    locations = list(iter_index_locations(task.file, base.settings))
    only_source = task.filters.sources[0] if len(task.filters.sources) == 1 else None
    for path, source in locations:
        located = replace(task, file=path, source=only_source or source)
        try:
            base.similar(path=located.file, source=located.source, limit=1)
        except NotFound:
            continue
        return base.context(located, max_tokens=max_tokens, template=template)
    request = replace(task, file=locations[0][0], source=only_source)
    if task.snippet is None and Path(task.file).is_file():
        request = replace(request, snippet=read_beginning(task.file, base.settings))
    return base.context(request, max_tokens=max_tokens, template=template)
