"""How long each search type takes, and which step takes it.

    python -m benchmarks.search_time SET [--store FOLDER] [--rerank MODEL]

Indexes the corpus of a set in BEIR layout and this repository's own history, then asks the set's
questions by every search type, one after the other, in one process, after a first question that
loads the model. Times are of the whole answer, the question's embedding included. Examples for
`similar` are the documents that answer.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table

from benchmarks.retrieval import Set, indexed
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import CacheSettings, Settings
from knowledge_pipeline.contract.filters import SearchType
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake

HERE = Path(__file__).resolve().parents[1]


def with_history(one: Set) -> Settings:
    """The set's own settings, and this repository's commits as a second source; both indexed."""
    indexed(one)
    path = one.place / "with_history.yaml"
    path.write_text(
        (one.place / "knowledge.yaml").read_text()
        + f"  - {{id: history, type: git_history, connection: {{type: git, url: {HERE}}}}}\n"
    )
    settings = file.load_settings(path)
    lake = Lake(settings.store)
    outcome = pipeline.refresh(lake, settings, settings.sources)
    for failure in outcome.failures.values():
        raise failure
    pipeline.refresh_release(lake, settings)
    return settings


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("--store", type=Path, default=Path(".knowledge/search_time"))
    parser.add_argument("--rerank", help="model that reranks semantic searches, too")
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    one = Set(options.set, options.store / options.set.name)
    settings = _without_cache(with_history(one))
    questions = one.questions()[: options.questions]
    texts = [question.text for question in questions]
    examples = [(one.place / "files" / question.answers[0].path).read_text() for question in questions]
    table = Table("search type", "questions", "p50 ms", "p95 ms", "at the median, ms")
    with KnowledgeBase(settings) as knowledge:
        for type_ in get_args(SearchType):
            if type_ == "similar":
                answers = _ask_all(lambda text: knowledge.similar(text=text), examples)
            else:
                answers = _ask_all(lambda text, t=type_: knowledge.search(text, type=t), texts)
            table.add_row(type_, *_format_row(answers))
    if options.rerank:
        rerank = {"model": options.rerank, "types": ["semantic"], "budget_s": 5.0}
        query = type(settings.query).model_validate(settings.query.model_dump() | {"rerank": rerank})
        with KnowledgeBase(settings.model_copy(update={"query": query})) as knowledge:
            answers = _ask_all(knowledge.search, texts[:40])
            table.add_row("semantic, reranked", *_format_row(answers))
    Console(width=160).print(table)


def _without_cache(settings: Settings) -> Settings:
    query = settings.query.model_copy(update={"cache": CacheSettings(ttl_minutes=0)})
    return settings.model_copy(update={"query": query})


def _ask_all(ask: Callable[[str], SearchResponse], texts: Iterable[str]) -> list[SearchResponse]:
    ask("the first question loads the model")
    return [ask(text) for text in texts]


def _format_row(answers: list[SearchResponse]) -> list[str]:
    took = sorted(answer.took_ms for answer in answers)
    steps = {name for answer in answers for name in answer.timings_ms}
    medians = {
        name: statistics.median(answer.timings_ms.get(name, 0.0) for answer in answers) for name in steps
    }
    shares = ", ".join(
        f"{name} {ms:.1f}" for name, ms in sorted(medians.items(), key=lambda each: -each[1]) if ms >= 0.1
    )
    return [str(len(took)), f"{statistics.median(took):.0f}", f"{took[int(0.95 * len(took))]:.0f}", shares]


if __name__ == "__main__":
    main()
