"""Scores of evaluations, comparisons, and search steps: tables for people, values for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.terminal_text import format_count, one_line

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.evaluation.compare import ChangedQuestion, Comparison
    from knowledge_pipeline.evaluation.judge import QuestionResponse
    from knowledge_pipeline.evaluation.scores import Estimate, Summary

Responses = Sequence["QuestionResponse"]
Json = dict[str, Any]  # plain values for programs

_MAX_FOUND_SHOWN = 4  # results of a question without an answer
_MAX_QUESTIONS_SHOWN = 10  # won, and lost, questions
_STEP_MEASURES = ("nDCG@10", "R@10", "RR@10")


def show_scores(
    screen: Screen, responses: Responses, run_metadata: Json, *, combined: bool, misses: bool
) -> None:
    """Show every measure with its interval, how long a question took, and on demand the `misses`.

    `run_metadata` says what was asked, and which index, for programs. With `combined`, all
    search types are shown together as well.
    """
    from knowledge_pipeline.evaluation.judge import is_answered

    summaries = _summarize(responses, combined=combined)
    missed = [_missed_question_json(each) for each in responses if not is_answered(each)] if misses else None
    types = {"types": {type_: asdict(summary) for type_, summary in summaries.items()}}
    screen.print_json({**run_metadata, **types, **({} if missed is None else {"misses": missed})})
    rows = [
        {
            "type": summary.type,
            "measure": measure,
            "by place": _format_estimate(by_place),
            "by file": _format_estimate(summary.by_file[measure]),
        }
        for summary in summaries.values()
        for measure, by_place in summary.by_place.items()
    ]
    screen.print_table(rows, right_aligned=("by place", "by file"))
    for summary in summaries.values():
        screen.print_text(
            f"{summary.type}: {format_count(summary.questions, 'question')}, "
            f"p50 {summary.p50_ms:.0f} ms, p95 {summary.p95_ms:.0f} ms"
        )
        _show_degraded_steps(screen, summary)
    if missed is not None:
        screen.print_text(f"\n{format_count(len(missed), 'question')} without an answer in ten results")
    for question in missed or ():
        screen.print_text(f"{question['type']}: {one_line(question['question'])}")
        screen.print_text(f"   wanted: {one_line('; '.join(question['answers']))}")
        found = one_line("; ".join(question["found"][:_MAX_FOUND_SHOWN]))
        screen.print_text(f"   found:  {found or 'nothing'}")


def show_comparison(
    screen: Screen, before: Responses, after: Responses, run_metadata: Json, *, combined: bool
) -> None:
    """Show how every measure changed, and the questions that were won and lost; arguments as above.

    `run_metadata` has a key `against`, with the same of what answered `before`.
    """
    from knowledge_pipeline.evaluation.compare import compare, list_changed_questions

    summaries_before = _summarize(before, combined=combined)
    summaries_after = _summarize(after, combined=combined)
    comparisons = [each for each in compare(before, after) if each.type in summaries_after]
    changed = list_changed_questions(before, after)
    types_before = {type_: asdict(summary) for type_, summary in summaries_before.items()}
    screen.print_json(
        {
            **run_metadata,
            "types": {type_: asdict(summary) for type_, summary in summaries_after.items()},
            "against": {**run_metadata["against"], "types": types_before},
            "changes": {each.type: _measures_json(each) for each in comparisons},
            "changed_questions": [_changed_question_json(each) for each in changed],
        }
    )
    rows = [
        {
            "type": comparison.type,
            "measure": measure,
            "against": f"{difference.before:.3f}",
            "now": f"{difference.after:.3f}",
            "change": _format_change(difference.change),
            "better": difference.better,
            "worse": difference.worse,
            "equal": difference.equal,
        }
        for comparison in comparisons
        for measure, difference in comparison.by_place.items()
    ]
    screen.print_table(rows, right_aligned=("against", "now", "change", "better", "worse", "equal"))
    for each in comparisons:
        screen.print_text(_format_verdict(each, summaries_before[each.type], summaries_after[each.type]))
        _show_degraded_steps(screen, summaries_before[each.type], label=" (compared with)")
        _show_degraded_steps(screen, summaries_after[each.type])
    _show_changed_questions(screen, "lost", [each for each in changed if each.change < 0])
    _show_changed_questions(screen, "won", [each for each in reversed(changed) if each.change > 0])


def show_step_scores(
    screen: Screen, responses: Mapping[str, Responses], run_metadata: Json, *, combined: bool
) -> None:
    """Show one row per search type and step, each compared with the fused step; arguments as above."""
    from knowledge_pipeline.evaluation.compare import compare
    from knowledge_pipeline.evaluation.scores import QUALITY_MEASURE
    from knowledge_pipeline.stages.tuning.ablation import FUSED_STEP

    summaries = {step: _summarize(of_step, combined=combined) for step, of_step in responses.items()}
    changes = {
        step: {each.type: each for each in compare(responses[FUSED_STEP], of_step)}
        for step, of_step in responses.items()
    }
    steps = {
        step: {
            "types": {type_: asdict(summary) for type_, summary in of_step.items()},
            "to_fused": {type_: _measures_json(changes[step][type_]) for type_ in of_step},
        }
        for step, of_step in summaries.items()
    }
    screen.print_json({**run_metadata, "steps": steps})
    rows: list[Json] = []
    for type_ in summaries[FUSED_STEP]:
        for step, of_step in summaries.items():
            change = changes[step][type_].by_place[QUALITY_MEASURE].change
            rows.append(
                {
                    "type": type_,
                    "step": step,
                    **{name: f"{of_step[type_].by_place[name].mean:.3f}" for name in _STEP_MEASURES},
                    "to fused": "" if step == FUSED_STEP else _format_change(change),
                    "p50 ms": f"{of_step[type_].p50_ms:.0f}",
                    "p95 ms": f"{of_step[type_].p95_ms:.0f}",
                }
            )
    screen.print_table(rows, right_aligned=[*_STEP_MEASURES, "to fused", "p50 ms", "p95 ms"])
    *_, last = summaries.values()
    for summary in last.values():
        timings = sorted(summary.timings_ms.items(), key=lambda timing: -timing[1])
        spent = ", ".join(f"{step} {ms:.1f} ms" for step, ms in timings)
        screen.print_text(f"{summary.type}: {format_count(summary.questions, 'question')}; {spent}")
        _show_degraded_steps(screen, summary)


def _summarize(responses: Responses, *, combined: bool) -> dict[str, Summary]:
    """By search type; all together only if wanted, and if there are several types."""
    from knowledge_pipeline.evaluation.scores import summarize

    summaries = summarize(responses)
    return {each.type: each for each in (summaries if combined and len(summaries) != 2 else summaries[1:])}


def _show_degraded_steps(screen: Screen, summary: Summary, *, label: str = "") -> None:
    for step, count in summary.degraded.items():
        questions = format_count(summary.questions, "question")
        screen.print_text(f"{summary.type}{label}: {count:,} of {questions} answered without {step}")


def _format_estimate(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _format_change(change: Estimate) -> str:
    return f"{change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})"


def _format_verdict(comparison: Comparison, before: Summary, after: Summary) -> str:
    from knowledge_pipeline.evaluation.scores import QUALITY_MEASURE

    verdict = comparison.by_place[QUALITY_MEASURE].verdict
    change = "shows no clear difference" if verdict == "undecided" else f"is {verdict}"
    return (
        f"{comparison.type}: {format_count(comparison.questions, 'question')}, {QUALITY_MEASURE} {change}; "
        f"p50 {after.p50_ms:.0f} ms, was {before.p50_ms:.0f}; "
        f"p95 {after.p95_ms:.0f} ms, was {before.p95_ms:.0f}"
    )


def _show_changed_questions(screen: Screen, outcome: str, questions: Sequence[ChangedQuestion]) -> None:
    screen.print_text(f"\n{format_count(len(questions), 'question')} {outcome}")
    for each in questions[:_MAX_QUESTIONS_SHOWN]:
        rank_before, rank_after = (
            f"at {rank}" if rank else "not found" for rank in (each.rank_before, each.rank_after)
        )
        screen.print_text(f"{each.question.type}: {one_line(each.question.text)}")
        screen.print_text(
            f"   nDCG@10 {each.before:.2f} to {each.after:.2f}, first answer {rank_before}, now {rank_after}"
        )
    rest = len(questions) - _MAX_QUESTIONS_SHOWN
    if rest > 0:
        screen.print_text(f"   and {format_count(rest, 'question')} more: --json lists all")


def _measures_json(comparison: Comparison) -> Json:
    return {
        judged: {
            measure: {**asdict(difference), "verdict": difference.verdict}
            for measure, difference in differences.items()
        }
        for judged, differences in (("by_place", comparison.by_place), ("by_file", comparison.by_file))
    }


def _changed_question_json(changed: ChangedQuestion) -> Json:
    question = changed.question
    outcome = {name: getattr(changed, name) for name in ("before", "after", "rank_before", "rank_after")}
    return {"question": question.text, "type": question.type, "file": question.file, **outcome}


def _missed_question_json(response: QuestionResponse) -> Json:
    def format_places(places: Iterable[tuple[str, str | None]]) -> list[str]:
        return [f"{path}: {symbol}" if symbol else path for path, symbol in places]

    question = response.question
    return {
        "question": question.text,
        "type": question.type,
        "file": question.file,
        "answers": format_places((place.path, place.symbol) for place in question.answers),
        "found": format_places((chunk.path, ", ".join(sorted(chunk.symbols))) for chunk in response.chunks),
    }
