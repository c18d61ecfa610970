"""The evaluation as an asset between the index and the release, with the check that guards the release."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.config.settings import Settings, SourceType
from knowledge_pipeline.defs.failures import Context, failures
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.progress import progress
from knowledge_pipeline.evaluation.judge import Response, by_place
from knowledge_pipeline.evaluation.scores import ALL, per_question
from knowledge_pipeline.records import digest
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages.evaluate import QUALITY, Evaluated
from knowledge_pipeline.store.lake import Lake

EVALUATION = dg.AssetKey("evaluation")
CHECK = "quality_holds"

_WORST = 20  # questions shown
_PAST = 30  # evaluations shown
_CHARS = 120  # of a cell
_SHOWN = ("nDCG@10", "R@10", "RR@10", "Success@1", "Success@5", "p50_ms", "p95_ms", "questions")
_UNASKED = "No golden questions are configured: docs/evaluation.md shows how they are written."


def evaluation_of(types: Sequence[SourceType], owners: Sequence[str] = ()) -> dg.AssetsDefinition:
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
        CHECK,
        asset=EVALUATION,
        blocking=True,
        description=f"{QUALITY} of the newest index on the golden questions is not below `evaluation.floor`, "
        "and no more below the live release than `evaluation.allowed_drop`. What to do when it fails: "
        "docs/evaluation.md",
    )

    @dg.multi_asset(name="evaluate", specs=[spec], check_specs=[check])
    def evaluation(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult:
        with failures(context, project.patience()):
            lake, settings = project.lake(), project.settings()
            made = evaluate.refresh(lake, settings, report=progress(context.log, "golden questions"))
            passed, severity, sentence = _verdict(lake, settings, made)
        return dg.MaterializeResult(
            metadata=_metadata(lake, settings, made),
            data_version=_version(made),
            check_results=[
                dg.AssetCheckResult(
                    passed=passed,
                    check_name=CHECK,
                    severity=severity,
                    description=sentence,
                    metadata=_limits(settings),
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
    lake, settings = project.lake(), project.settings()
    made = evaluate.refresh(lake, settings, report=progress(context.log, "golden questions"))
    if made is None:
        return
    version = _version(made)
    tags = tags_of(version.value if version else "")
    context.log_event(dg.AssetMaterialization(EVALUATION, None, _metadata(lake, settings, made), tags=tags))
    passed, severity, sentence = _verdict(lake, settings, made)
    found = dg.AssetCheckEvaluation(
        asset_key=EVALUATION,
        check_name=CHECK,
        passed=passed,
        severity=severity,
        description=sentence,
        blocking=True,
        metadata={name: dg.MetadataValue.float(value) for name, value in _limits(settings).items()},
    )
    context.log_event(found)  # pyright: ignore[reportArgumentType]  # Dagster takes it


def _verdict(
    lake: Lake, settings: Settings, made: Evaluated | None
) -> tuple[bool, dg.AssetCheckSeverity, str]:
    """Whether the check passes, what a failure forbids, and why. What is live already is only warned of."""
    if made is None:
        asked = bool(settings.evaluation.questions)
        return True, dg.AssetCheckSeverity.ERROR, "Nothing is indexed." if asked else _UNASKED
    forbidden = evaluate.problem(lake, settings)
    if forbidden:
        return False, dg.AssetCheckSeverity.ERROR, forbidden
    found, floor = made.scores[ALL][QUALITY], settings.evaluation.floor
    if found < floor:
        sentence = f"the live release has {QUALITY} {found:.3f}, below evaluation.floor ({floor:g})"
        return False, dg.AssetCheckSeverity.WARN, sentence
    return True, dg.AssetCheckSeverity.ERROR, f"{QUALITY} {found:.3f}"


def _limits(settings: Settings) -> dict[str, float]:
    return {"floor": settings.evaluation.floor, "allowed_drop": settings.evaluation.allowed_drop}


def _version(made: Evaluated | None) -> dg.DataVersion | None:
    if made is None:
        return None
    return dg.DataVersion(
        digest(made.golden, *(f"{name}@{at}" for name, at in sorted(made.tables.items())))[:16]
    )


def _metadata(lake: Lake, settings: Settings, made: Evaluated | None) -> dict[str, Any]:
    if made is None:
        return {"questions": 0}
    overall = made.scores[ALL]
    return {
        **{name: round(value, 4) for name, value in overall.items() if name != "questions"},
        "questions": int(overall["questions"]),
        "golden": made.golden,
        "files": ", ".join(path.name for path in settings.evaluation.questions),
        "by_search_type": _table([{"type": type_, **_rounded(of)} for type_, of in made.scores.items()]),
        "history": _table([_past(entry) for entry in reversed(evaluate.history(lake)[-_PAST:])]),
        **({"worst_questions": _table(_worst(made.responses))} if made.responses else {}),
    }


def _past(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"at": entry["at"].isoformat(timespec="seconds"), **_rounded(entry)}


def _rounded(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(float(metrics.get(name, 0.0)), 3) for name in _SHOWN}


def _worst(responses: Sequence[Response]) -> list[dict[str, Any]]:
    """The questions that are answered worst, with what was wanted and what came first."""
    values = per_question([by_place(response) for response in responses])[QUALITY]
    ranked = sorted(zip(values.tolist(), responses, strict=True), key=lambda pair: pair[0])
    return [
        {
            QUALITY: round(value, 3),
            "question": _cut(response.question.text),
            "type": response.question.type,
            "wanted": _cut(
                ", ".join(f"{place.path} {place.symbol or ''}" for place in response.question.answers)
            ),
            "first": _cut(response.found[0].path) if response.found else "",
        }
        for value, response in ranked[:_WORST]
    ]


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _CHARS else f"{text[: _CHARS - 1]}…"


def _table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    kinds = {str: "string", float: "float", int: "int"}
    columns = [dg.TableColumn(name, kinds[type(value)]) for name, value in rows[0].items()]
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows], dg.TableSchema(columns))
