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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import repositories, retrieval
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.evaluation.golden_files import load_golden_set
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.query.search.features import FEATURES
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.ranker import MODEL_PATH
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.tuning import examples
from knowledge_pipeline.stages.tuning.examples import (
    ANSWER,
    Example,
    build_example,
    judge_by_file,
    judge_by_symbol,
)
from knowledge_pipeline.stages.tuning.training import (
    REPEAT_FACTORS,
    SIGNS,
    TRAINED,
    ExampleBatch,
    Values,
    Weights,
    ascend,
)
from knowledge_pipeline.store.lake import Lake

HERE = Path(__file__).resolve().parents[1]
OWN = "this repository"
STARTS = (0.06, 0.2)  # of each weight: the better of two ascents counts
PRICE = 0.01  # of a weight of 1, in nDCG: a weight that does not pay it stays at 0
MEASURES = {OWN: ("file", "symbol, as returned"), "repositories-dev": ("file", "file, as returned")}
"""What is trained for, by set; of other sets files alone."""

IMPORTANCE = {"repositories-dev": 3.0}
"""Of a set, 1 where it is not named: this one has ten repositories, each of the others two or none."""


def train(
    batch: ExampleBatch, groups: Collection[str], trained: Sequence[str] = TRAINED
) -> tuple[Weights, float]:
    """Weights and the factor of repeats that are best on some groups."""

    def evaluate(weights: Weights, factor: float) -> float:
        gain = compute_mean(batch, batch.judge(weights, factor), groups)
        return gain - PRICE * sum(abs(weights.get(name, 0.0)) for name in trained)

    starts = ({name: start * SIGNS.get(name, 1) for name in trained} for start in STARTS)
    found = [ascend(evaluate, start, REPEAT_FACTORS[0], trained) for start in starts]
    return max(found, key=lambda each: evaluate(*each))


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
    built: list[Example] = []
    for name in ("repositories-dev", "sweqa-dev"):
        built += _keep(options.store, name, lambda name=name: _ask_repositories(options, name))
    for folder in sorted(path.parent for path in options.sets.glob("*/corpus.jsonl")):
        built += _keep(options.store, folder.name, lambda folder=folder: _ask_documents(options, folder))
    return built + _keep(options.store, OWN.replace(" ", "-"), lambda: _ask_own(options))


def _keep(store: Path, name: str, collect: Callable[[], list[Example]]) -> list[Example]:
    """What was collected before, in a file that only this script reads."""
    path = store / f"{name}.examples"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(collect()))
    return pickle.loads(path.read_bytes())


def collect_hits(
    settings: Settings,
    questions: Iterable[str],
    type: SearchType,
    filters: Filters = Filters(),  # noqa: B008 - frozen
) -> list[tuple[list[Hit[IndexedChunk]], ParsedQuery]]:
    """The fused hits of each question, before they are ranked."""
    with closing(Engine(settings, Lake(settings.store))) as engine:
        return examples.collect_hits(engine, questions, type, filters)


def _ask_repositories(options: argparse.Namespace, name: str) -> list[Example]:
    questions: defaultdict[tuple[str, str, str], list[tuple[str, list[str]]]] = defaultdict(list)
    for line in (options.sets / name / "questions.jsonl").read_text().splitlines():
        row = json.loads(line)
        places = [*row.get("relevant", ()), *row.get("secondary", ()), *row.get("spans", ())]
        paths = [place if isinstance(place, str) else place["path"] for place in places]
        key = row["repository"], row["commit"], row.get("folder") or ""
        questions[key].append((row.get("query") or row["question"], paths))
    built: list[Example] = []
    for (repository, commit, folder), asked in questions.items():
        place = options.store / name / repository.replace("/", "+")
        mirror = repositories.find_mirror(options.mirrors, repository)
        repositories.write_files(mirror, commit, folder, place / "files")
        found = collect_hits(repositories.index_repository(place, None), (text for text, _ in asked), "code")
        for (hits, query), (_, paths) in zip(found, asked, strict=True):
            gains = {"file": dict.fromkeys(paths, 1.0)}
            built.append(build_example((name, repository), hits, query, judge_by_file(paths), gains))
    return built


def _ask_documents(options: argparse.Namespace, folder: Path) -> list[Example]:
    one = retrieval.Set(folder, options.store / folder.name)
    settings = retrieval.indexed(one)
    pipeline.refresh_release(Lake(settings.store), settings)
    questions = one.questions()
    found = collect_hits(settings, (question.text for question in questions), "semantic")
    built: list[Example] = []
    for (hits, query), question in zip(found, questions, strict=True):
        gains = {answer.path: float(answer.relevance) for answer in question.answers}
        built.append(
            build_example((folder.name, folder.name), hits, query, judge_by_file(gains), {"file": gains})
        )
    return built


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
    built: list[Example] = []
    for (hits, query), question in zip(found, golden, strict=True):
        gains = {"file": {answer.path: 1.0 for answer in question.answers}, "symbol": {ANSWER: 1.0}}
        built.append(build_example((OWN, OWN), hits, query, judge_by_symbol(question.answers), gains))
    return built


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


def show_ceilings(examples: Sequence[Example], judged: Values) -> None:
    """Print for each set what the best order of its hits would reach, and what each of both steps loses."""
    table = Table("", "measure", "as ranked", "best order", "lost by order", "lost by what was not found")
    names = np.array([each.set for each in examples])
    for name in sorted(set(names.tolist())):
        for measure in MEASURES.get(name, ("file",)):
            chosen = names == name
            view = measure.partition(",")[0]
            best = np.mean([compute_ceiling(each, view) for each in examples if each.set == name])
            ranked = judged[measure][chosen].mean()
            table.add_row(name, measure, *(f"{each:.3f}" for each in (ranked, best, best - ranked, 1 - best)))
    Console(width=150).print(table)


def compute_ceiling(example: Example, name: str) -> float:
    """nDCG@10 of the best order of a question's hits, in one view."""
    view = next(each for each in example.views if each.name == name)
    best = sorted(view.gains.tolist(), reverse=True)[:10]
    return min(1.0, sum(gain / np.log2(rank + 1) for rank, gain in enumerate(best, 1)) / view.ideal)


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
    built = collect_examples(options)
    batch = ExampleBatch(built)
    groups = _list_groups(batch)
    weights, factor = train(batch, groups)
    columns = {
        "fused": batch.judge({}, 1.0),
        "trained": batch.judge(weights, factor),
        "left out": leave_out(batch, groups),
    }
    show(batch, columns)
    show_ablation(batch, weights, factor)
    show_ceilings(built, columns["trained"])
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
