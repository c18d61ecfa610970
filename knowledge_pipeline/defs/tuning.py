"""The tuning as an asset after the release: off until it is materialized, or its schedule is asked for."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from knowledge_pipeline.defs.checks import run_step
from knowledge_pipeline.defs.event_log import RELEASE, log_release
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import build_table, render_plot
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import build_progress_report
from knowledge_pipeline.evaluation.scores import MeasureDifference
from knowledge_pipeline.extensions import tuning as tune
from knowledge_pipeline.extensions.tuning import TuningResult, describe_weights, list_worst_losses
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sql_models.model import Plot

TUNING = "tuning"
"""The last part of the asset's key."""

_MAX_LOSSES = 20
_MAX_CELL_CHARS = 120
_TRAINING_PLOT = Plot(kind="line", x="pass_over_the_weights", y="ndcg_10", by="pairs")


def build_tuning_asset(owners: Sequence[str] = (), names: Names = PLAIN) -> dg.AssetsDefinition:
    """The asset that learns the ranker's weights from what is released."""
    spec = dg.AssetSpec(
        names.key(TUNING),
        deps=[names.key(RELEASE)],
        group_name=names.group("release"),
        kinds={"python", "lancedb"},
        owners=list(owners),
        description="One row per learned weight of the ranking: trained on docstrings, commits, pull "
        "requests, tickets and judged results of the live release, which are questions with known answers. "
        "They are released only if the held-out pairs and the golden questions are answered better; "
        "`knowledge rollback` takes the former ones back. Off until it is materialized, or `tuning.trigger` "
        "is weekly: docs/tuning.md",
        code_version=tune.VERSION,
    )

    @dg.multi_asset(name=names.definition("tune"), specs=[spec], pool=names.pool("release"))
    @names.bind
    def tuning(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult[Any]:
        with run_step(context, project.retry_policy()):
            report = build_progress_report(context.log, "tuning")
            result = tune.refresh(project.open_lake(), project.load_settings(), report=report)
        if result.released:
            log_release(context, project)
        return dg.MaterializeResult(
            metadata=build_tuning_metadata(result),
            data_version=dg.DataVersion(hash_strings(result.after.to_json())[:16]),
        )

    return tuning


def build_tuning_metadata(result: TuningResult) -> dict[str, Any]:
    """Pairs, gains, weights, the course of the training, and the worst losses."""
    gains = {"all held out": result.gain, **result.gain_by_kind}
    if result.golden_gain:
        gains["golden questions"] = result.golden_gain
    before, after = describe_weights(result.before), describe_weights(result.after)
    metadata: dict[str, Any] = {
        "outcome": result.problem or "the learned weights are released",
        "pairs": sum(result.pairs.values()),
        "gain": round(result.gain.change.mean, 4),
        "asked_release": result.asked_release,
        "gains": build_table([{"ndcg_10_of": name, **_to_row(gain)} for name, gain in gains.items()]),
        "pairs_by_kind": build_table([{"kind": kind, "pairs": n} for kind, n in result.pairs.items()]),
        "weights": build_table(
            [{"weight": name, "live": before[name], "learned": after[name]} for name in after]
        ),
    }
    if result.released:
        metadata["release"] = result.released.release
    points = [  # mean nDCG@10 after each pass over the weights
        {"x": number, "y": value, "series": name}
        for number, step in enumerate(result.steps)
        for name, value in (("learned from", step.learned), ("held out", step.held_out))
    ]
    if plot := render_plot(_TRAINING_PLOT, pa.Table.from_pylist(points)):
        metadata["training"] = plot
    if losses := list_worst_losses(result, limit=_MAX_LOSSES):
        rows = [
            {
                "lost": loss.pair.question.text,
                "kind": loss.pair.kind,
                "wanted": ", ".join(f"{one.path} {one.symbol or ''}" for one in loss.pair.question.answers),
                "before": round(loss.before, 3),
                "after": round(loss.after, 3),
            }
            for loss in losses
        ]
        metadata["worst_losses"] = build_table(rows, max_chars=_MAX_CELL_CHARS)
    return metadata


def _to_row(gain: MeasureDifference) -> dict[str, Any]:
    change = gain.change
    numbers = {"before": gain.before, "after": gain.after, "change": change.mean, "low": change.low}
    rounded = {name: round(value, 4) for name, value in {**numbers, "high": change.high}.items()}
    return {**rounded, "better": gain.better, "worse": gain.worse}
