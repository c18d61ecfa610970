"""The evaluation as an asset between the index and the release, with the check that guards the release."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.checks import Context, run_step
from knowledge_pipeline.defs.dagster_internals import log_check_result
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import build_table
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import build_progress_report
from knowledge_pipeline.evaluation.scores import (
    ALL,
    QUALITY_MEASURE,
    QuestionResponse,
    judge_by_place,
    score_questions,
)
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages.evaluate import EvaluationResult
from knowledge_pipeline.store.lake import Lake

EVALUATION = "evaluation"
"""The last part of the asset's key."""
QUALITY_CHECK = "quality_holds"

_MAX_WORST_QUESTIONS = 20
_MAX_HISTORY = 30  # evaluations
_MAX_CELL_CHARS = 120
_SHOWN_METRICS = ("nDCG@10", "R@10", "RR@10", "Success@1", "Success@5", "p50_ms", "p95_ms", "questions")


def list_evaluation_keys(settings: Settings, names: Names = PLAIN) -> list[dg.AssetKey]:
    """The asset's key where questions are configured; else there is no such asset."""
    return [names.key(EVALUATION)] if settings.evaluation.questions else []


def build_evaluation_asset(
    types: Sequence[SourceType], owners: Sequence[str] = (), names: Names = PLAIN
) -> dg.AssetsDefinition:
    """The asset that evaluates the newest index by the golden questions, after the index of every type."""
    spec = dg.AssetSpec(
        names.key(EVALUATION),
        deps=[names.key(source_type, "index") for source_type in types],
        group_name=names.group("release"),
        kinds={"python", "lancedb"},
        owners=list(owners),
        description="One row per metric of an evaluation: the score of the newest index on the golden "
        "questions of `evaluation.questions`, for each search type and for all. The same index is not "
        "evaluated twice by the same questions. `knowledge eval --misses` shows what was not found.",
        code_version=evaluate.VERSION,
    )
    check = dg.AssetCheckSpec(
        QUALITY_CHECK,
        asset=names.key(EVALUATION),
        blocking=True,
        description=f"{QUALITY_MEASURE} of the newest index on the golden questions is not below "
        "`evaluation.floor`, and no more below the live release than `evaluation.allowed_drop`. What to do "
        "when it fails: docs/evaluation.md",
    )

    @dg.multi_asset(name=names.definition("evaluate"), specs=[spec], check_specs=[check])
    @names.bind
    def evaluation(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]  # Dagster takes no other
        with run_step(context, project.retry_policy()):
            lake, settings = project.open_lake(), project.load_settings()
            report = build_progress_report(context.log, "golden questions")
            evaluated = evaluate.refresh(lake, settings, report=report)
            return dg.MaterializeResult(
                metadata=_build_metadata(lake, settings, evaluated),
                data_version=dg.DataVersion(_data_version(evaluated)) if evaluated else None,
                check_results=[_check_quality(lake, settings, evaluated, names)],
            )

    return evaluation


def log_evaluation(
    context: Context, project: ProjectResource, build_tags: Callable[[str], Mapping[str, str]]
) -> None:
    """Evaluate inside a plain op, and log what the asset would have recorded; the release refuses by itself.

    Logs nothing where no questions are configured. `build_tags` gives the provenance of a data version.
    """
    lake, settings = project.open_lake(), project.load_settings()
    report = build_progress_report(context.log, "golden questions")
    if evaluated := evaluate.refresh(lake, settings, report=report):
        tags = build_tags(_data_version(evaluated))
        metadata = _build_metadata(lake, settings, evaluated)
        context.log_event(dg.AssetMaterialization(project.names.key(EVALUATION), None, metadata, tags=tags))
        log_check_result(context, _check_quality(lake, settings, evaluated, project.names))


def _check_quality(
    lake: Lake, settings: Settings, evaluated: EvaluationResult | None, names: Names
) -> dg.AssetCheckResult:
    """The result of the check; a live release that is below the floor is only warned of."""
    limits, severity, problem = settings.evaluation, dg.AssetCheckSeverity.ERROR, None
    if evaluated is None:
        message = "Nothing is indexed, or no golden questions are configured: docs/evaluation.md"
    else:
        score = evaluated.scores[ALL][QUALITY_MEASURE]
        message = f"{QUALITY_MEASURE} {score:.3f}"
        problem = evaluate.find_release_problem(lake, settings)
        if problem is None and score < limits.floor:
            severity = dg.AssetCheckSeverity.WARN
            problem = f"the live release has {message}, below evaluation.floor ({limits.floor:g})"
    return dg.AssetCheckResult(
        asset_key=names.key(EVALUATION),
        check_name=QUALITY_CHECK,
        passed=problem is None,
        severity=severity,
        description=problem or message,
        metadata={"floor": limits.floor, "allowed_drop": limits.allowed_drop},
    )


def _data_version(evaluated: EvaluationResult) -> str:
    versions = (f"{space}@{version}" for space, version in sorted(evaluated.tables.items()))
    return hash_strings(evaluated.golden_key, *versions)[:16]


def _build_metadata(lake: Lake, settings: Settings, evaluated: EvaluationResult | None) -> dict[str, Any]:
    if evaluated is None:
        return {"questions": 0}
    overall = evaluated.scores[ALL]
    by_type = [{"type": type_, **_round_metrics(scores)} for type_, scores in evaluated.scores.items()]
    history = [
        {"at": entry["at"].isoformat(timespec="seconds"), **_round_metrics(entry)}
        for entry in reversed(evaluate.list_evaluations(lake)[-_MAX_HISTORY:])
    ]
    metadata: dict[str, Any] = {
        **{name: round(value, 4) for name, value in overall.items() if name != "questions"},
        "questions": int(overall["questions"]),
        "golden": evaluated.golden_key,
        "files": ", ".join(path.name for path in settings.evaluation.questions),
        "by_search_type": build_table(by_type),
        "history": build_table(history),
    }
    if evaluated.responses:
        worst = _list_worst_questions(evaluated.responses)
        metadata["worst_questions"] = build_table(worst, max_chars=_MAX_CELL_CHARS)
    return metadata


def _round_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(float(metrics.get(name, 0.0)), 3) for name in _SHOWN_METRICS}


def _list_worst_questions(responses: Sequence[QuestionResponse]) -> list[dict[str, Any]]:
    values = score_questions([judge_by_place(response) for response in responses])[QUALITY_MEASURE]
    ranked = sorted(zip(values.tolist(), responses, strict=True), key=lambda pair: pair[0])
    return [
        {
            QUALITY_MEASURE: round(value, 3),
            "question": response.question.text,
            "type": response.question.type,
            "wanted": ", ".join(f"{it.path} {it.symbol or ''}" for it in response.question.answers),
            "first": response.chunks[0].path if response.chunks else "",
        }
        for value, response in ranked[:_MAX_WORST_QUESTIONS]
    ]
