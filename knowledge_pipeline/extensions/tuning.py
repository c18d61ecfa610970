"""Tune: learns the ranker's weights of code alone from pairs, and releases them where they are better.

They are better where both the pairs that were held out and the golden questions, if there are any, are
answered better by the paired bootstrap (`evaluation.scores.compare`). The same store gives the same weights.
Pairs are also proposed as golden questions, and steps of a search are left out to see what each brings.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from knowledge_pipeline.config.settings import QuerySettings, Settings
from knowledge_pipeline.errors import Busy, NotFound
from knowledge_pipeline.evaluation.golden import GoldenQuestion, load_golden_set
from knowledge_pipeline.evaluation.scores import (
    QUALITY_MEASURE,
    MeasureDifference,
    QuestionResponse,
    compare,
    compute_difference,
    require_measures,
)
from knowledge_pipeline.extensions.questions import ask_pairs
from knowledge_pipeline.extensions.tuning_examples import KINDS, Example, Pair, mine_pairs, split_newest
from knowledge_pipeline.query.features import FEATURES, TEXT_FEATURES
from knowledge_pipeline.query.rank import LinearModel, RankingModel, load_model
from knowledge_pipeline.stages.evaluate import run_questions
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release, find_live_release, publish_ranker

ALL_FEATURES = (*FEATURES, *TEXT_FEATURES)

TUNED = ("coherence", "symbol", "file_name")
"""What a corpus may change."""

GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0)
PRIOR_PAIRS = 6.0  # answered at rank 1 instead of not at all: what a change of a weight by 1 has to bring

Weights = Mapping[str, float]
Values = Mapping[str, np.ndarray]
"""Measure -> its value for each question; NaN where it does not apply."""


class ExampleBatch:
    """All questions as flat arrays: one pass judges a model on all of them."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.groups = np.array([example.group for example in examples])
        self.sets = np.array([example.set for example in examples])
        self._features = np.concatenate([example.features for example in examples])
        sizes = [len(example.features) for example in examples]
        self._question = np.repeat(np.arange(len(examples)), sizes)
        starts = np.cumsum([0, *(example.files.max(initial=-1) + 1 for example in examples)])
        numbered = zip(examples, starts, strict=False)
        self._file = np.concatenate([example.files + start for example, start in numbered])
        names = sorted({view.name for example in examples for view in example.views})
        self._views = [_FlatView(name, examples, sizes) for name in names]

    def judge(self, weights: Weights, further_chunk: float) -> Values:
        """nDCG@10 of each question, over places and as the results are returned."""
        scores = self._features @ np.array([weights.get(name, 0.0) for name in ALL_FEATURES])
        scores -= further_chunk * _rank_within(self._file, scores)
        ranks, values = _rank_within(self._question, scores), dict[str, np.ndarray]()
        for view in self._views:
            values |= view.judge(ranks)
        return values


class _FlatView:
    """One view of all questions that have it."""

    def __init__(self, name: str, examples: Sequence[Example], sizes: Sequence[int]) -> None:
        self._name = name
        views = [next((view for view in example.views if view.name == name), None) for example in examples]
        starts = np.cumsum([0, *(len(view.gains) if view else 0 for view in views)])
        places = [
            view.places + start if view else np.full(size, -1)
            for view, size, start in zip(views, sizes, starts, strict=False)
        ]
        numbers = np.concatenate(places)
        judged = np.flatnonzero(numbers >= 0)
        self._order = judged[np.argsort(numbers[judged], kind="stable")]
        self._starts = np.flatnonzero(np.diff(numbers[self._order], prepend=-1))
        self._gains = np.concatenate([view.gains for view in views if view])
        self._question = np.repeat(np.arange(len(views)), [len(view.gains) if view else 0 for view in views])
        self._ideal = np.array([view.ideal if view else np.nan for view in views])

    def judge(self, ranks: np.ndarray) -> Values:
        """Places are ranked by their first hit; `as returned` other hits take up ranks as well."""
        first = np.minimum.reduceat(ranks[self._order], self._starts)
        over = _rank_within(self._question, -first / (1.0 + first.max(initial=0.0)))
        return {self._name: self._discount(over), f"{self._name}, as returned": self._discount(first)}

    def _discount(self, ranks: np.ndarray) -> np.ndarray:
        gains = np.where(ranks < 10, self._gains / np.log2(ranks + 2), 0.0)
        gained = np.bincount(self._question, gains, minlength=len(self._ideal))
        return np.minimum(gained / self._ideal, 1.0)


