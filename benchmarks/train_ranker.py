"""Trains the ranker's weights on development sets, and says what they gain on repositories left out.

    python -m benchmarks.train_ranker --sets FOLDER --mirrors FOLDER [--store FOLDER] [--write]

The folder of sets has `repositories-dev`, `sweqa-dev`, and sets in BEIR layout; this repository's golden
questions are asked as well. Mirrors are as in `benchmarks.repositories`. What was found is kept in the
store, so that a second run trains at once. `--write` writes the weights into the package.

Training is coordinate ascent (Metzler & Croft 2007, https://doi.org/10.1007/s10791-006-9019-z) on the mean
nDCG@10 of the sets: each weight in turn takes the value of a grid that is best, until none changes. It
is deterministic. The sign of each weight is fixed, and a weight has to pay for its size.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import repositories, retrieval
from benchmarks.ranker_examples import (
    ANSWER,
    Example,
    build_example,
    collect_hits,
    judge_by_file,
    judge_by_symbol,
)
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.evaluation.golden_files import load_golden_set
from knowledge_pipeline.query.search.features import FEATURES
from knowledge_pipeline.query.search.ranker import MODEL_PATH
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake

HERE = Path(__file__).resolve().parents[1]
OWN = "this repository"
TRAINED = ("coherence", "symbol", "file_name", "role")
"""No question of the sets names a file, so `path` gets the weight of `symbol`."""

GRID = (0.0, 0.03, 0.06, 0.09, 0.12, 0.16, 0.2, 0.3)
REPEAT_FACTORS = (0.9, 1.0, 0.95)  # less would take from readers of a whole list what the first ten gain
STARTS = (0.06, 0.2)  # of each weight: the better of two ascents counts
_SIGNS = {"role": -1}
PRICE = 0.01  # of a weight of 1, in nDCG: a weight that does not pay it stays at 0
MEASURES = {OWN: ("file", "symbol, as returned"), "repositories-dev": ("file", "file, as returned")}
"""What is trained for, by set; of other sets files alone."""

IMPORTANCE = {"repositories-dev": 3.0}
"""Of a set, 1 where it is not named: this one has ten repositories, each of the others two or none."""

Weights = Mapping[str, float]
Values = Mapping[str, np.ndarray]
"""Measure -> its value for each question; NaN where it does not apply."""


class ExampleBatch:
    """All questions as flat arrays: one pass judges a model on all of them."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.groups = np.array([each.group for each in examples])
        self.sets = np.array([each.set for each in examples])
        self._features = np.concatenate([each.features for each in examples])
        sizes = [len(each.features) for each in examples]
        self._question = np.repeat(np.arange(len(examples)), sizes)
        starts = np.cumsum([0, *(each.files.max(initial=-1) + 1 for each in examples)])
        self._file = np.concatenate(
            [each.files + start for each, start in zip(examples, starts, strict=False)]
        )
        self._views = {
            name: _FlatView(name, examples, sizes)
            for name in sorted({view.name for each in examples for view in each.views})
        }

    def list_sets(self) -> list[str]:
        """The sets, by name."""
        return sorted(set(self.sets.tolist()))

    def judge(self, weights: Weights, repeat_factor: float) -> Values:
        """nDCG@10 of each question, over places and as the results are returned."""
        shares = np.array([1.0, *(weights.get(name, 0.0) for name in FEATURES[1:])])
        scores = (self._features @ shares).clip(min=0.0)
        if repeat_factor < 1.0:
            scores *= repeat_factor ** _rank_within(self._file, scores)
        ranks = _rank_within(self._question, scores)
        return {
            measure: values for view in self._views.values() for measure, values in view.judge(ranks).items()
        }


class _FlatView:
    """One view of all questions that have it."""

    def __init__(self, name: str, examples: Sequence[Example], sizes: Sequence[int]) -> None:
        self._name = name
        found = [next((view for view in each.views if view.name == name), None) for each in examples]
        starts = np.cumsum([0, *(len(view.gains) if view else 0 for view in found)])
        places = [
            view.places + start if view else np.full(size, -1)
            for view, size, start in zip(found, sizes, starts, strict=False)
        ]
        place = np.concatenate(places)
        judged = np.flatnonzero(place >= 0)
        self._order = judged[np.argsort(place[judged], kind="stable")]
        self._starts = np.flatnonzero(np.diff(place[self._order], prepend=-1))
        self._gains = np.concatenate([view.gains for view in found if view])
        self._question = np.repeat(np.arange(len(found)), [len(view.gains) if view else 0 for view in found])
        self._ideal = np.array([view.ideal if view else np.nan for view in found])

    def judge(self, ranks: np.ndarray) -> Values:
        """Places are ranked by their first hit; `as returned` other hits take up ranks as well."""
        first = np.minimum.reduceat(ranks[self._order], self._starts)
        over = _rank_within(self._question, -first / (1.0 + first.max(initial=0.0)))
        return {self._name: self._discount(over), f"{self._name}, as returned": self._discount(first)}

    def _discount(self, ranks: np.ndarray) -> np.ndarray:
        gains = np.where(ranks < 10, self._gains / np.log2(ranks + 2), 0.0)
        found = np.bincount(self._question, gains, minlength=len(self._ideal))
        return np.minimum(found / self._ideal, 1.0)


