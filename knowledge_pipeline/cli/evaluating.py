"""`eval`: how well the golden questions are answered, by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from knowledge_pipeline.cli.options import SearchKind
from knowledge_pipeline.cli.progress import progress
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.cli.text import counted, one_line
from knowledge_pipeline.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from knowledge_pipeline.evaluation.golden import Question
    from knowledge_pipeline.evaluation.judge import Response
    from knowledge_pipeline.evaluation.scores import Estimate, Summary

_SHOWN = 4  # of the places that a missed question got


@dataclass(frozen=True, slots=True)
class _Asking:
    """What progress is told of."""

    id: str = "questions"


@example("""
    knowledge eval
    knowledge eval --misses
    knowledge eval --type semantic --type code
    knowledge eval --questions golden.yaml --release 3 --json
""")
def eval_(
    session: Session,
    questions: Annotated[
        list[Path] | None,
        typer.Option(
            "--questions",
            metavar="PATH",
            help="A YAML file or BEIR folder, instead of evaluation.questions (repeatable).",
        ),
    ] = None,
    type: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            "-t",
            metavar=f"[{'|'.join(get_args(SearchKind))}]",
            help="Ask all questions by this search type (repeatable).",
        ),
    ] = None,
    release: Annotated[
        int | None,
        typer.Option("--release", metavar="N", help="Ask this release, instead of the newest index.", min=1),
    ] = None,
    misses: Annotated[bool, typer.Option("--misses", help="List the questions without an answer.")] = False,
) -> None:
    """Ask the golden questions, and score the answers.

    Asks the newest index, released or not. Every measure is a mean over the questions with
    its 95 % interval; by place, the passage must hold the symbol that an answer names; by
    file, any passage of the file counts. Nothing is written down: a refresh does that.
    """
    from knowledge_pipeline.evaluation.golden import load
    from knowledge_pipeline.evaluation.scores import summaries
    from knowledge_pipeline.stages.evaluate import ask, golden_of

    golden = load(_files(session, questions))
    tables = _tables(session, release)
    asked = list(_by_types(golden.questions, type))
    with progress(session.screen) as report_for:
        responses = ask(session.lake, session.settings, asked, tables, report=report_for(_Asking()))
    found = summaries(responses)
    found = found[1:] if type or len(found) == 2 else found  # all together is said where it says more
    told = {"golden": golden_of(golden, session.settings), "tables": dict(tables), "release": release}
    _show(session, found, responses, told, misses=misses)


def _files(session: Session, given: Sequence[Path] | None) -> Sequence[Path]:
    files = given or session.settings.evaluation.questions
    if not files:
        raise ConfigError(
            f"there are no golden questions: give --questions, or set evaluation.questions in "
            f"{session.config_path.name} (docs/evaluation.md shows how they are written)"
        )
    return files


def _tables(session: Session, release: int | None) -> Mapping[str, int]:
    from knowledge_pipeline.stages.evaluate import newest
    from knowledge_pipeline.store.release import releases

    if release is None:
        tables = newest(session.lake)
        if not tables:
            raise NotFound("nothing is indexed yet: run `knowledge index`")
        return tables
    by_number = {each.release: each.tables for each in releases(session.lake)}
    if release not in by_number:
        known = ", ".join(map(str, by_number)) or "none"
        raise NotFound(f"there is no release {release}; kept releases: {known}")
    return by_number[release]


def _by_types(questions: Sequence[Question], types: Sequence[str] | None) -> Iterator[Question]:
    if not types:
        yield from questions
    for type_ in dict.fromkeys(types or ()):
        if type_ not in get_args(SearchKind):
            raise WrongUsage(f"found --type {type_}; allowed: {', '.join(get_args(SearchKind))}")
        yield from (replace(question, type=cast("SearchKind", type_)) for question in questions)


def _show(
    session: Session,
    found: Sequence[Summary],
    responses: Sequence[Response],
    told: Mapping[str, Any],
    *,
    misses: bool,
) -> None:
    screen = session.screen
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
    if missed is not None:
        screen.say()
        screen.say(f"{counted(len(missed), 'question')} without an answer in ten results")
    for miss in missed or ():
        screen.say(f"{miss['type']}: {one_line(miss['question'])}")
        screen.say(f"   wanted: {one_line('; '.join(miss['answers']))}")
        screen.say(f"   found:  {one_line('; '.join(miss['found'][:_SHOWN])) or 'nothing'}")


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
