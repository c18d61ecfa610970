"""What tuning learned: pairs, gains, weights and losses, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knowledge_pipeline.stages.tuning.tune import describe_weights, list_worst_losses

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.evaluation.compare import MeasureDifference
    from knowledge_pipeline.stages.tuning.tune import ScoredPair, TuningResult

_SHOWN_LOSSES, _LISTED_LOSSES = 5, 50


def show_tuning(screen: Screen, result: TuningResult, *, dry_run: bool) -> None:
    """Print the result of a tuning."""
    screen.print_json(tuning_json(result, dry_run=dry_run))
    rows = [_format_gain("all held out", result.gain)]
    rows += [_format_gain(kind, gain, result.pairs[kind]) for kind, gain in result.gain_by_kind.items()]
    if result.golden_gain:
        rows.append(_format_gain("golden questions", result.golden_gain))
    rows[0]["pairs"] = sum(result.pairs.values())
    screen.print_table(rows, right_aligned=("pairs", "held out", "before", "after", "better", "worse"))
    screen.print_text()
    before, after = describe_weights(result.before), describe_weights(result.after)
    weights = [{"weight": name, "live": before[name], "learned": after[name]} for name in after]
    screen.print_table(weights, right_aligned=("live", "learned"))
    screen.print_text()
    if losses := list_worst_losses(result, limit=_SHOWN_LOSSES):
        screen.print_table([_format_loss(loss) for loss in losses], right_aligned=("before", "after"))
        screen.print_text()
    screen.print_text(_describe_outcome(result, dry_run=dry_run))


def tuning_json(result: TuningResult, *, dry_run: bool) -> dict[str, Any]:
    """A tuning for programs."""
    return {
        "asked_release": result.asked_release,
        "released": result.released and result.released.release,
        "dry_run": dry_run,
        "problem": result.problem,
        "pairs": dict(result.pairs),
        "weights": {"live": describe_weights(result.before), "learned": describe_weights(result.after)},
        "held_out": _gain_json(result.gain),
        "by_kind": {kind: _gain_json(gain) for kind, gain in result.gain_by_kind.items()},
        "golden": result.golden_gain and _gain_json(result.golden_gain),
        "worst_losses": [_format_loss(loss) for loss in list_worst_losses(result, limit=_LISTED_LOSSES)],
    }


def _gain_json(gain: MeasureDifference) -> dict[str, Any]:
    interval = [round(gain.change.low, 4), round(gain.change.high, 4)]
    return {
        **{"questions": gain.better + gain.worse + gain.equal, "better": gain.better, "worse": gain.worse},
        **{"before": round(gain.before, 4), "after": round(gain.after, 4)},
        **{"change": round(gain.change.mean, 4), "interval": interval, "verdict": gain.verdict},
    }


def _format_gain(name: str, gain: MeasureDifference, pairs: int | None = None) -> dict[str, Any]:
    change = f"{gain.change.mean:+.3f} ({gain.change.low:+.3f} to {gain.change.high:+.3f})"
    return {
        **{"ndcg@10 of": name, "pairs": pairs, "held out": gain.better + gain.worse + gain.equal},
        **{"before": f"{gain.before:.3f}", "after": f"{gain.after:.3f}", "change": change},
        **{"better": gain.better, "worse": gain.worse},
    }


def _format_loss(loss: ScoredPair) -> dict[str, Any]:
    question = loss.pair.question
    return {
        **{"lost": question.text, "kind": loss.pair.kind},
        "wanted": ", ".join(f"{each.path} {each.symbol or ''}".strip() for each in question.answers),
        **{"before": round(loss.before, 4), "after": round(loss.after, 4)},
    }


def _describe_outcome(result: TuningResult, *, dry_run: bool) -> str:
    if result.released:
        former = f"`knowledge rollback {result.asked_release}` takes the former weights back"
        return f"Release {result.released.release} is live, with the learned weights; {former}."
    if result.problem:
        return f"Nothing is released: {result.problem}."
    return "The learned weights are better: `knowledge tune` releases them." if dry_run else ""