def _rank_within(keys: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The rank of each score among those of its key, from 0; scores are between -1 and 3."""
    order = np.argsort(4.0 * keys - scores, kind="stable")
    positions = np.arange(len(keys))
    is_start = np.diff(keys[order], prepend=-1) != 0
    ranks = np.empty(len(keys))
    ranks[order] = positions - np.maximum.accumulate(np.where(is_start, positions, 0))
    return ranks


def train(
    batch: ExampleBatch, groups: Collection[str], trained: Sequence[str] = TRAINED
) -> tuple[Weights, float]:
    """Weights and the factor of repeats that are best on some groups."""

    def evaluate(weights: Weights, factor: float) -> float:
        gain = compute_mean(batch, batch.judge(_complete(weights), factor), groups)
        return gain - PRICE * sum(map(abs, weights.values()))

    found = [_ascend(evaluate, trained, start) for start in STARTS]
    weights, factor = max(found, key=lambda each: evaluate(*each))
    return _complete(weights), factor


def _ascend(
    evaluate: Callable[[Weights, float], float], trained: Sequence[str], start: float
) -> tuple[Weights, float]:
    weights: Weights = {name: start * _SIGNS.get(name, 1) for name in trained}
    factor, before = REPEAT_FACTORS[0], -1.0
    best = evaluate(weights, factor)
    while best > before:
        before = best
        for name in trained:
            for value in GRID:
                changed = {**weights, name: value * _SIGNS.get(name, 1)}
                if (gained := evaluate(changed, factor)) > best + 1e-9:
                    best, weights = gained, changed
        for each in REPEAT_FACTORS:
            if (gained := evaluate(weights, each)) > best + 1e-9:
                best, factor = gained, each
    return weights, factor


def _complete(weights: Weights) -> Weights:
    return {**weights, "path": weights.get("symbol", 0.0)}


def compute_mean(batch: ExampleBatch, values: Values, groups: Collection[str]) -> float:
    """The mean nDCG@10 of the sets' questions that are of some groups, by the importance of the sets."""
    is_chosen = np.isin(batch.groups, list(groups))
    means: dict[str, float] = {}
    for name in batch.list_sets():
        chosen = is_chosen & (batch.sets == name)
        if chosen.any():
            measures = MEASURES.get(name, ("file",))
            means[name] = float(np.mean([values[each][chosen].mean() for each in measures]))
    return float(np.average([*means.values()], weights=[IMPORTANCE.get(name, 1.0) for name in means]))


def leave_out(batch: ExampleBatch, groups: Sequence[str], trained: Sequence[str] = TRAINED) -> Values:
    """Each group's questions as judged with weights that were trained on all other groups."""
    judged: dict[str, np.ndarray] = {}
    for group in groups:
        weights, factor = train(batch, [each for each in groups if each != group], trained)
        for measure, values in batch.judge(weights, factor).items():
            kept = judged.setdefault(measure, np.full(len(values), np.nan))
            kept[batch.groups == group] = values[batch.groups == group]
    return judged


def estimate_change(before: np.ndarray, after: np.ndarray, *, draws: int = 2000) -> str:
    """The mean change with its 95 % interval by the paired bootstrap, in points."""
    change = 100 * (after - before)[~np.isnan(after)]
    drawn = np.random.default_rng(0).choice(change, (draws, len(change))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{change.mean():+.1f} ({low:+.1f} to {high:+.1f})"


def collect_examples(options: argparse.Namespace) -> list[Example]:
    """The questions of all sets, indexed and asked where the store does not have them yet."""
    examples: list[Example] = []
    for name in ("repositories-dev", "sweqa-dev"):
        examples += _keep(options.store, name, lambda name=name: _ask_repositories(options, name))
    for folder in sorted(path.parent for path in options.sets.glob("*/corpus.jsonl")):
        examples += _keep(options.store, folder.name, lambda folder=folder: _ask_documents(options, folder))
    return examples + _keep(options.store, OWN.replace(" ", "-"), lambda: _ask_own(options))


def _keep(store: Path, name: str, collect: Callable[[], list[Example]]) -> list[Example]:
    """What was collected before, in a file that only this script reads."""
    path = store / f"{name}.examples"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(collect()))
    return pickle.loads(path.read_bytes())


def _ask_repositories(options: argparse.Namespace, name: str) -> list[Example]:
    questions: defaultdict[tuple[str, str, str], list[tuple[str, list[str]]]] = defaultdict(list)
    for line in (options.sets / name / "questions.jsonl").read_text().splitlines():
        row = json.loads(line)
        places = [*row.get("relevant", ()), *row.get("secondary", ()), *row.get("spans", ())]
        paths = [place if isinstance(place, str) else place["path"] for place in places]
        key = row["repository"], row["commit"], row.get("folder") or ""
        questions[key].append((row.get("query") or row["question"], paths))
    examples: list[Example] = []
    for (repository, commit, folder), asked in questions.items():
        place = options.store / name / repository.replace("/", "+")
        mirror = repositories.find_mirror(options.mirrors, repository)
        repositories.write_files(mirror, commit, folder, place / "files")
        found = collect_hits(repositories.index_repository(place, None), (text for text, _ in asked), "code")
        for (hits, query), (_, paths) in zip(found, asked, strict=True):
            gains = {"file": dict.fromkeys(paths, 1.0)}
            examples.append(build_example((name, repository), hits, query, judge_by_file(paths), gains))
    return examples


def _ask_documents(options: argparse.Namespace, folder: Path) -> list[Example]:
    one = retrieval.Set(folder, options.store / folder.name)
    settings = retrieval.indexed(one)
    pipeline.refresh_release(Lake(settings.store), settings)
    questions = one.questions()
    found = collect_hits(settings, (question.text for question in questions), "semantic")
    examples: list[Example] = []
    for (hits, query), question in zip(found, questions, strict=True):
        gains = {answer.path: float(answer.relevance) for answer in question.answers}
        examples.append(
            build_example((folder.name, folder.name), hits, query, judge_by_file(gains), {"file": gains})
        )
    return examples


def _ask_own(options: argparse.Namespace) -> list[Example]:
    commit = subprocess.run(
        ["git", "-C", HERE, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    place = options.store / "own"
    repositories.write_files(HERE, commit.stdout.strip(), "", place / "files")
    golden = load_golden_set([HERE / "evaluation" / "knowledge_pipeline.yaml"]).questions
    settings = repositories.index_repository(place, None)
    inside = Filters(paths=("knowledge_pipeline/",))
    found = collect_hits(settings, (question.text for question in golden), "code", inside)
    examples: list[Example] = []
    for (hits, query), question in zip(found, golden, strict=True):
        gains = {"file": {answer.path: 1.0 for answer in question.answers}, "symbol": {ANSWER: 1.0}}
        examples.append(build_example((OWN, OWN), hits, query, judge_by_symbol(question.answers), gains))
    return examples


def show(batch: ExampleBatch, columns: Mapping[str, Values]) -> None:
    """Print each group's means, and what the last two columns change against the first."""
    table = Table("", "measure", "questions", *columns, *(f"change, {name}" for name in [*columns][1:]))
    first, *_ = columns.values()
    chosen = {name: batch.sets == name for name in batch.list_sets()}
    chosen |= {group: batch.groups == group for group in _list_groups(batch) if "/" in group}
    for name, in_group in chosen.items():
        for measure in first:
            values = [column[measure][in_group] for column in columns.values()]
            if np.isnan(values[0]).all():
                continue
            means = [f"{np.nanmean(each):.3f}" for each in values]
            changes = [estimate_change(values[0], each) for each in values[1:]]
            table.add_row(name, measure, str(int((~np.isnan(values[0])).sum())), *means, *changes)
    Console(width=150).print(table)


def _list_groups(batch: ExampleBatch) -> list[str]:
    return sorted(set(batch.groups.tolist()))


def show_ablation(batch: ExampleBatch, weights: Weights, factor: float) -> None:
    """Print what each set's targeted measures are without each feature, the others as they are."""
    judged = {"all": batch.judge(weights, factor)}
    judged |= {f"without {name}": batch.judge({**weights, name: 0.0}, factor) for name in TRAINED}
    judged["further chunks in full"] = batch.judge(weights, 1.0)
    measured = [(name, each) for name in batch.list_sets() for each in MEASURES.get(name, ("file",))]
    table = Table("", *(f"{name}, {measure}" for name, measure in measured))
    for title, values in judged.items():
        means = (values[measure][batch.sets == name].mean() for name, measure in measured)
        table.add_row(title, *(f"{mean:.3f}" for mean in means))
    Console(width=150).print(table)


def main() -> None:
    """Train, print, and write the weights if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", type=Path, required=True, help="folder of evaluation sets")
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git repositories")
    parser.add_argument("--store", type=Path, default=Path(".knowledge/ranker"))
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    options = parser.parse_args()
    if not (options.sets / "repositories-dev" / "questions.jsonl").is_file():
        parser.error(f"there is no repositories-dev in {options.sets}: name the folder of the sets")
    batch = ExampleBatch(collect_examples(options))
    groups = _list_groups(batch)
    weights, factor = train(batch, groups)
    columns = {
        "fused": batch.judge({}, 1.0),
        "trained": batch.judge(weights, factor),
        "left out": leave_out(batch, groups),
    }
    show(batch, columns)
    show_ablation(batch, weights, factor)
    content: dict[str, Any] = {
        "trained": datetime.now(UTC).date().isoformat(),
        "sets": {group: int((batch.groups == group).sum()) for group in groups},
        "mean_ndcg": {
            name: round(compute_mean(batch, values, groups), 4) for name, values in columns.items()
        },
        "weights": {name: weights[name] for name in FEATURES[1:]},
        "repeat_factor": factor,
    }
    text = json.dumps(content, indent=2) + "\n"
    Console().print(text, highlight=False)
    if options.write:
        MODEL_PATH.write_text(text)


if __name__ == "__main__":
    main()
