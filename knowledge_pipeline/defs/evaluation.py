"""The evaluation as an asset between the index and the release, with the check that guards the release."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.failures import Context, translate_failures
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.progress import build_progress_report
from knowledge_pipeline.evaluation.judge import QuestionResponse, judge_by_place
from knowledge_pipeline.evaluation.scores import ALL, score_questions
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages.evaluate import QUALITY_MEASURE, EvaluationResult
from knowledge_pipeline.store.lake import Lake

EVALUATION = dg.AssetKey("evaluation")
QUALITY_CHECK = "quality_holds"

_MAX_WORST_SHOWN = 20  # questions shown
_MAX_HISTORY_SHOWN = 30  # evaluations shown
_MAX_CELL_CHARS = 120  # of a cell
_SHOWN_METRICS = ("nDCG@10", "R@10", "RR@10", "Success@1", "Success@5", "p50_ms", "p95_ms", "questions")
_NO_QUESTIONS = "No golden questions are configured: docs/evaluation.md shows how they are written."


def build_evaluation_asset(types: Sequence[SourceType], owners: Sequence[str] = ()) -> dg.AssetsDefinition:
    """The asset that asks the newest index the golden questions, after the index of every type."""
    spec = dg.AssetSpec(
        EVALUATION,
        deps=[dg.AssetKey([source_type, "index"]) for source_type in types],
        group_name="release",
        kinds={"python", "lancedb"},
        owners=list(owners),
        description="One row per metric of an evaluation: what the newest index scored on the golden "
        "questions of `evaluation.questions`, for each search type and for all. The same index is asked "
        "the same questions once. `knowledge eval --misses` shows what was not found.",
        code_version=evaluate.VERSION,
    )
    check = dg.AssetCheckSpec(
        QUALITY_CHECK,
        asset=EVALUATION,
        blocking=True,
        description=f"{QUALITY_MEASURE} of the newest index on the golden questions is not below `evaluation.floor`, "
        "and no more below the live release than `evaluation.allowed_drop`. What to do when it fails: "
        "docs/evaluation.md",
    )

    @dg.multi_asset(name="evaluate", specs=[spec], check_specs=[check])
    def evaluation(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult:
        with translate_failures(context, project.retry_policy()):
            lake, settings = project.open_lake(), project.load_settings()
            made = evaluate.refresh(
                lake, settings, report=build_progress_report(context.log, "golden questions")
            )
            passed, severity, sentence = _check_quality(lake, settings, made)
        return dg.MaterializeResult(
            metadata=_build_metadata(lake, settings, made),
            data_version=_data_version(made),
            check_results=[
                dg.AssetCheckResult(
                    passed=passed,
                    check_name=QUALITY_CHECK,
                    severity=severity,
                    description=sentence,
                    metadata=_limits_metadata(settings),
                )
            ],
        )

    return evaluation


def log_evaluation(
    context: Context, project: ProjectResource, tags_of: Callable[[str], Mapping[str, str]]
) -> None:
    """Evaluate inside a plain op, and log what the asset would have recorded; the release refuses by itself.

    Nothing is logged where no questions are configured.

    Args:
        context: of the op.
        project: the configuration and the store.
        tags_of: what a data version was made of.

    Raises:
        ConfigError, QuestionRefused, EmbeddingUnavailable: as `evaluate.refresh` does.
    """
    lake, settings = project.open_lake(), project.load_settings()
    made = evaluate.refresh(lake, settings, report=build_progress_report(context.log, "golden questions"))
    if made is None:
        return
    version = _data_version(made)
    tags = tags_of(version.value if version else "")
    context.log_event(
        dg.AssetMaterialization(EVALUATION, None, _build_metadata(lake, settings, made), tags=tags)
    )
    passed, severity, sentence = _check_quality(lake, settings, made)
    found = dg.AssetCheckEvaluation(
        asset_key=EVALUATION,
        check_name=QUALITY_CHECK,
        passed=passed,
        severity=severity,
        description=sentence,
        blocking=True,
        metadata={name: dg.MetadataValue.float(value) for name, value in _limits_metadata(settings).items()},
    )
    context.log_event(found)  # pyright: ignore[reportArgumentType]  # Dagster takes it


def _check_quality(
    lake: Lake, settings: Settings, evaluated: EvaluationResult | None
) -> tuple[bool, dg.AssetCheckSeverity, str]:
    """Whether the check passes, what a failure forbids, and why. What is live already is only warned of."""
    if evaluated is None:
        asked = bool(settings.evaluation.questions)
        return True, dg.AssetCheckSeverity.ERROR, "Nothing is indexed." if asked else _NO_QUESTIONS
    forbidden = evaluate.find_release_problem(lake, settings)
    if forbidden:
        return False, dg.AssetCheckSeverity.ERROR, forbidden
    found, floor = evaluated.scores[ALL][QUALITY_MEASURE], settings.evaluation.floor
    if found < floor:
        sentence = f"the live release has {QUALITY_MEASURE} {found:.3f}, below evaluation.floor ({floor:g})"
        return False, dg.AssetCheckSeverity.WARN, sentence
    return True, dg.AssetCheckSeverity.ERROR, f"{QUALITY_MEASURE} {found:.3f}"


def _limits_metadata(settings: Settings) -> dict[str, float]:
    return {"floor": settings.evaluation.floor, "allowed_drop": settings.evaluation.allowed_drop}


def _data_version(evaluated: EvaluationResult | None) -> dg.DataVersion | None:
    if evaluated is None:
        return None
    return dg.DataVersion(
        hash_strings(
            evaluated.golden_key, *(f"{name}@{at}" for name, at in sorted(evaluated.tables.items()))
        )[:16]
    )


def _build_metadata(lake: Lake, settings: Settings, evaluated: EvaluationResult | None) -> dict[str, Any]:
    if evaluated is None:
        return {"questions": 0}
    overall = evaluated.scores[ALL]
    return {
        **{name: round(value, 4) for name, value in overall.items() if name != "questions"},
        "questions": int(overall["questions"]),
        "golden": evaluated.golden_key,
        "files": ", ".join(path.name for path in settings.evaluation.questions),
        "by_search_type": _to_table(
            [{"type": type_, **_round_metrics(of)} for type_, of in evaluated.scores.items()]
        ),
        "history": _to_table(
            [_history_row(entry) for entry in reversed(evaluate.list_evaluations(lake)[-_MAX_HISTORY_SHOWN:])]
        ),
        **(
            {"worst_questions": _to_table(_list_worst_questions(evaluated.responses))}
            if evaluated.responses
            else {}
        ),
    }


def _history_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"at": entry["at"].isoformat(timespec="seconds"), **_round_metrics(entry)}


def _round_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(float(metrics.get(name, 0.0)), 3) for name in _SHOWN_METRICS}


def _list_worst_questions(responses: Sequence[QuestionResponse]) -> list[dict[str, Any]]:
    """The questions that are answered worst, with what was wanted and what came first."""
    values = score_questions([judge_by_place(response) for response in responses])[QUALITY_MEASURE]
    ranked = sorted(zip(values.tolist(), responses, strict=True), key=lambda pair: pair[0])
    return [
        {
            QUALITY_MEASURE: round(value, 3),
            "question": _truncate(response.question.text),
            "type": response.question.type,
            "wanted": _truncate(
                ", ".join(f"{place.path} {place.symbol or ''}" for place in response.question.answers)
            ),
            "first": _truncate(response.chunks[0].path) if response.chunks else "",
        }
        for value, response in ranked[:_MAX_WORST_SHOWN]
    ]


def _truncate(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[: _MAX_CELL_CHARS - 1]}…"


def _to_table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    kinds = {str: "string", float: "float", int: "int"}
    columns = [dg.TableColumn(name, kinds[type(value)]) for name, value in rows[0].items()]
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows], dg.TableSchema(columns))
