"""How an evaluation is shown: tables for people, values for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.render.terminal_text import counted, one_line

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.evaluation.judge import Response
    from knowledge_pipeline.evaluation.scores import Estimate, Summary

_SHOWN = 4  # of the places that a missed question got


def show_scores(
    screen: Screen,
    responses: Sequence[Response],
    told: Mapping[str, Any],
    *,
    together: bool,
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
    from knowledge_pipeline.evaluation.scores import summaries

    found = list(by_type(summaries(responses), together=together).values())
    missed = [_miss(response) for response in _missed(responses)] if misses else None
    if screen.as_json:
        types = {summary.type: asdict(summary) for summary in found}
        screen.answer({**told, "types": types, **({} if missed is None else {"misses": missed})})
        return
    screen.table([row for summary in found for row in _rows(summary)], right=("by place", "by file"))
    for summary in found:
        screen.say(
            f"{summary.type}: {counted(summary.questions, 'question')}, "
            f"p50 {summary.p50_ms:.0f} ms, p95 {summary.p95_ms:.0f} ms"
        )
        tell_degraded(screen, summary)
    if missed is not None:
        screen.say()
        screen.say(f"{counted(len(missed), 'question')} without an answer in ten results")
    for miss in missed or ():
        screen.say(f"{miss['type']}: {one_line(miss['question'])}")
        screen.say(f"   wanted: {one_line('; '.join(miss['answers']))}")
        screen.say(f"   found:  {one_line('; '.join(miss['found'][:_SHOWN])) or 'nothing'}")


def by_type(found: Sequence[Summary], *, together: bool) -> dict[str, Summary]:
    """By search type; all together only where that is wanted and says more."""
    return {each.type: each for each in (found if together and len(found) != 2 else found[1:])}


def tell_degraded(screen: Screen, summary: Summary, *, of: str = "") -> None:
    """Say which steps were left out of how many answers, and `of` what."""
    for step, count in summary.degraded.items():
        asked = counted(summary.questions, "question")
        screen.say(f"{summary.type}{of}: {count:,} of {asked} had to be answered without {step}")


def _rows(summary: Summary) -> Iterator[dict[str, Any]]:
    for measure, by_place in summary.by_place.items():
        yield {
            "type": summary.type,
            "measure": measure,
            "by place": _spoken(by_place),
            "by file": _spoken(summary.by_file[measure]),
        }


def _spoken(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _missed(responses: Sequence[Response]) -> list[Response]:
    from knowledge_pipeline.evaluation.judge import answered

    return [response for response in responses if not answered(response)]


def _miss(response: Response) -> dict[str, Any]:
    question = response.question
    return {
        "question": question.text,
        "type": question.type,
        "file": question.file,
        "answers": [_named(place.path, place.symbol) for place in question.answers],
        "found": [_named(found.path, ", ".join(sorted(found.symbols))) for found in response.found],
    }


def _named(path: str, symbol: str | None) -> str:
    return f"{path}: {symbol}" if symbol else path
