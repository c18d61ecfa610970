"""Tune: learns the ranker's weights of code alone from pairs, and releases them where they are better.

They are better where both the pairs that were held out and the golden questions, if there are any, are
answered better by the paired bootstrap (`evaluation.compare`). The same store gives the same weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import Busy, NotFound
from knowledge_pipeline.evaluation.compare import MeasureDifference, compare, compute_difference
from knowledge_pipeline.evaluation.golden_files import load_golden_set
from knowledge_pipeline.evaluation.scores import QUALITY_MEASURE, require_measures
from knowledge_pipeline.query.search.ranker import LinearModel, RankingModel, load_model
from knowledge_pipeline.stages.evaluate import run_questions
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.stages.tuning.ask import ask_pairs
from knowledge_pipeline.stages.tuning.mine import mine_pairs
from knowledge_pipeline.stages.tuning.pairs import KINDS, Pair, split_newest
from knowledge_pipeline.stages.tuning.training import (
    TUNED,
    ExampleBatch,
    TrainingStep,
    judge_places,
    tune_weights,
)
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release, find_live_release, publish_ranker

VERSION = "2"  # of how pairs are mined and weights are trained
MIN_PAIRS = 50  # fewer say nothing: ten of them would be held out


@dataclass(frozen=True)
class ScoredPair:
    """A held-out pair, with its nDCG@10 before and after."""

    pair: Pair
    before: float
    after: float


@dataclass(frozen=True)
class TuningStep:
    """The weights after a pass of the training, and how they do; the first are the shipped ones."""

    model: LinearModel
    learned: float  # mean nDCG@10 of the pairs that are learned from
    held_out: float


@dataclass(frozen=True)
class TuningResult:
    """What was learned, and whether it was released."""

    asked_release: int
    pairs: Mapping[str, int]  # kind -> how many
    before: RankingModel  # the live one
    after: RankingModel
    steps: Sequence[TuningStep]
    held_out: Sequence[ScoredPair]
    gain: MeasureDifference  # of nDCG@10, on the pairs held out
    golden_gain: MeasureDifference | None  # on the golden questions; None without any
    released: Release | None = None

    @property
    def problem(self) -> str | None:
        """Why the weights are not released; None if they are better."""
        if self.after.to_json() == self.before.to_json():
            return "the weights that it learns are live already"
        if self.gain.verdict != "better":
            return "the held-out pairs are not answered better, by the paired bootstrap"
        if self.golden_gain is not None and self.golden_gain.verdict != "better":
            return "the golden questions are not answered better, by the paired bootstrap"
        return None

    @property
    def gain_by_kind(self) -> dict[str, MeasureDifference]:
        """The gain on held-out pairs of each kind."""
        groups = {kind: [each for each in self.held_out if each.pair.kind == kind] for kind in KINDS}
        return {kind: _compute_gain(group) for kind, group in groups.items() if group}


def refresh(
    lake: Lake, settings: Settings, *, dry_run: bool = False, report: ProgressCallback = ignore_progress
) -> TuningResult:
    """Learn weights, and release them with the content of the live release if they are better.

    A dry run stores nothing.

    Raises:
        NotFound: nothing is released, or there are too few pairs.
        Busy: a release is pinned, or another was published meanwhile.
        ConfigError, InvalidQuery: a golden question is missing or wrong.
        ModelError, EmbeddingUnavailable: the questions cannot be embedded.
    """
    live = find_live_release(lake)
    if live is None:
        raise NotFound("nothing is released yet: run `knowledge index`")
    if live.pin and not dry_run:
        raise Busy(f"{live.pin}: run `knowledge releases --unpin` first, or use --dry-run")
    if settings.evaluation.questions:
        require_measures()
    report("mine", 0, None)
    pairs = mine_pairs(lake, settings)
    if len(pairs) < MIN_PAIRS:
        raise NotFound(
            f"found {len(pairs)} pairs of a question and its answer, {MIN_PAIRS} are needed: index the "
            "history of the code (a source of type git_history), or code with docstrings"
        )
    learned, held_out = (ask_pairs(lake, settings, live, part, report) for part in split_newest(pairs))
    before, batch = load_model(live.ranker), ExampleBatch([example for _, example in held_out])
    shipped = load_model()
    trained = tune_weights(ExampleBatch([example for _, example in learned]), shipped.one_family)
    after = replace(shipped, one_family=trained[-1].model)
    scored = _score_pairs([pair for pair, _ in held_out], batch, before.one_family, after.one_family)
    result = TuningResult(
        asked_release=live.release,
        pairs=Counter(pair.kind for pair, _ in (*learned, *held_out)),
        before=before,
        after=after,
        steps=[_measure_step(step, batch) for step in trained],
        held_out=scored,
        gain=_compute_gain(scored),
        golden_gain=_ask_golden_questions(lake, settings, live, after, report),
    )
    if dry_run or result.problem:
        return result
    return _release(lake, settings, live, result)


def list_worst_losses(result: TuningResult, *, limit: int) -> list[ScoredPair]:
    """The held-out pairs that the learned weights answer worse, the largest loss first."""
    lost = [each for each in result.held_out if each.after < each.before - 1e-9]
    return sorted(lost, key=lambda each: (each.after - each.before, each.pair.newest_first))[:limit]


def describe_weights(model: RankingModel) -> dict[str, float]:
    """Each weight that tuning may change."""
    return {name: model.one_family.weights.get(name, 0.0) for name in (*TUNED, "path")}


def _score_pairs(
    pairs: Sequence[Pair], batch: ExampleBatch, before: LinearModel, after: LinearModel
) -> list[ScoredPair]:
    scores = (judge_places(batch, model).tolist() for model in (before, after))
    return [ScoredPair(*each) for each in zip(pairs, *scores, strict=True)]


def _measure_step(step: TrainingStep, held_out: ExampleBatch) -> TuningStep:
    return TuningStep(step.model, step.learned, float(judge_places(held_out, step.model).mean()))


def _compute_gain(scored: Sequence[ScoredPair]) -> MeasureDifference:
    before = np.array([each.before for each in scored])
    return compute_difference(before, np.array([each.after for each in scored]))


def _ask_golden_questions(
    lake: Lake, settings: Settings, live: Release, after: RankingModel, report: ProgressCallback
) -> MeasureDifference | None:
    if not settings.evaluation.questions:
        return None
    questions = load_golden_set(settings.evaluation.questions).questions
    responses = [
        run_questions(lake, settings, questions, live.tables, ranker, report=report)
        for ranker in (live.ranker, after.to_json())
    ]
    return compare(*responses)[0].by_place[QUALITY_MEASURE]


def _release(lake: Lake, settings: Settings, live: Release, result: TuningResult) -> TuningResult:
    with lake.lock_index():
        newest = find_live_release(lake)
        if newest is None or (newest.tables, newest.ranker, newest.pin) != (live.tables, live.ranker, None):
            raise Busy(f"release {live.release} was replaced while it was asked: run `knowledge tune` again")
        ranker = result.after.to_json()
        released = publish_ranker(lake, ranker, keep=settings.releases.keep)
    return replace(result, released=released)
