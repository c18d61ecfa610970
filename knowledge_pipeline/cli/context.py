"""`context`: what an agent should read before a task, as a prompt."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.filter_options import FilterOptions
from knowledge_pipeline.cli.screen import format_count, one_line
from knowledge_pipeline.cli.session import (
    MaxAge,
    Session,
    WrongUsage,
    example,
    iter_index_locations,
    read_beginning,
)
from knowledge_pipeline.contract.filters import TaskKind
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.text import truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from knowledge_pipeline.cli.screen import Screen
    from knowledge_pipeline.contract.requests import Task
    from knowledge_pipeline.contract.responses import ContextResponse
    from knowledge_pipeline.knowledge_base import KnowledgeBase


@example("""
    knowledge context "add retries to the payment client"
    knowledge context "why do sessions expire early" --task issue_resolution --max-tokens 8000
    git diff | knowledge context "review this change" --task code_review --file src/auth.py --snippet -
    knowledge context "port the importer" --template my.j2 --json
    knowledge context "how are sessions signed?" --task question
    knowledge context "and how long are they valid?" --task chat --history turns.json
""")
def context(
    session: Session,
    text: Annotated[str, Argument(metavar="TASK", help="What to do; `-` reads it from stdin.")],
    task: Annotated[
        TaskKind, Option("--task", "-t", help="The kind of task: what counts, and its prompt.")
    ] = "code_generation",
    max_tokens: Annotated[
        int | None,
        Option(metavar="N", help="Token budget of the whole prompt.  [default: context.max_tokens]", min=1),
    ] = None,
    template: Annotated[
        str | None, Option(metavar="NAME_OR_FILE", help="Use another prompt: a name, or a Jinja2 file.")
    ] = None,
    file: Annotated[
        list[str] | None,
        Option(metavar="PATH", help="A file that the task is about, indexed or not; repeat for more."),
    ] = None,
    snippet: Annotated[
        str | None,
        Option(
            metavar="TEXT", help="Code that the task is about, or before the cursor; `-` reads it from stdin."
        ),
    ] = None,
    suffix: Annotated[
        str | None,
        Option(metavar="TEXT", help="The code after the cursor, for complete_code; `-` reads it from stdin."),
    ] = None,
    history: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="The conversation so far, for chat: a JSON list of objects with role (user, assistant) and "
            "content; `-` reads it from stdin.",
        ),
    ] = None,
    max_age: MaxAge = None,
    *,
    filter_options: FilterOptions,
) -> None:
    """Gather what an agent should read before it does a task.

    Searches for the task, and prints a prompt with numbered results that fits the budget;
    for a chat, its messages as JSON. Lists on stderr what was searched and what did not fit.
    """
    from knowledge_pipeline.contract.base import to_json
    from knowledge_pipeline.contract.requests import Task, parse_history

    if [text, snippet, suffix, history].count("-") > 1:
        raise WrongUsage("only one of TASK, --snippet, --suffix and --history can be read from stdin")
    piped = sys.stdin.read() if "-" in (text, snippet, suffix, history) else ""
    example_chars = session.settings.limits.example_chars
    request = Task(
        piped if text == "-" else text,
        kind=task,
        files=tuple(file or ()),
        snippet=piped[:example_chars] if snippet == "-" else snippet,
        suffix=piped[:example_chars] if suffix == "-" else suffix,
        history=parse_history(piped if history == "-" else _read_file(history)) if history else (),
        filters=filter_options.to_filters(),
    )
    is_path = template is not None and (Path(template).is_file() or "/" in template)
    session.preload_models()
    with session.open_knowledge_base() as base:
        chosen = Path(template or "") if is_path else template
        build = partial(base.context, max_tokens=max_tokens, template=chosen, max_age=max_age)
        response = _build_context(build, base, request)
    session.screen.print_json(response.as_json())
    _show_searches(session.screen, response)
    if response.messages is None:
        session.screen.print_text(response.text)
    else:
        messages = to_json(response.messages)
        session.screen.print_text(json.dumps(messages, indent=2, ensure_ascii=False))


def _read_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"the history {path!r} cannot be read ({type(error).__name__})") from error


def _build_context(
    build: Callable[[Task], ContextResponse], base: KnowledgeBase, task: Task
) -> ContextResponse:
    """For an indexed file, or with the content of a file that is on this machine only."""
    if not task.paths:
        return build(task)
    only_source = task.filters.sources[0] if len(task.filters.sources) == 1 else None
    located = [_locate(base, path, only_source) for path in task.paths]
    sources = {source for _, source, _ in located}
    request = replace(
        task,
        file=located[0][0] if len(located) == 1 else None,
        files=tuple(path for path, _, _ in located) if len(located) > 1 else (),
        source=next(iter(sources)) if len(sources) == 1 else None,
    )
    new = [path for path, (_, _, is_indexed) in zip(task.paths, located, strict=True) if not is_indexed]
    readable = [path for path in new if Path(path).is_file()]
    if task.snippet is None and readable and len(new) == len(located):
        limit = base.settings.limits.example_chars // len(readable)
        beginnings = [read_beginning(path, base.settings)[:limit] for path in readable]
        request = replace(request, snippet="\n".join(beginnings))
    return build(request)


def _locate(base: KnowledgeBase, file: str, only_source: str | None) -> tuple[str, str | None, bool]:
    """The path and the source of a file in the index, and whether it is there."""
    locations = list(iter_index_locations(file, base.settings))
    for path, source in locations:
        try:
            base.similar(path=path, source=only_source or source, limit=1)
        except NotFound:
            continue
        return path, only_source or source, True
    return locations[0][0], only_source, False


def _show_searches(screen: Screen, response: ContextResponse) -> None:
    for run in response.searches:
        types = f" in {', '.join(run.source_types)}" if run.source_types else ""
        shown = f"{run.found} found{types}, {run.shown} shown{_format_skipped(run.degraded)}"
        problem = run.problem and f"could not be searched: {one_line(run.problem)}"
        screen.print_note(f"{run.name}: {problem or shown}")
    for section in response.sections or ():
        shown = (
            f"{section.found} found by {section.type}, {section.shown} shown, {section.tokens:,} tokens "
            f"(share {section.share:g}){_format_skipped(section.degraded)}"
        )
        problem = section.problem and f"could not be searched: {one_line(section.problem)}"
        screen.print_note(f"section {section.name}: {problem or shown}")
    screen.print_note(
        f"{response.tokens:,} of {response.max_tokens:,} tokens ({response.tokenizer}): "
        f"{format_count(len(response.excerpts), 'excerpt')}, "
        f"{format_count(len(response.omitted), 'chunk')} left out"
    )
    for note in response.notes:
        screen.print_note(f"note: {one_line(note)}")
    if "task" in response.degraded:
        screen.print_note("note: the task is long, so only its beginning was searched for")
    if response.dropped_turns:
        count = format_count(response.dropped_turns, "oldest message")
        screen.print_note(f"note: the budget has no room for the {count} of the history")
    if cut := [name for name in ("snippet", "suffix") if name in response.degraded]:
        which = " and the ".join(cut)
        screen.print_note(f"note: of the {which}, only what is nearest to the cursor is shown")


def _format_skipped(degraded: Mapping[str, Any]) -> str:
    steps = [f"without {step}: {truncate(one_line(str(why)), 200)}" for step, why in degraded.items()]
    return f" ({'; '.join(steps)})" if steps else ""
