"""How two evaluations, and the steps of a search, are shown: tables for people, values for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.eval_scores import by_type, tell_degraded
from knowledge_pipeline.cli.render.terminal_text import counted, one_line

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.evaluation.compare import Changed, Comparison, Difference
    from knowledge_pipeline.evaluation.judge import Response
    from knowledge_pipeline.evaluation.scores import Estimate, Summary

Responses = Sequence["Response"]

_SHOWN = 10  # won, and lost, questions
_IN_STEPS = ("nDCG@10", "R@10", "RR@10")
_NUMBERS = ("against", "now", "change", "better", "worse", "equal")


def show_comparison(
    screen: Screen, against: Responses, now: Responses, told: Mapping[str, Any], *, together: bool
) -> None:
    """What every measure became, and the questions that were won and lost.

    Args:
        screen: where.
        against: what is compared with.
        now: responses to the same questions.
        told: what is asked and of what, with a key `against`; for programs.
        together: whether all search types are shown as one as well.
    """
    from knowledge_pipeline.evaluation.compare import changed, compare
    from knowledge_pipeline.evaluation.scores import summaries

    before = by_type(summaries(against), together=together)
    after = by_type(summaries(now), together=together)
    compared = [each for each in compare(against, now) if each.type in after]
    moved = changed(against, now)
    if screen.as_json:
        screen.answer(_comparison_json(told, before, after, compared, moved))
        return
    rows = [row for each in compared for row in _rows(each)]
    screen.table(rows, right=_NUMBERS)
    for each in compared:
        screen.say(_verdict(each, before[each.type], after[each.type]))
        tell_degraded(screen, before[each.type], of=", what is compared with")
        tell_degraded(screen, after[each.type])
    _say_moved(screen, "lost", [each for each in moved if each.change < 0])
    _say_moved(screen, "won", [each for each in reversed(moved) if each.change > 0])


def show_steps(
    screen: Screen, responses: Mapping[str, Responses], told: Mapping[str, Any], *, together: bool
) -> None:
    """One row per search type and step, each compared with the fused one; arguments as above."""
    from knowledge_pipeline.evaluation.compare import compare
    from knowledge_pipeline.evaluation.scores import summaries
    from knowledge_pipeline.stages.ablation import FUSED

    found = {step: by_type(summaries(of_step), together=together) for step, of_step in responses.items()}
    changes = {
        step: {each.type: each for each in compare(responses[FUSED], of_step)}
        for step, of_step in responses.items()
    }
    if screen.as_json:
        screen.answer({**told, "steps": {step: _step_json(found[step], changes[step]) for step in found}})
        return
    types = list(found[FUSED])
    rows = [_step_row(type_, step, found[step], changes[step]) for type_ in types for step in found]
    screen.table(rows, right=[*_IN_STEPS, "to fused", "p50 ms", "p95 ms"])
    *_, last = found.values()
    for summary in last.values():
        screen.say(f"{summary.type}: {counted(summary.questions, 'question')}; {_spent(summary)}")
        tell_degraded(screen, summary)


def _rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for measure, found in comparison.by_place.items():
        yield {
            "type": comparison.type,
            "measure": measure,
            "against": f"{found.before:.3f}",
            "now": f"{found.after:.3f}",
            "change": _change(found.change),
            "better": found.better,
            "worse": found.worse,
            "equal": found.equal,
        }


def _change(change: Estimate) -> str:
    return f"{change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})"


def _verdict(comparison: Comparison, before: Summary, after: Summary) -> str:
    from knowledge_pipeline.evaluation.scores import QUALITY

    of = counted(comparison.questions, "question")
    spoken = {
        "better": f"{QUALITY} is better",
        "worse": f"{QUALITY} is worse",
        "undecided": f"{QUALITY} cannot be told apart",
    }[comparison.by_place[QUALITY].verdict]
    p50_ms = f"p50 {after.p50_ms:.0f} ms, was {before.p50_ms:.0f}"
    p95_ms = f"p95 {after.p95_ms:.0f} ms, was {before.p95_ms:.0f}"
    return f"{comparison.type}: {of}, {spoken}; {p50_ms}; {p95_ms}"


def _say_moved(screen: Screen, how: str, moved: Sequence[Changed]) -> None:
    screen.say()
    screen.say(f"{counted(len(moved), 'question')} {how}")
    for each in moved[:_SHOWN]:
        screen.say(f"{each.question.type}: {one_line(each.question.text)}")
        screen.say(
            f"   nDCG@10 {each.before:.2f} to {each.after:.2f}, "
            f"first answer {_at(each.rank_before)}, now {_at(each.rank_after)}"
        )
    if len(moved) > _SHOWN:
        screen.say(f"   and {counted(len(moved) - _SHOWN, 'question')} more: --json has all")


def _at(rank: int | None) -> str:
    return f"at {rank}" if rank else "not found"


def _step_row(
    type_: str, step: str, found: Mapping[str, Summary], changes: Mapping[str, Comparison]
) -> dict[str, Any]:
    from knowledge_pipeline.evaluation.scores import QUALITY
    from knowledge_pipeline.stages.ablation import FUSED

    summary = found[type_]
    change = changes[type_].by_place[QUALITY].change
    return {
        "type": type_,
        "step": step,
        **{measure: f"{summary.by_place[measure].mean:.3f}" for measure in _IN_STEPS},
        "to fused": "" if step == FUSED else _change(change),
        "p50 ms": f"{summary.p50_ms:.0f}",
        "p95 ms": f"{summary.p95_ms:.0f}",
    }


def _spent(summary: Summary) -> str:
    timings = sorted(summary.timings_ms.items(), key=lambda step: -step[1])
    return ", ".join(f"{step} {ms:.1f} ms" for step, ms in timings)


def _step_json(found: Mapping[str, Summary], changes: Mapping[str, Comparison]) -> dict[str, Any]:
    return {
        "types": {type_: asdict(summary) for type_, summary in found.items()},
        "to_fused": {type_: _measures(changes[type_]) for type_ in found},
    }


def _measures(comparison: Comparison) -> dict[str, Any]:
    return {
        "by_place": {measure: _difference(each) for measure, each in comparison.by_place.items()},
        "by_file": {measure: _difference(each) for measure, each in comparison.by_file.items()},
    }


def _difference(found: Difference) -> dict[str, Any]:
    return {**asdict(found), "verdict": found.verdict}


def _comparison_json(
    told: Mapping[str, Any],
    before: Mapping[str, Summary],
    after: Mapping[str, Summary],
    compared: Sequence[Comparison],
    moved: Sequence[Changed],
) -> dict[str, Any]:
    return {
        **told,
        "types": {type_: asdict(summary) for type_, summary in after.items()},
        "against": {
            **told["against"],
            "types": {type_: asdict(summary) for type_, summary in before.items()},
        },
        "changes": {each.type: _measures(each) for each in compared},
        "changed_questions": [_changed_json(each) for each in moved],
    }


def _changed_json(changed: Changed) -> dict[str, Any]:
    return {
        "question": changed.question.text,
        "type": changed.question.type,
        "file": changed.question.file,
        "before": changed.before,
        "after": changed.after,
        "rank_before": changed.rank_before,
        "rank_after": changed.rank_after,
    }
