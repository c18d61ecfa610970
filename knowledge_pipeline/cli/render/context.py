"""What was searched for the context of a task, as notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.cli.render.terminal_text import format_count, one_line, truncate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.contract.responses.context import ContextResponse, ContextSection, SearchRun


def show_searches(screen: Screen, response: ContextResponse) -> None:
    """Note what each search found, how much of the budget is used, and what was left out."""
    for run in response.searches:
        screen.print_note(f"{run.name}: {_format_run(run)}")
    for section in response.sections or ():
        screen.print_note(f"section {section.name}: {_format_section(section)}")
    screen.print_note(
        f"{response.tokens:,} of {response.max_tokens:,} tokens ({response.tokenizer}): "
        f"{format_count(len(response.excerpts), 'excerpt')}, "
        f"{format_count(len(response.omitted), 'chunk')} left out"
    )
    if "task" in response.degraded:
        screen.print_note("note: the task is long, so only its beginning was searched for")
    if response.dropped_turns:
        count = format_count(response.dropped_turns, "oldest message")
        screen.print_note(f"note: the budget has no room for the {count} of the history")
    if cut := [name for name in ("snippet", "suffix") if name in response.degraded]:
        screen.print_note(
            f"note: of the {' and the '.join(cut)}, only what is nearest to the cursor is shown"
        )


def _format_section(section: ContextSection) -> str:
    if section.problem:
        return f"could not be searched: {one_line(section.problem)}"
    return (
        f"{section.found} found by {section.type}, {section.shown} shown, "
        f"{section.tokens:,} tokens (share {section.share:g}){_format_skipped(section.degraded)}"
    )


def _format_run(run: SearchRun) -> str:
    if run.problem:
        return f"could not be searched: {one_line(run.problem)}"
    types = f" in {', '.join(run.source_types)}" if run.source_types else ""
    return f"{run.found} found{types}, {run.shown} shown{_format_skipped(run.degraded)}"


def _format_skipped(degraded: Mapping[str, Any]) -> str:
    steps = "; ".join(
        f"without {step}: {truncate(one_line(str(why)), 200)}" for step, why in degraded.items()
    )
    return f" ({steps})" if steps else ""
