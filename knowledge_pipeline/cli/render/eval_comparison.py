"""How two evaluations, and the steps of a search, are shown: tables for people, values for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.eval_scores import show_degraded_steps, summaries_by_type
from knowledge_pipeline.cli.render.terminal_text import format_count, one_line

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.evaluation.compare import ChangedQuestion, Comparison, MeasureDifference
    from knowledge_pipeline.evaluation.judge import QuestionResponse
    from knowledge_pipeline.evaluation.scores import Estimate, Summary

Responses = Sequence["QuestionResponse"]

_MAX_QUESTIONS_SHOWN = 10  # won, and lost, questions
_STEP_MEASURES = ("nDCG@10", "R@10", "RR@10")
_NUMERIC_COLUMNS = ("against", "now", "change", "better", "worse", "equal")


def show_comparison(
    screen: Screen, against: Responses, current: Responses, run_metadata: Mapping[str, Any], *, combined: bool
) -> None:
    """What every measure became, and the questions that were won and lost.

    Args:
        screen: where.
        against: what is compared with.
        now: responses to the same questions.
        told: what is asked and of what, with a key `against`; for programs.
        together: whether all search types are shown as one as well.
    """
    from knowledge_pipeline.evaluation.compare import compare, list_changed_questions
    from knowledge_pipeline.evaluation.scores import summarize

    before = summaries_by_type(summarize(against), combined=combined)
    after = summaries_by_type(summarize(current), combined=combined)
    compared = [each for each in compare(against, current) if each.type in after]
    moved = list_changed_questions(against, current)
    if screen.as_json:
        screen.print_json(_comparison_json(run_metadata, before, after, compared, moved))
        return
    rows = [row for each in compared for row in _iter_comparison_rows(each)]
    screen.print_table(rows, right_aligned=_NUMERIC_COLUMNS)
    for each in compared:
        screen.print_text(_format_verdict(each, before[each.type], after[each.type]))
        show_degraded_steps(screen, before[each.type], label=", what is compared with")
        show_degraded_steps(screen, after[each.type])
    _show_changed_questions(screen, "lost", [each for each in moved if each.change < 0])
    _show_changed_questions(screen, "won", [each for each in reversed(moved) if each.change > 0])


def show_step_scores(
    screen: Screen, responses: Mapping[str, Responses], run_metadata: Mapping[str, Any], *, combined: bool
) -> None:
    """One row per search type and step, each compared with the fused one; arguments as above."""
    from knowledge_pipeline.evaluation.compare import compare
    from knowledge_pipeline.evaluation.scores import summarize
    from knowledge_pipeline.stages.ablation import FUSED_STEP

    found = {
        step: summaries_by_type(summarize(of_step), combined=combined) for step, of_step in responses.items()
    }
    changes = {
        step: {each.type: each for each in compare(responses[FUSED_STEP], of_step)}
        for step, of_step in responses.items()
    }
    if screen.as_json:
        screen.print_json(
            {**run_metadata, "steps": {step: _step_json(found[step], changes[step]) for step in found}}
        )
        return
    types = list(found[FUSED_STEP])
    rows = [_step_row(type_, step, found[step], changes[step]) for type_ in types for step in found]
    screen.print_table(rows, right_aligned=[*_STEP_MEASURES, "to fused", "p50 ms", "p95 ms"])
    *_, last = found.values()
    for summary in last.values():
        screen.print_text(
            f"{summary.type}: {format_count(summary.questions, 'question')}; {_format_step_timings(summary)}"
        )
        show_degraded_steps(screen, summary)


def _iter_comparison_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for measure, found in comparison.by_place.items():
        yield {
            "type": comparison.type,
            "measure": measure,
            "against": f"{found.before:.3f}",
            "now": f"{found.after:.3f}",
            "change": _format_change(found.change),
            "better": found.better,
            "worse": found.worse,
            "equal": found.equal,
        }


def _format_change(change: Estimate) -> str:
    return f"{change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})"


def _format_verdict(comparison: Comparison, before: Summary, after: Summary) -> str:
    from knowledge_pipeline.evaluation.scores import QUALITY_MEASURE

    of = format_count(comparison.questions, "question")
    spoken = {
        "better": f"{QUALITY_MEASURE} is better",
        "worse": f"{QUALITY_MEASURE} is worse",
        "undecided": f"{QUALITY_MEASURE} cannot be told apart",
    }[comparison.by_place[QUALITY_MEASURE].verdict]
    p50_ms = f"p50 {after.p50_ms:.0f} ms, was {before.p50_ms:.0f}"
    p95_ms = f"p95 {after.p95_ms:.0f} ms, was {before.p95_ms:.0f}"
    return f"{comparison.type}: {of}, {spoken}; {p50_ms}; {p95_ms}"


def _show_changed_questions(screen: Screen, outcome: str, questions: Sequence[ChangedQuestion]) -> None:
    screen.print_text()
    screen.print_text(f"{format_count(len(questions), 'question')} {outcome}")
    for each in questions[:_MAX_QUESTIONS_SHOWN]:
        screen.print_text(f"{each.question.type}: {one_line(each.question.text)}")
        screen.print_text(
            f"   nDCG@10 {each.before:.2f} to {each.after:.2f}, "
            f"first answer {_format_rank(each.rank_before)}, now {_format_rank(each.rank_after)}"
        )
    if len(questions) > _MAX_QUESTIONS_SHOWN:
        screen.print_text(
            f"   and {format_count(len(questions) - _MAX_QUESTIONS_SHOWN, 'question')} more: --json has all"
        )


def _format_rank(rank: int | None) -> str:
    return f"at {rank}" if rank else "not found"


def _step_row(
    type_: str, step: str, found: Mapping[str, Summary], changes: Mapping[str, Comparison]
) -> dict[str, Any]:
    from knowledge_pipeline.evaluation.scores import QUALITY_MEASURE
    from knowledge_pipeline.stages.ablation import FUSED_STEP

    summary = found[type_]
    change = changes[type_].by_place[QUALITY_MEASURE].change
    return {
        "type": type_,
        "step": step,
        **{measure: f"{summary.by_place[measure].mean:.3f}" for measure in _STEP_MEASURES},
        "to fused": "" if step == FUSED_STEP else _format_change(change),
        "p50 ms": f"{summary.p50_ms:.0f}",
        "p95 ms": f"{summary.p95_ms:.0f}",
    }


def _format_step_timings(summary: Summary) -> str:
    timings = sorted(summary.timings_ms.items(), key=lambda step: -step[1])
    return ", ".join(f"{step} {ms:.1f} ms" for step, ms in timings)


def _step_json(found: Mapping[str, Summary], changes: Mapping[str, Comparison]) -> dict[str, Any]:
    return {
        "types": {type_: asdict(summary) for type_, summary in found.items()},
        "to_fused": {type_: _measures_json(changes[type_]) for type_ in found},
    }


def _measures_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "by_place": {measure: _difference_json(each) for measure, each in comparison.by_place.items()},
        "by_file": {measure: _difference_json(each) for measure, each in comparison.by_file.items()},
    }


def _difference_json(difference: MeasureDifference) -> dict[str, Any]:
    return {**asdict(difference), "verdict": difference.verdict}


def _comparison_json(
    run_metadata: Mapping[str, Any],
    before: Mapping[str, Summary],
    after: Mapping[str, Summary],
    compared: Sequence[Comparison],
    changed_questions: Sequence[ChangedQuestion],
) -> dict[str, Any]:
    return {
        **run_metadata,
        "types": {type_: asdict(summary) for type_, summary in after.items()},
        "against": {
            **run_metadata["against"],
            "types": {type_: asdict(summary) for type_, summary in before.items()},
        },
        "changes": {each.type: _measures_json(each) for each in compared},
        "changed_questions": [_changed_question_json(each) for each in changed_questions],
    }


def _changed_question_json(changed: ChangedQuestion) -> dict[str, Any]:
    return {
        "question": changed.question.text,
        "type": changed.question.type,
        "file": changed.question.file,
        "before": changed.before,
        "after": changed.after,
        "rank_before": changed.rank_before,
        "rank_after": changed.rank_after,
    }
