"""What `knowledge tune` gains on pairs that were held out, and on questions that were not mined.

    python -m benchmarks.tuning SET FOLDER...

Each FOLDER has a `knowledge.yaml` over a checkout named after its repository, indexed with its history. SET
is a set as in `benchmarks.repositories`, whose questions about these repositories are asked before and after,
as type `code`; the golden questions of a `knowledge.yaml` are asked as well. Nothing is stored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import repositories
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.evaluation.scores import (
    QUALITY_MEASURE,
    MeasureDifference,
    compute_difference,
    judge_by_file,
    score_questions,
)
from knowledge_pipeline.extensions import tuning as tune
from knowledge_pipeline.query.rank import RankingModel
from knowledge_pipeline.stages.evaluate import run_questions
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release

_RESULTS = 50  # of which ten files count


def read_golden(folder: Path, repository: str) -> list[GoldenQuestion]:
    """The questions of a set about a repository, by its name without the owner."""
    return [
        GoldenQuestion(
            each.text, tuple(GoldenAnswer(path) for path in {one.path for one in each.targets}), "code"
        )
        for each in repositories.read_questions(folder)
        if each.repository.rpartition("/")[2] == repository
    ]


def compare_models(
    settings: Settings, questions: Sequence[GoldenQuestion], before: RankingModel, after: RankingModel
) -> MeasureDifference:
    """The change of nDCG@10 over files."""
    lake = Lake(settings.store)
    live = find_live_release(lake)
    assert live is not None
    scores: list[np.ndarray] = []
    for model in (before, after):
        asked = run_questions(lake, settings, questions, live.tables, model.to_json(), limit=_RESULTS)
        scores.append(score_questions([judge_by_file(each) for each in asked])[QUALITY_MEASURE])
    return compute_difference(*scores)


def main() -> None:
    """Tune each store without storing anything, and print what it gains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set", type=Path, metavar="SET")
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    options = parser.parse_args()
    table = Table("", "questions", "number", "before", "after", "change", "better", "worse")
    for folder in options.folders:
        settings = file.load_settings(folder / "knowledge.yaml")
        result = tune.refresh(Lake(settings.store), settings, dry_run=True)
        Console().print(folder.name, dict(result.pairs), tune.describe_weights(result.after))
        rows = {"held out": result.gain, **result.gain_by_kind}
        if result.golden_gain:
            rows["golden, by place"] = result.golden_gain
        if questions := read_golden(options.set, folder.name):
            rows[options.set.name] = compare_models(settings, questions, result.before, result.after)
        for name, gain in rows.items():
            change = 100 * np.array([gain.change.mean, gain.change.low, gain.change.high])
            shown = "{:+.1f} ({:+.1f} to {:+.1f})".format(*change)
            count = gain.better + gain.worse + gain.equal
            cells = (str(count), f"{gain.before:.3f}", f"{gain.after:.3f}", shown, str(gain.better))
            table.add_row(folder.name, name, *cells, str(gain.worse))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
