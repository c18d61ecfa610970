"""`eval` and `tune`: how well questions are answered, and what makes it better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from typer import Option

from knowledge_pipeline.cli.progress import show_progress
from knowledge_pipeline.cli.screen import Screen, format_count, one_line
from knowledge_pipeline.cli.session import (
    Names,
    Session,
    WrongUsage,
    apply_overrides,
    example,
    require_config,
)
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SearchType
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import ConfigError, NotFound
from knowledge_pipeline.evaluation.golden import GoldenQuestion, GoldenSet, load_golden_set
from knowledge_pipeline.evaluation.scores import (
    QUALITY_MEASURE,
    ChangedQuestion,
    Comparison,
    Estimate,
    MeasureDifference,
    QuestionResponse,
    Summary,
    compare,
    is_answered,
    list_changed_questions,
    summarize,
)
from knowledge_pipeline.extensions import tuning
from knowledge_pipeline.extensions.tuning import ScoredPair, TuningResult
from knowledge_pipeline.extensions.tuning_examples import mine_pairs
from knowledge_pipeline.stages.evaluate import evaluation_key, run_questions
from knowledge_pipeline.store.release import list_releases, newest_index_versions

_PROPOSED_QUESTIONS = 60  # as many as one reviews in an hour


@dataclass(frozen=True, slots=True)
class _EvaluationTarget:
    """What answers the questions: settings, versions of the index, and a release's weights."""

    settings: Settings
    tables: Mapping[str, int]
    ranker: str | None
    release: int | None  # None: the newest index, with the live weights

    @classmethod
    def find(cls, session: Session, settings: Settings, release: int | None) -> _EvaluationTarget:
        """A release or the newest index, with those settings."""
        releases = list_releases(session.lake)
        if release is None:
            tables = newest_index_versions(session.lake)
            if not tables:
                raise NotFound("nothing is indexed yet: run `knowledge index`")
            return cls(settings, tables, releases[-1].ranker if releases else None, None)
        by_number = {release.release: release for release in releases}
        if release not in by_number:
            numbers = ", ".join(map(str, by_number)) or "none"
            raise NotFound(f"there is no release {release}; kept releases: {numbers}")
        return cls(settings, by_number[release].tables, by_number[release].ranker, release)

    def as_json(self, golden: GoldenSet) -> dict[str, Any]:
        """What is asked, and which index, for programs."""
        key = evaluation_key(golden, self.settings, self.ranker)
        return {"golden": key, "tables": dict(self.tables), "release": self.release}


