"""`context`: what an agent should read before it does a task, ready to be piped into one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knowledge_pipeline.cli.filter_options import FilterOptions, with_filter_options
from knowledge_pipeline.cli.options import TaskChoice
from knowledge_pipeline.cli.render.terminal_text import format_count, one_line, truncate
from knowledge_pipeline.cli.search import iter_index_locations
from knowledge_pipeline.cli.session import Session, WrongUsage, example

if TYPE_CHECKING:
    from knowledge_pipeline.contract.filters import Filters
    from knowledge_pipeline.contract.requests import Task
    from knowledge_pipeline.contract.responses import ContextResponse, SearchRun
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase

_MAX_TASK_CHARS = 200_000  # of a task from stdin
_MAX_SNIPPET_CHARS = 20_000


@with_filter_options
@example("""
    knowledge context "add retries to the payment client"
    knowledge context "why do sessions expire early" --task issue_resolution --max-tokens 8000
    git diff | knowledge context "review this change" --task code_review --file src/auth.py --snippet -
    knowledge context "port the importer" --template my.j2 --json
""")
def context(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="TASK", help="What is to be done; `-` reads it from stdin.")],
    task: Annotated[
        TaskChoice, typer.Option("--task", "-t", help="The kind of task: its searches and its prompt.")
    ] = "code_generation",
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            metavar="N",
            help="Budget of the whole prompt.  [default: context.max_tokens]",
            min=1,
            max=1_000_000,
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="NAME_OR_FILE", help="Another prompt: a name, or a Jinja2 file."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="PATH", help="The file that the task is about, indexed or not."),
    ] = None,
    snippet: Annotated[
        str | None,
        typer.Option(
            "--snippet", metavar="TEXT", help="Code that the task is about; `-` reads it from stdin."
        ),
    ] = None,
    *,
    filter_options: FilterOptions,
) -> None:
    """Gather what an agent should read before it does a task.

    Runs the searches that suit the task, and prints a prompt with numbered passages that
    keeps to the budget. What was searched, and what did not fit, is told on stderr.
    """
    from knowledge_pipeline.contract.requests import Task
    from knowledge_pipeline.query.access import Access
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase

    if text == "-" and snippet == "-":
        raise WrongUsage("only one of TASK and --snippet can be read from stdin")
    asked = Task(
        sys.stdin.read(_MAX_TASK_CHARS + 1) if text == "-" else text,
        kind=task,
        file=file,
        snippet=sys.stdin.read(_MAX_SNIPPET_CHARS) if snippet == "-" else snippet,
        filters=filter_options.to_filters(),
    )
    with KnowledgeBase.open(session.settings, access=Access.operator("cli")) as base:
        made = _build_context(base, asked, max_tokens, _resolve_template(template))
    if session.as_json:
        session.screen.print_json(made.as_json())
        return
    _show_searches(session, made)
    session.screen.print_text(made.text)


def _build_context(
    base: KnowledgeBase, task: Task, max_tokens: int | None, template: str | Path | None
) -> ContextResponse:
    """For the indexed file; for what a file says that is only on this machine."""
    from dataclasses import replace

    if task.file is None:
        return base.context(task, max_tokens=max_tokens, template=template)
    known = list(iter_index_locations(task.file, base.settings))
    given = _single_source(task.filters)
    for path, source in known:
        asked = replace(task, file=path, source=given or source)
        if _is_indexed(base, asked):
            return base.context(asked, max_tokens=max_tokens, template=template)
    asked = replace(task, file=known[0][0], source=given)
    if task.snippet is None and Path(task.file).is_file():
        content = Path(task.file).read_text(encoding="utf-8", errors="replace")
        asked = replace(asked, snippet=content[:_MAX_SNIPPET_CHARS])
    return base.context(asked, max_tokens=max_tokens, template=template)


def _single_source(filters: Filters) -> str | None:
    return filters.sources[0] if len(filters.sources) == 1 else None


def _is_indexed(base: KnowledgeBase, task: Task) -> bool:
    from knowledge_pipeline.errors import NotFound

    try:
        base.similar(path=task.file, source=task.source, limit=1)
    except NotFound:
        return False
    return True


def _resolve_template(name_or_path: str | None) -> str | Path | None:
    if name_or_path is None:
        return None
    return Path(name_or_path) if Path(name_or_path).is_file() or "/" in name_or_path else name_or_path


def _show_searches(session: Session, task_context: ContextResponse) -> None:
    note = session.screen.print_note
    for run in task_context.searches:
        note(f"{run.name}: {_format_search_outcome(run)}")
    note(
        f"{task_context.tokens:,} of {task_context.max_tokens:,} tokens ({task_context.tokenizer}): "
        f"{format_count(len(task_context.excerpts), 'passage')}, {format_count(len(task_context.omitted), 'chunk')} left out"
    )
    if "task" in task_context.degraded:
        note("note: searched for the beginning of the task alone, because it is long")


def _format_search_outcome(run: SearchRun) -> str:
    if run.problem:
        return f"could not be searched: {one_line(run.problem)}"
    types = f" in {', '.join(run.source_types)}" if run.source_types else ""
    reasons = ((step, truncate(one_line(str(why)), 200)) for step, why in run.degraded.items())
    without = "; ".join(f"without {step}: {why}" for step, why in reasons)
    return f"{run.found} found{types}, {run.shown} shown{f' ({without})' if without else ''}"
