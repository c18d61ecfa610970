"""How well the evaluation sets are answered, through the product's own pipeline.

    python -m benchmarks.retrieval SET [SET ...] [--store FOLDER] [--limit 50]

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

from rich.console import Console
from rich.table import Table

from knowledge_pipeline import config_file
from knowledge_pipeline.config import Settings
from knowledge_pipeline.evaluation.beir import read_beir
from knowledge_pipeline.evaluation.golden import Question
from knowledge_pipeline.evaluation.judge import Response
from knowledge_pipeline.evaluation.scores import summaries
from knowledge_pipeline.stages import evaluate, pipeline
from knowledge_pipeline.store.lake import Lake

_KINDS = {"cosqa": ("code", ".py"), "codebase": ("code", ".rs"), "cranfield": ("markdown", ".md")}
"""Source type and file name's end, by the first word of a set's name; prose for any other."""


@dataclass(frozen=True)
class Set:
    """One evaluation set, written out as a project of its own."""

    folder: Path  # with queries.jsonl, qrels/, corpus.jsonl
    place: Path

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
        path.write_text(
            f"version: 1\nstore: store\nsources:\n"
            f"  - {{id: corpus, type: {kind}, connection: {{type: local, path: files}}}}\n"
        )
        return config_file.load(path)

    def questions(self) -> list[Question]:
        """Its queries, with the files that answer them."""
        _, ending = _KINDS.get(self.name.partition("-")[0], ("markdown", ".md"))
        return [
            replace(
                question,
                answers=tuple(replace(place, path=place.path + ending) for place in question.answers),
            )
            for question in read_beir(self.folder)
        ]


def asked(one: Set, *, limit: int) -> list[Response]:
    """Index what changed of a set, and ask its questions of the result."""
    settings = one.write()
    lake = Lake(settings.store)
    outcome = pipeline.refresh(lake, settings, settings.sources, report=lambda _: _told)
    for failure in outcome.failures.values():
        raise failure
    return evaluate.ask(lake, settings, one.questions(), evaluate.newest(lake), limit=limit)


def _told(stage: str, done: int, total: int | None) -> None:
    if done % 500 == 0:
        Console(stderr=True).print(f"{stage} {done} of {total}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--store", type=Path, default=Path(".knowledge/evaluation"))
    parser.add_argument("--limit", type=int, default=50, help="results asked for, of which ten files count")
    options = parser.parse_args()
    table = Table("set", "questions", "nDCG@10", "Recall@10", "p50 ms", "p95 ms")
    for folder in options.sets:
        one = Set(folder, options.store / folder.name)
        (found, *_) = summaries(asked(one, limit=options.limit))
        shown = [
            f"{100 * each.mean:.1f} ({100 * each.low:.1f} to {100 * each.high:.1f})"
            for each in (found.by_file["nDCG@10"], found.by_file["R@10"])
        ]
        table.add_row(one.name, str(found.questions), *shown, f"{found.p50_ms:.0f}", f"{found.p95_ms:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