@example("""
    knowledge eval
    knowledge eval --misses
    knowledge eval --type semantic --type code
    knowledge eval --questions golden.yaml --release 3 --json
    knowledge eval --steps
    knowledge eval --against-release 3
    knowledge eval --against-config other.yaml
    knowledge eval --set query.vector_weight=0.7 --against-config knowledge.yaml
    knowledge eval --mine proposed.yaml
""")
def eval_(
    session: Session,
    questions: Annotated[
        list[Path] | None,
        Option(
            metavar="PATH", help="A YAML file or BEIR folder, in place of evaluation.questions (repeatable)."
        ),
    ] = None,
    type: Annotated[
        Names,
        Option(
            "--type",
            "-t",
            metavar=f"[{'|'.join(get_args(SearchType))}]",
            help="Ask all questions as this search type (repeatable).",
        ),
    ] = None,
    release: Annotated[
        int | None, Option(metavar="N", help="Ask this release instead of the newest index.", min=1)
    ] = None,
    misses: Annotated[bool, Option("--misses", help="List the questions without an answer.")] = False,
    steps: Annotated[
        bool, Option("--steps", help="Score vector search, BM25, their fusion, and each further active step.")
    ] = False,
    set_: Annotated[
        Names, Option("--set", metavar="KEY=VALUE", help="Change a query setting for this run (repeatable).")
    ] = None,
    against_release: Annotated[
        int | None, Option(metavar="N", help="Compare with this release.", min=1)
    ] = None,
    against_config: Annotated[
        Path | None,
        Option(
            metavar="PATH",
            help="Compare with the query settings of this knowledge.yaml, over the same store.",
        ),
    ] = None,
    mine: Annotated[
        Path | None,
        Option(
            metavar="PATH",
            help="Ask nothing; propose questions with indexed answers in this new file, to be reviewed.",
        ),
    ] = None,
) -> None:
    """Ask the golden questions, and score the answers.

    Asks the newest index, released or not. Every measure is a mean over the questions with
    its 95 % interval. By place, a result must hold the symbol that an answer names; by
    file, any result from the file counts. A comparison shows the interval of the change, and
    the questions that were won and lost. Only a refresh stores scores.
    """
    if mine is not None:
        if questions or type or release or misses or steps or set_ or against_release or against_config:
            raise WrongUsage("--mine asks nothing, so give no other option of eval with it")
        _propose_questions(session, mine)
        return

    compares = against_release is not None or against_config is not None
    if steps + misses + compares > 1:
        raise WrongUsage("give one of --steps, --misses and --against-release or --against-config")
    files = questions or session.settings.evaluation.questions
    if not files:
        raise ConfigError(
            f"there are no golden questions: give --questions, or set evaluation.questions in "
            f"{session.config_path.name} (docs/evaluation.md shows how to write them)"
        )
    golden = load_golden_set(files)
    golden_questions = list(_assign_search_types(golden.questions, type))
    settings = apply_overrides(session.settings, set_ or ())
    target = _EvaluationTarget.find(session, settings, release)
    metadata = target.as_json(golden)
    if steps:
        with show_progress(session.screen) as report_for:
            by_step = tuning.run_steps(
                *(session.lake, settings, golden_questions, target.tables, target.ranker),
                progress_for=report_for,
            )
        _show_step_scores(session.screen, by_step, metadata, combined=not type)
    elif compares:
        other_settings = _load_comparable_settings(session, settings, against_config)
        against = replace(target, settings=other_settings)
        if against_release is not None:
            against = _EvaluationTarget.find(session, other_settings, against_release)
        before = _ask_questions(session, against, golden_questions)
        after = _ask_questions(session, target, golden_questions)
        metadata["against"] = against.as_json(golden)
        _show_comparison(session.screen, before, after, metadata, combined=not type)
    else:
        responses = _ask_questions(session, target, golden_questions)
        _show_scores(session.screen, responses, metadata, combined=not type, misses=misses)


@example("""
    knowledge tune --dry-run
    knowledge tune
    knowledge tune --json
""")
def tune(
    session: Session,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be gained.")] = False,
) -> None:
    """Learn the ranking from the corpus, and release it if better.

    Docstrings, commits, pull requests, tickets and judged results ask questions whose answers
    are known. Weights near the shipped ones are learned from them; the newest fifth of each
    kind is held out. They are published, with the content of the live release, only if the
    held-out pairs and the golden questions are answered better. `knowledge rollback` takes
    the former weights back.
    """
    with show_progress(session.screen) as report_for:
        report = report_for("tuning")
        result = tuning.refresh(session.lake, session.settings, dry_run=dry_run, report=report)
    _show_tuning(session.screen, result, dry_run=dry_run)


def _propose_questions(session: Session, path: Path) -> None:
    path = path.expanduser()
    if path.exists():
        raise WrongUsage(f"{path} exists, and what was reviewed is never overwritten: name another file")
    pairs = tuning.select_proposals(mine_pairs(session.lake, session.settings), limit=_PROPOSED_QUESTIONS)
    if not pairs:
        raise NotFound(
            "nothing that is indexed asks a question: index code with docstrings, or its history "
            "(a source of type git_history)"
        )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(tuning.format_proposals(pairs))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    counts = Counter(pair.kind for pair in pairs)
    session.screen.print_json({"file": str(path), "questions": len(pairs), "kinds": counts})
    session.screen.print_text(
        f"{len(pairs)} questions are proposed in {path}. None counts until you have reviewed it: take the "
        "comment marks off those that are good, and name the file in evaluation.questions."
    )