def _rank_within(keys: np.ndarray, scores: np.ndarray) -> np.ndarray:
    order = np.lexsort((-scores, keys))
    positions = np.arange(len(keys))
    is_start = np.diff(keys[order], prepend=-1) != 0
    ranks = np.empty(len(keys))
    ranks[order] = positions - np.maximum.accumulate(np.where(is_start, positions, 0))
    return ranks


@dataclass(frozen=True)
class TuningStep:
    """The weights after a pass of the training, and how they do; the first are the shipped ones."""

    model: LinearModel
    learned: float  # mean nDCG@10 of the examples that are learned from
    held_out: float = math.nan  # of those that are held out


def tune_weights(batch: ExampleBatch, shipped: LinearModel) -> list[TuningStep]:
    """Weights near the shipped ones that are better on the batch: the first, then those after each pass.

    Each weight in turn takes the value of a grid that is best, until none changes (Metzler & Croft 2007,
    https://doi.org/10.1007/s10791-006-9019-z). It pays for each step away from the shipped weights, so that
    few pairs change little. It leaves alone what the form of mined pairs decides, whatever the corpus is: no
    answer is a test, a docstring has one chunk, which never is a further one of its file, and a question
    stands in the text that answers it. (docs/decisions/ranking.md)
    """
    count = len(batch.groups)
    steps: list[TuningStep] = []

    def evaluate(weights: Weights) -> float:
        away = sum(abs(weights[name] - shipped.weights.get(name, 0.0)) for name in TUNED)
        gain = judge_places(batch, replace(shipped, weights=weights)).mean()
        return float(gain) - PRIOR_PAIRS * away / count

    def record(weights: Weights) -> None:
        model = replace(shipped, weights=weights)
        steps.append(TuningStep(model, float(judge_places(batch, model).mean())))

    record(shipped.weights)
    weights = shipped.weights
    best, before = evaluate(weights), float("-inf")
    while best > before:
        before = best
        for name, value in product(TUNED, GRID):
            changed = {**weights, name: value}
            changed["path"] = changed.get("symbol", 0.0)  # few questions name a file
            if (gained := evaluate(changed)) > best + 1e-9:
                best, weights = gained, changed
        if best > before:
            record(weights)
    return steps


def judge_places(batch: ExampleBatch, model: LinearModel) -> np.ndarray:
    """nDCG@10 of each question by place: by definition where its answers name one, else by file."""
    values = batch.judge(model.weights, model.further_chunk)
    by_file = values.get("file", np.full(len(batch.groups), np.nan))
    by_symbol = values.get("symbol, as returned", np.full(len(batch.groups), np.nan))
    return np.where(np.isnan(by_symbol), by_file, by_symbol)


VERSION = "2"  # of how pairs are mined and weights are trained
MIN_PAIRS = 50  # fewer say nothing: ten of them would be held out


@dataclass(frozen=True)
class ScoredPair:
    """A held-out pair, with its nDCG@10 before and after."""

    pair: Pair
    before: float
    after: float


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
        groups = {kind: [it for it in self.held_out if it.pair.kind == kind] for kind in KINDS}
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
    scores = (judge_places(batch, model.one_family).tolist() for model in (before, after))
    scored = [ScoredPair(pair, *values) for (pair, _), *values in zip(held_out, *scores, strict=True)]
    result = TuningResult(
        asked_release=live.release,
        pairs=Counter(pair.kind for pair, _ in (*learned, *held_out)),
        before=before,
        after=after,
        steps=[replace(step, held_out=float(judge_places(batch, step.model).mean())) for step in trained],
        held_out=scored,
        gain=_compute_gain(scored),
        golden_gain=_ask_golden_questions(lake, settings, live, after, report),
    )
    if dry_run or result.problem:
        return result
    return _release(lake, settings, live, result)


def list_worst_losses(result: TuningResult, *, limit: int) -> list[ScoredPair]:
    """The held-out pairs that the learned weights answer worse, the largest loss first."""
    lost = (scored for scored in result.held_out if scored.after < scored.before - 1e-9)
    return sorted(lost, key=lambda scored: (scored.after - scored.before, scored.pair.newest_first))[:limit]


def describe_weights(model: RankingModel) -> dict[str, float]:
    """Each weight that tuning may change."""
    return {name: model.one_family.weights.get(name, 0.0) for name in (*TUNED, "path")}


