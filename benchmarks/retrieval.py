"""How well the evaluation sets are answered, through the product's own pipeline.

    python -m benchmarks.retrieval SET [SET ...] [--store FOLDER] [--profile best] [--limit 50] [--ablation]

A set is a folder in BEIR layout. Its corpus is written out as one file a document, indexed as
a source with the default settings, and asked; a file's best chunk counts. The files and the
store are kept in the folder, so that a second run indexes only what a changed chunker or model
changed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.table import Table

from knowledge_pipeline.config import file
from knowledge_pipeline.config.embedding import Profile
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.evaluation.golden import GoldenQuestion, read_beir
from knowledge_pipeline.evaluation.scores import Estimate, QuestionResponse, summarize
from knowledge_pipeline.stages import evaluate, pipeline
from knowledge_pipeline.store.lake import Lake

_KINDS = {"cosqa": ("code", ".py"), "codebase": ("code", ".rs"), "cranfield": ("markdown", ".md")}
"""Source type and file name's end, by the first word of a set's name; prose for any other."""


@dataclass(frozen=True)
class Set:
    """One evaluation set, written out as a project of its own."""

    folder: Path  # with queries.jsonl, qrels/, corpus.jsonl
    place: Path
    profile: str | None = None  # None: the default one

    @property
    def name(self) -> str:
        """As its folder is called."""
        return self.folder.name

    def write(self) -> Settings:
        """Write the corpus as files, and a `knowledge.yaml` without any switch."""
        kind, ending = _KINDS.get(self.name.partition("-")[0], ("markdown", ".md"))
        files = self.place / "files"
        if not files.exists():
            files.mkdir(parents=True)
            for line in (self.folder / "corpus.jsonl").read_text().splitlines():
                document = json.loads(line)
                (files / f"{document['_id']}{ending}").write_text(document["text"])
        path = self.place / "knowledge.yaml"
        embedding = f"embedding: {{profile: {self.profile}}}\n" if self.profile else ""
        path.write_text(
            f"version: 1\nstore: store\n{embedding}sources:\n"
            f"  - {{id: corpus, type: {kind}, connection: {{type: local, path: files}}}}\n"
        )
        return file.load_settings(path)

    def questions(self) -> list[GoldenQuestion]:
        """Its queries, with the files that answer them."""
        _, ending = _KINDS.get(self.name.partition("-")[0], ("markdown", ".md"))
        return [
            replace(
                question,
                answers=tuple(replace(place, path=place.path + ending) for place in question.answers),
            )
            for question in read_beir(self.folder)
        ]


ABLATION: dict[str, dict[str, Any]] = {
    "vectors alone": {"vector_weight": 1.0, "feedback": 0.0},
    "full text alone": {"vector_weight": 0.0, "feedback": 0.0},
    "reciprocal rank": {"fusion": "reciprocal_rank", "feedback": 0.0},
    "weighted, 0.5": {"fusion": "weighted", "feedback": 0.0},
    "weighted, 0.7": {"fusion": "weighted", "vector_weight": 0.7, "feedback": 0.0},
    "following": {"feedback": 0.0},
    "following, a second look at prose": {},
}
"""Ways to ask, as changes of the default settings; the last one is the default."""


def indexed(one: Set) -> Settings:
    """Index what changed of a set."""
    settings = one.write()
    lake = Lake(settings.store)
    outcome = pipeline.refresh(lake, settings, settings.sources, report=lambda _: _report_progress)
    for failure in outcome.failures.values():
        raise failure
    return settings


def answer_questions(
    one: Set, settings: Settings, how: dict[str, Any], *, limit: int
) -> list[QuestionResponse]:
    """Ask a set's questions of its newest index."""
    lake = Lake(settings.store)
    query = settings.query.model_copy(update=how)
    changed = settings.model_copy(update={"query": query})
    return evaluate.run_questions(
        lake, changed, one.questions(), evaluate.newest_index_versions(lake), None, limit=limit
    )


def _report_progress(stage: str, done: int, total: int | None, *_: object) -> None:
    if done % 500 == 0:
        Console(stderr=True).print(f"{stage} {done} of {total}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--store", type=Path, default=Path(".knowledge/evaluation"))
    parser.add_argument("--profile", choices=get_args(Profile), help="models to embed with")
    parser.add_argument("--limit", type=int, default=50, help="results asked for, of which ten files count")
    parser.add_argument("--ablation", action="store_true", help="ask without each step, too")
    options = parser.parse_args()
    for folder in options.sets:
        if not (folder / "corpus.jsonl").is_file():
            parser.error(f"there is no corpus.jsonl in {folder}: name a folder in BEIR layout")
    table = Table("set", "asked", "questions", "nDCG@10", "Recall@10", "p50 ms", "p95 ms")
    for folder in options.sets:
        one = Set(folder, options.store / folder.name, options.profile)
        settings = indexed(one)
        for name, how in ABLATION.items() if options.ablation else [("by default", {})]:
            (found, *_) = summarize(answer_questions(one, settings, how, limit=options.limit))
            shown = [_format_estimate(found.by_file["nDCG@10"]), _format_estimate(found.by_file["R@10"])]
            times = [f"{found.p50_ms:.0f}", f"{found.p95_ms:.0f}"]
            table.add_row(one.name, name, str(found.questions), *shown, *times)
    Console(width=140).print(table)


def _format_estimate(estimate: Estimate) -> str:
    mean, low, high = (100 * value for value in (estimate.mean, estimate.low, estimate.high))
    return f"{mean:.1f} ({low:.1f} to {high:.1f})"


if __name__ == "__main__":
    main()