def _ask_questions(
    session: Session, target: _EvaluationTarget, questions: Sequence[GoldenQuestion]
) -> list[QuestionResponse]:
    with show_progress(session.screen) as report_for:
        index = (target.tables, target.ranker)
        return run_questions(session.lake, target.settings, questions, *index, report=report_for("questions"))


def _load_comparable_settings(session: Session, settings: Settings, other_config: Path | None) -> Settings:
    if other_config is None:
        return settings
    path = require_config(other_config, option="--against-config")
    other = load_settings(path)
    spaces = ("embedding", _format_spaces(settings), _format_spaces(other))
    for key, ours, theirs in (("store", str(settings.store), str(other.store)), spaces):
        if ours != theirs:
            raise ConfigError(
                f"{path.name} has the {key} {theirs}, {session.config_path.name} has {ours}: only settings "
                f"under query may differ; to see what another {key} does, compare releases"
            )
    return other


def _format_spaces(settings: Settings) -> str:
    return ", ".join(sorted({resolve_space(embedding).name for embedding in settings.list_embeddings()}))


def _assign_search_types(
    questions: Sequence[GoldenQuestion], types: Sequence[str] | None
) -> Iterator[GoldenQuestion]:
    if not types:
        yield from questions
    for type_ in dict.fromkeys(types or ()):
        if type_ not in get_args(SearchType):
            raise WrongUsage(f"found --type {type_}; allowed: {', '.join(get_args(SearchType))}")
        yield from (replace(question, type=cast("SearchType", type_)) for question in questions)


Responses = Sequence[QuestionResponse]
Json = dict[str, Any]  # plain values for programs

_MAX_FOUND_SHOWN = 4  # results of a question without an answer
_MAX_QUESTIONS_SHOWN = 10  # won, and lost, questions
_STEP_MEASURES = ("nDCG@10", "R@10", "RR@10")


def _show_scores(
    screen: Screen, responses: Responses, run_metadata: Json, *, combined: bool, misses: bool
) -> None:
    """Show every measure with its interval, how long a question took, and on demand the `misses`.

    Programs see `run_metadata`, too. With `combined`, all search types are shown together as well.
    """
    summaries = _summarize(responses, combined=combined)
    missed = [_missed_question_json(response) for response in responses if not is_answered(response)]
    types = {"types": _summaries_json(summaries)}
    screen.print_json({**run_metadata, **types, **({"misses": missed} if misses else {})})
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
    if misses:
        screen.print_text(f"\n{format_count(len(missed), 'question')} without an answer in ten results")
    for question in missed if misses else ():
        screen.print_text(f"{question['type']}: {one_line(question['question'])}")
        screen.print_text(f"   wanted: {one_line('; '.join(question['answers']))}")
        results = one_line("; ".join(question["found"][:_MAX_FOUND_SHOWN]))
        screen.print_text(f"   found:  {results or 'nothing'}")