def _compute_gain(scored: Sequence[ScoredPair]) -> MeasureDifference:
    before, after = np.array([(pair.before, pair.after) for pair in scored]).T
    return compute_difference(before, after)


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


_HEADER = """\
# Golden questions that `knowledge eval --mine` proposes; nobody has reviewed them yet.
# Each was taken from what is indexed: is it what someone would ask, and are these all the answers?
# The words of a docstring find their own definition: put them as someone would who has not read it.
# Take the leading "# " off those that are good, put the others right or delete them, and name this file in
# evaluation.questions. Until then it holds no question. docs/evaluation.md explains the format.
questions:
"""


def select_proposals(pairs: Iterable[Pair], *, limit: int) -> list[Pair]:
    """At most `limit` pairs, taken from each kind in turn, judged results first: people asked those."""
    pairs = list(pairs)
    by_kind = {kind: [pair for pair in pairs if pair.kind == kind] for kind in reversed(KINDS)}
    longest = max(map(len, by_kind.values()), default=0)
    in_turn = (of_kind[at] for at in range(longest) for of_kind in by_kind.values() if at < len(of_kind))
    return [pair for _, pair in zip(range(limit), in_turn, strict=False)]


def format_proposals(pairs: Sequence[Pair]) -> str:
    """The file in the golden format, for people to review: each pair with where it is from, as a comment.

    So a file that nobody has reviewed holds no question: loading it is an error that says so, and nothing is
    scored by it.
    """
    text = _HEADER
    for pair in pairs:
        date = f", {pair.made_at:%Y-%m-%d}" if pair.made_at else ""
        source = pair.question.filters.get("sources")
        entry: list[str] = [f"- question: {json.dumps(pair.question.text, ensure_ascii=False)}"]
        entry.append(f"  type: {pair.question.type}")
        entry += [f"  source: {json.dumps(source[0])}"] if source else []
        entry.append("  answers:")
        for answer in pair.question.answers:
            values: dict[str, Any] = {"path": answer.path}
            values |= {"symbol": answer.symbol} if answer.symbol else {}
            values |= {"relevance": answer.relevance} if answer.relevance != 1 else {}
            entry.append(f"    - {json.dumps(values, ensure_ascii=False)}")
        lines = [f"{pair.kind} of {' '.join(pair.origin.split())}{date}", *entry]
        text += "\n" + "".join(f"  # {line}\n" for line in lines)
    return text


FUSED_STEP = "fused"  # the baseline of the other steps

_DISABLED = {"hyde": False, "expansion": "off", "decompose": "off"}
_STEP_BY_SETTING = {"hyde": "hyde", "expansion": "expansion", "decompose": "decompose", "rerank": "reranked"}
"""Key of the settings -> name of the step that it adds."""

ProgressForStep = Callable[[str], ProgressCallback]
"""The report of a step, by its name."""


def build_step_settings(query: QuerySettings) -> dict[str, QuerySettings]:
    """Step -> settings: each search alone, both, and both with each further step that is enabled.

    `vector` and `bm25` alone take no feedback. After `fused` come `hyde`, `expansion`, `decompose` and
    `reranked`, and `all` where several of them are enabled.
    """
    no_reranking = query.rerank.model_copy(update={"types": ()})
    fused = query.model_copy(update={**_DISABLED, "rerank": no_reranking})
    alone = fused.model_copy(update={"fusion": "weighted", "feedback": 0.0})
    further = {
        step: fused.model_copy(update={name: getattr(query, name)})
        for name, step in _STEP_BY_SETTING.items()
        if getattr(query, name) != getattr(fused, name)
    }
    return {
        "vector": alone.model_copy(update={"vector_weight": 1.0}),
        "bm25": alone.model_copy(update={"vector_weight": 0.0}),
        FUSED_STEP: fused,
        **further,
        **({"all": query} if len(further) > 1 else {}),
    }


def run_steps(
    lake: Lake,
    settings: Settings,
    questions: Sequence[GoldenQuestion],
    tables: Mapping[str, int],
    ranker: str | None,
    *,
    progress_for: ProgressForStep,
) -> dict[str, list[QuestionResponse]]:
    """Step -> responses to the same questions, by the same index.

    Raises `InvalidQuery`, `EmbeddingUnavailable` and `StoreError` as `run_questions` does.
    """
    responses: dict[str, list[QuestionResponse]] = {}
    for step, query in build_step_settings(settings.query).items():
        changed = settings.model_copy(update={"query": query})
        responses[step] = run_questions(lake, changed, questions, tables, ranker, report=progress_for(step))
    return responses
