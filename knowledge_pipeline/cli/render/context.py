"""What was searched for the context of a task, as notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.cli.render.terminal_text import format_count, one_line, truncate

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.contract.responses import ContextResponse, SearchRun


def show_searches(screen: Screen, response: ContextResponse) -> None:
    """Note what each search found, how much of the budget is used, and what was left out."""
    for run in response.searches:
        screen.print_note(f"{run.name}: {_format_run(run)}")
    screen.print_note(
        f"{response.tokens:,} of {response.max_tokens:,} tokens ({response.tokenizer}): "
        f"{format_count(len(response.excerpts), 'excerpt')}, "
        f"{format_count(len(response.omitted), 'chunk')} left out"
    )
    if "task" in response.degraded:
        screen.print_note("note: the task is long, so only its beginning was searched for")


def _format_run(run: SearchRun) -> str:
    if run.problem:
        return f"could not be searched: {one_line(run.problem)}"
    types = f" in {', '.join(run.source_types)}" if run.source_types else ""
    steps = "; ".join(
        f"without {step}: {truncate(one_line(str(why)), 200)}" for step, why in run.degraded.items()
    )
    return f"{run.found} found{types}, {run.shown} shown{f' ({steps})' if steps else ''}"