def _show_comparison(
    screen: Screen, before: Responses, after: Responses, run_metadata: Json, *, combined: bool
) -> None:
    """Show how every measure changed, and the questions that were won and lost; arguments as above."""
    summaries_before = _summarize(before, combined=combined)
    summaries_after = _summarize(after, combined=combined)
    comparisons = [comparison for comparison in compare(before, after) if comparison.type in summaries_after]
    changed = list_changed_questions(before, after)
    screen.print_json(
        {
            **run_metadata,
            "types": _summaries_json(summaries_after),
            "against": {**run_metadata["against"], "types": _summaries_json(summaries_before)},
            "changes": {comparison.type: _measures_json(comparison) for comparison in comparisons},
            "changed_questions": [_changed_question_json(question) for question in changed],
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
    for comparison in comparisons:
        summary_before, summary_after = summaries_before[comparison.type], summaries_after[comparison.type]
        screen.print_text(_format_verdict(comparison, summary_before, summary_after))
        _show_degraded_steps(screen, summary_before, label=" (compared with)")
        _show_degraded_steps(screen, summary_after)
    lost = [question for question in changed if question.change < 0]
    _show_changed_questions(screen, "lost", lost)
    won = [question for question in reversed(changed) if question.change > 0]
    _show_changed_questions(screen, "won", won)


def _show_step_scores(
    screen: Screen, responses: Mapping[str, Responses], run_metadata: Json, *, combined: bool
) -> None:
    """Show one row per search type and step, each compared with the fused step; arguments as above."""
    summaries = {step: _summarize(of_step, combined=combined) for step, of_step in responses.items()}
    changes = {
        step: {comparison.type: comparison for comparison in compare(responses[tuning.FUSED_STEP], of_step)}
        for step, of_step in responses.items()
    }
    steps = {
        step: {
            "types": _summaries_json(of_step),
            "to_fused": {type_: _measures_json(changes[step][type_]) for type_ in of_step},
        }
        for step, of_step in summaries.items()
    }
    screen.print_json({**run_metadata, "steps": steps})
    rows: list[Json] = []
    for type_ in summaries[tuning.FUSED_STEP]:
        for step, of_step in summaries.items():
            change = changes[step][type_].by_place[QUALITY_MEASURE].change
            rows.append(
                {
                    "type": type_,
                    "step": step,
                    **{name: f"{of_step[type_].by_place[name].mean:.3f}" for name in _STEP_MEASURES},
                    "to fused": "" if step == tuning.FUSED_STEP else _format_change(change),
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
    summaries = summarize(responses)
    shown = summaries if combined and len(summaries) != 2 else summaries[1:]
    return {summary.type: summary for summary in shown}


def _summaries_json(summaries: Mapping[str, Summary]) -> Json:
    return {type_: asdict(summary) for type_, summary in summaries.items()}


def _show_degraded_steps(screen: Screen, summary: Summary, *, label: str = "") -> None:
    for step, count in summary.degraded.items():
        questions = format_count(summary.questions, "question")
        screen.print_text(f"{summary.type}{label}: {count:,} of {questions} answered without {step}")


def _format_estimate(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _format_change(change: Estimate) -> str:
    return f"{change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})"


def _format_verdict(comparison: Comparison, before: Summary, after: Summary) -> str:
    verdict = comparison.by_place[QUALITY_MEASURE].verdict
    change = "shows no clear difference" if verdict == "undecided" else f"is {verdict}"
    return (
        f"{comparison.type}: {format_count(comparison.questions, 'question')}, {QUALITY_MEASURE} {change}; "
        f"p50 {after.p50_ms:.0f} ms, was {before.p50_ms:.0f}; "
        f"p95 {after.p95_ms:.0f} ms, was {before.p95_ms:.0f}"
    )


def _show_changed_questions(screen: Screen, outcome: str, questions: Sequence[ChangedQuestion]) -> None:
    screen.print_text(f"\n{format_count(len(questions), 'question')} {outcome}")
    for question in questions[:_MAX_QUESTIONS_SHOWN]:
        rank_before, rank_after = (
            f"at {rank}" if rank else "not found" for rank in (question.rank_before, question.rank_after)
        )
        screen.print_text(f"{question.question.type}: {one_line(question.question.text)}")
        screen.print_text(
            f"   nDCG@10 {question.before:.2f} to {question.after:.2f}, "
            f"first answer {rank_before}, now {rank_after}"
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


def _question_json(question: GoldenQuestion) -> Json:
    return {"question": question.text, "type": question.type, "file": question.file}


def _changed_question_json(changed: ChangedQuestion) -> Json:
    outcome = {name: getattr(changed, name) for name in ("before", "after", "rank_before", "rank_after")}
    return {**_question_json(changed.question), **outcome}


def _missed_question_json(response: QuestionResponse) -> Json:
    answers = [(answer.path, answer.symbol) for answer in response.question.answers]
    chunks = [(chunk.path, ", ".join(sorted(chunk.symbols))) for chunk in response.chunks]
    places = {"answers": answers, "found": chunks}
    return _question_json(response.question) | {
        name: [f"{path}: {symbol}" if symbol else path for path, symbol in pairs]
        for name, pairs in places.items()
    }


_SHOWN_LOSSES, _LISTED_LOSSES = 5, 50


def _show_tuning(screen: Screen, result: TuningResult, *, dry_run: bool) -> None:
    weights = {
        "live": tuning.describe_weights(result.before),
        "learned": tuning.describe_weights(result.after),
    }
    losses = [_format_loss(loss) for loss in tuning.list_worst_losses(result, limit=_LISTED_LOSSES)]
    screen.print_json(
        {
            "asked_release": result.asked_release,
            "released": result.released and result.released.release,
            "dry_run": dry_run,
            "problem": result.problem,
            "pairs": dict(result.pairs),
            "weights": weights,
            "held_out": _gain_json(result.gain),
            "by_kind": {kind: _gain_json(gain) for kind, gain in result.gain_by_kind.items()},
            "golden": result.golden_gain and _gain_json(result.golden_gain),
            "worst_losses": losses,
        }
    )
    rows = [_format_gain("all held out", result.gain, sum(result.pairs.values()))]
    rows += [_format_gain(kind, gain, result.pairs[kind]) for kind, gain in result.gain_by_kind.items()]
    if result.golden_gain:
        rows.append(_format_gain("golden questions", result.golden_gain, None))
    screen.print_table(rows, right_aligned=("pairs", "held out", "before", "after", "better", "worse"))
    screen.print_text()
    table = [
        {"weight": name} | {side: weights[side][name] for side in weights} for name in weights["learned"]
    ]
    screen.print_table(table, right_aligned=("live", "learned"))
    screen.print_text()
    if losses:
        screen.print_table(losses[:_SHOWN_LOSSES], right_aligned=("before", "after"))
        screen.print_text()
    outcome = "The learned weights are better: `knowledge tune` releases them." if dry_run else ""
    if result.released:
        former = f"`knowledge rollback {result.asked_release}` takes the former weights back"
        outcome = f"Release {result.released.release} is live, with the learned weights; {former}."
    elif result.problem:
        outcome = f"Nothing is released: {result.problem}."
    screen.print_text(outcome)


def _gain_json(gain: MeasureDifference) -> dict[str, Any]:
    interval = [round(gain.change.low, 4), round(gain.change.high, 4)]
    return {
        **{"questions": gain.better + gain.worse + gain.equal, "better": gain.better, "worse": gain.worse},
        **{"before": round(gain.before, 4), "after": round(gain.after, 4)},
        **{"change": round(gain.change.mean, 4), "interval": interval, "verdict": gain.verdict},
    }


def _format_gain(name: str, gain: MeasureDifference, pairs: int | None) -> dict[str, Any]:
    change = _format_change(gain.change)
    return {
        **{"ndcg@10 of": name, "pairs": pairs, "held out": gain.better + gain.worse + gain.equal},
        **{"before": f"{gain.before:.3f}", "after": f"{gain.after:.3f}", "change": change},
        **{"better": gain.better, "worse": gain.worse},
    }


def _format_loss(loss: ScoredPair) -> dict[str, Any]:
    question = loss.pair.question
    return {
        **{"lost": question.text, "kind": loss.pair.kind},
        "wanted": ", ".join(f"{answer.path} {answer.symbol or ''}".strip() for answer in question.answers),
        **{"before": round(loss.before, 4), "after": round(loss.after, 4)},
    }
