"""Trains how likely a result answers, and says how well it tells questions that nothing answers.

    python -m benchmarks.train_confidence --sets FOLDER --mirrors FOLDER [--store FOLDER] [--write]

Asks the questions of `mixed-dev`, in the folder of sets, and of `evaluation/organisation` through the
product, indexed as `benchmarks.train_ranker` does; the same store serves both. The signals of an answer are
what `--explain` shows of its confidence. They are weighed by logistic regression, where questions with and
without an answer count the same in all. Reported is the AUROC of each signal, of all together, and of all
together with weights that were trained without the repository, in both sets. `--write` writes the weights
into the package; run it after `train_ranker --write`, since the first results decide one of the signals.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import mixed, organisation_set, repositories
from benchmarks.mixed_measure import Question, compute_auroc
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.describe import DOUBTED_BELOW
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.rank import MODEL_PATH, ConfidenceSignals

SIGNALS = ConfidenceSignals._fields
OTHERS = "questions of other repositories"
RIDGE = 1.0  # of the squares of weights of standardized signals
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer says of one question."""

    set: str
    repository: str
    question: Question
    signals: Sequence[float]  # `SIGNALS`


def ask_all(options: argparse.Namespace) -> list[Asked]:
    """The questions of both sets; what is not indexed yet is indexed.

    Each repository of `mixed-dev` is asked the questions of the others as well: nothing there answers them,
    and they are as long as those that something answers.
    """
    asked: list[Asked] = []
    paths = sorted((options.sets / "mixed-dev").glob("*.jsonl"))
    for path in paths:
        repository, commit = mixed.read_origin(path)
        checkout = options.store / "mixed-dev" / path.stem
        mixed.check_out(repositories.find_mirror(options.mirrors, repository), commit, checkout)
        mixed.index_checkout(checkout)
        settings = load_settings(checkout / "knowledge.yaml")
        asked += _ask(settings, "mixed-dev", repository, mixed.read_questions(path))
        others = [
            replace(question, targets=())
            for other in paths
            if other != path
            for question in mixed.read_questions(other)
        ]
        asked += _ask(settings, OTHERS, repository, others)
    organisation = organisation_set.index(options.mirrors, options.store / "organisation")
    group = organisation_set.REPOSITORY
    return asked + _ask(organisation.settings, "organisation", group, organisation.questions)


def _ask(settings: Settings, set_: str, repository: str, questions: Iterable[Question]) -> list[Asked]:
    with KnowledgeBase(settings) as knowledge:
        answers = [(each, knowledge.search(each.text, explain=True).explain or {}) for each in questions]
    signals = ((question, explain["confidence"]) for question, explain in answers)
    return [
        Asked(set_, repository, question, [values[name] for name in SIGNALS]) for question, values in signals
    ]


@dataclass(frozen=True, slots=True)
class Weights:
    """Log-odds that a result answers: `base` and the sum of weights and signals."""

    base: float
    signals: np.ndarray  # shape (`SIGNALS`,)

    @classmethod
    def fit(cls, asked: Sequence[Asked]) -> Weights:
        """Logistic regression by Newton's method."""
        values, answered = _read_values(asked)
        mean, spread = values.mean(axis=0), values.std(axis=0) + 1e-9
        inputs = np.hstack([(values - mean) / spread, np.ones((len(values), 1))])
        is_other = np.array([each.set == OTHERS for each in asked])
        groups = (answered, ~answered & ~is_other, is_other)
        importance = sum(
            share * group / group.sum() for share, group in zip((0.5, 0.25, 0.25), groups, strict=True)
        )
        importance = importance * len(values)
        decay = np.diag([RIDGE] * len(SIGNALS) + [0.0])
        fitted = np.zeros(len(SIGNALS) + 1)
        for _ in range(50):
            probabilities = 1 / (1 + np.exp(-inputs @ fitted))
            gradient = inputs.T @ (importance * (answered - probabilities)) - decay @ fitted
            curvature = (importance * probabilities * (1 - probabilities))[:, None]
            fitted += np.linalg.solve(inputs.T @ (inputs * curvature) + decay, gradient)
        weights = fitted[:-1] / spread
        return cls(float(fitted[-1] - weights @ mean), weights)

    def estimate(self, asked: Sequence[Asked]) -> np.ndarray:
        """The confidence of each answer, in [0, 1]."""
        values, _ = _read_values(asked)
        return 1 / (1 + np.exp(-(self.base + values @ self.signals)))


def _read_values(asked: Sequence[Asked]) -> tuple[np.ndarray, np.ndarray]:
    """Signals, shape (questions, `SIGNALS`), and which questions have an answer."""
    return np.array([each.signals for each in asked]), np.array(
        [bool(each.question.targets) for each in asked]
    )


def estimate_left_out(asked: Sequence[Asked]) -> np.ndarray:
    """The confidence of each answer, with weights that were trained without its repository."""
    confidences = np.zeros(len(asked))
    for repository in sorted({each.repository for each in asked}):
        weights = Weights.fit([each for each in asked if each.repository != repository])
        own = [at for at, each in enumerate(asked) if each.repository == repository]
        confidences[own] = weights.estimate([asked[at] for at in own])
    return confidences


def format_auroc(values: np.ndarray, answered: np.ndarray) -> str:
    """AUROC with its 95 % interval, by the bootstrap over questions of each kind."""
    yes, no = values[answered], values[~answered]
    draw = np.random.default_rng(0)
    resampled = [
        compute_auroc(draw.choice(yes, len(yes)).tolist(), draw.choice(no, len(no)).tolist())
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(resampled, (0.025, 0.975))
    return f"{compute_auroc(yes.tolist(), no.tolist()):.3f} ({low:.3f} to {high:.3f})"


def show(asked: Sequence[Asked], weights: Weights) -> None:
    """Print AUROC by set, and how many questions of each kind are doubted."""
    values, answered = _read_values(asked)
    left_out = estimate_left_out(asked)
    columns: dict[str, np.ndarray] = {name: values[:, at] for at, name in enumerate(SIGNALS)}
    columns |= {"all": weights.estimate(asked), "all, left out": left_out}
    table = Table("", "questions", "without an answer", *columns, "doubted, left out: answered, without")
    for name in ("mixed-dev", "organisation"):
        own = np.array([each.set == name for each in asked])
        doubted = [f"{(left_out[own & kind] < DOUBTED_BELOW).mean():.2f}" for kind in (answered, ~answered)]
        aurocs = [format_auroc(column[own], answered[own]) for column in columns.values()]
        counts = (str(own.sum()), str((own & ~answered).sum()))
        table.add_row(name, *counts, *aurocs, ", ".join(doubted))
    Console(width=200).print(table)


def main() -> None:
    """Train, print, and write the weights if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", type=Path, required=True, help="folder of evaluation sets")
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git repositories")
    parser.add_argument("--store", type=Path, default=Path(".knowledge/ranker"))
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    options = parser.parse_args()
    if not (options.sets / "mixed-dev").is_dir():
        parser.error(f"there is no mixed-dev in {options.sets}: name the folder of the sets")
    asked = ask_all(options)
    weights = Weights.fit(asked)
    show(asked, weights)
    written = {"base": weights.base, **dict(zip(SIGNALS, weights.signals.tolist(), strict=True))}
    written = {name: round(value, 3) for name, value in written.items()}
    Console().print(written)
    if options.write:
        model: dict[str, Any] = json.loads(MODEL_PATH.read_text())
        MODEL_PATH.write_text(json.dumps(model | {"confidence": written}, indent=2) + "\n")


if __name__ == "__main__":
    main()
