"""How an evaluation is shown: tables for people, values for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.terminal_text import format_count, one_line

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.evaluation.judge import QuestionResponse
    from knowledge_pipeline.evaluation.scores import Estimate, Summary

_MAX_FOUND_SHOWN = 4  # of the places that a missed question got


def show_scores(
    screen: Screen,
    responses: Sequence[QuestionResponse],
    run_metadata: Mapping[str, Any],
    *,
    combined: bool,
    misses: bool,
) -> None:
    """What every measure is, with its interval, and how long a question took.

    Args:
        screen: where.
        responses: to all questions.
        told: what was asked and of what; for programs.
        together: whether all search types are shown as one as well.
        misses: whether the questions without an answer are listed.
    """
    from knowledge_pipeline.evaluation.scores import summarize

    found = list(summaries_by_type(summarize(responses), combined=combined).values())
    missed = [_missed_question_json(response) for response in _list_missed(responses)] if misses else None
    if screen.as_json:
        types = {summary.type: asdict(summary) for summary in found}
        screen.print_json({**run_metadata, "types": types, **({} if missed is None else {"misses": missed})})
        return
    screen.print_table(
        [row for summary in found for row in _iter_score_rows(summary)], right_aligned=("by place", "by file")
    )
    for summary in found:
        screen.print_text(
            f"{summary.type}: {format_count(summary.questions, 'question')}, "
            f"p50 {summary.p50_ms:.0f} ms, p95 {summary.p95_ms:.0f} ms"
        )
        show_degraded_steps(screen, summary)
    if missed is not None:
        screen.print_text()
        screen.print_text(f"{format_count(len(missed), 'question')} without an answer in ten results")
    for miss in missed or ():
        screen.print_text(f"{miss['type']}: {one_line(miss['question'])}")
        screen.print_text(f"   wanted: {one_line('; '.join(miss['answers']))}")
        screen.print_text(f"   found:  {one_line('; '.join(miss['found'][:_MAX_FOUND_SHOWN])) or 'nothing'}")


def summaries_by_type(scored: Sequence[Summary], *, combined: bool) -> dict[str, Summary]:
    """By search type; all together only where that is wanted and says more."""
    return {each.type: each for each in (scored if combined and len(scored) != 2 else scored[1:])}


def show_degraded_steps(screen: Screen, summary: Summary, *, label: str = "") -> None:
    """Say which steps were left out of how many answers, and `of` what."""
    for step, count in summary.degraded.items():
        asked = format_count(summary.questions, "question")
        screen.print_text(f"{summary.type}{label}: {count:,} of {asked} had to be answered without {step}")


def _iter_score_rows(summary: Summary) -> Iterator[dict[str, Any]]:
    for measure, by_place in summary.by_place.items():
        yield {
            "type": summary.type,
            "measure": measure,
            "by place": _format_estimate(by_place),
            "by file": _format_estimate(summary.by_file[measure]),
        }


def _format_estimate(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _list_missed(responses: Sequence[QuestionResponse]) -> list[QuestionResponse]:
    from knowledge_pipeline.evaluation.judge import is_answered

    return [response for response in responses if not is_answered(response)]


def _missed_question_json(response: QuestionResponse) -> dict[str, Any]:
    question = response.question
    return {
        "question": question.text,
        "type": question.type,
        "file": question.file,
        "answers": [_format_place(place.path, place.symbol) for place in question.answers],
        "found": [_format_place(found.path, ", ".join(sorted(found.symbols))) for found in response.chunks],
    }


def _format_place(path: str, symbol: str | None) -> str:
    return f"{path}: {symbol}" if symbol else path
