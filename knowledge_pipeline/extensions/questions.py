"""Asks the live release the questions of pairs, and suggests questions that are worth asking it.

The features of what it finds for pairs are what the ranking is learned from.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.embedding.base import Embedder
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.extensions.tuning_examples import (
    ANSWER,
    DocstringMask,
    EmbedText,
    Example,
    Pair,
    build_example,
    judge_by_symbol,
)
from knowledge_pipeline.file_languages import classify_file
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.hits import Hit, IndexedChunk
from knowledge_pipeline.query.open_release import PinnedIndex
from knowledge_pipeline.query.plan import ParsedQuery, SearchQuestion, understand
from knowledge_pipeline.query.search import Engine, keep_candidates
from knowledge_pipeline.stages.progress import ProgressCallback
from knowledge_pipeline.store.federation import TermStatistics, count_terms
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release


def ask_pairs(
    lake: Lake, settings: Settings, release: Release, pairs: Sequence[Pair], report: ProgressCallback
) -> list[tuple[Pair, Example]]:
    """What a release finds for each pair, in the order given; one that is no valid question is left out.

    Raises:
        StoreError: a table of the release cannot be read.
        ModelError, EmbeddingUnavailable, ConfigError: a text cannot be embedded.
    """
    docstrings = [pair for pair in pairs if pair.taken_out]
    statistics = _count_terms(lake, release, docstrings) if docstrings else {}
    embed = _build_embed(settings)

    async def ask() -> list[tuple[Pair, Example]]:
        engine = Engine(settings, lake, index=PinnedIndex(lake, release.tables, None))
        examples: list[tuple[Pair, Example]] = []
        try:
            for done, pair in enumerate(pairs, start=1):
                try:
                    question, adjust = pair.question, keep_candidates
                    if pair.taken_out:
                        adjust = DocstringMask(pair, understand(question.text).words, statistics, embed)
                    search = SearchQuestion(question.text, question.type, Filters(**question.filters))
                    hits, query = await engine.find_unranked(search, Access.operator(), adjust=adjust)
                    examples.append((pair, _to_example(pair, hits, query)))
                except InvalidQuery:
                    continue  # "in:" or another filter that is none, in a sentence of a docstring
                finally:
                    report("ask", done, len(pairs))
        finally:
            await engine.aclose()
        return examples

    return asyncio.run(ask())


def _to_example(pair: Pair, hits: Sequence[Hit[IndexedChunk]], query: ParsedQuery) -> Example:
    answers = pair.question.answers
    gains = {"file": {answer.path: float(answer.relevance) for answer in answers}}
    if any(answer.symbol for answer in answers):
        gains["symbol"] = {ANSWER: 1.0}
    return build_example((pair.kind, pair.kind), hits, query, judge_by_symbol(answers), gains)


def _count_terms(lake: Lake, release: Release, pairs: Sequence[Pair]) -> dict[str, TermStatistics]:
    dimensions = lake.list_spaces()
    questions = [understand(pair.question.text).words for pair in pairs]
    statistics: dict[str, TermStatistics] = {}
    for space in release.tables:
        batches = lake.index(space, dimensions[space]).iter_batches(["words"])
        rows = (row for batch in batches for row in batch.to_pylist())
        words = (str(row["words"]) for row in rows)
        statistics[space] = count_terms(words, questions)
    return statistics


def _build_embed(settings: Settings) -> EmbedText:
    """Embeds a text as the index does; a model is opened when it is first needed."""
    by_space = {resolve_space(embedding).name: embedding for embedding in settings.list_embeddings()}

    @cache
    def open_once(space: str) -> Embedder:
        return open_embedder(by_space[space])

    def embed(text: str, space: str) -> np.ndarray:
        return open_once(space).embed([text])[0]

    return embed


MAX_QUESTIONS = 3
_MIN_NAME_CHARS, _MIN_HEADING_WORDS, _MAX_HEADING_CHARS = 4, 2, 60


def suggest_questions(lake: Lake, sources: Iterable[SourceConfig]) -> list[str]:
    """At most three command lines, each a question that these sources answer.

    They are about what is used most, and about what is written of it.
    """
    by_type: dict[str, list[str]] = {}
    for source in sources:
        by_type.setdefault(source.type, []).append(source.id)
    questions: list[str] = []
    if name := _find_most_used_name(lake, by_type.get("code", [])):
        questions.append(f'knowledge search "how does {name} work" --type code')
        questions.append(f"knowledge graph usages {name}")
    if heading := _find_heading(lake, by_type.get("markdown", [])):
        questions.insert(1, f'knowledge search "{heading}"')
    if name and by_type.get("git_history"):
        questions.append(f'knowledge search "why was {name} changed" --type historical')
    return questions[:MAX_QUESTIONS]


def _find_most_used_name(lake: Lake, sources: list[str]) -> str | None:
    """The definition that most files use, of those that are no tests and no special methods."""
    edges = lake.graph_table("edges")
    where = one_of("source", sources) & ~is_null("target_path") & one_of("kind", ["calls", "references"])
    rows: list[dict[str, Any]] = edges.read_rows(["path", "target_path", "target_name"], where).to_pylist()
    users = {
        (row["target_path"], row["target_name"], row["path"])
        for row in rows
        if row["target_name"] and row["path"] != row["target_path"]
    }
    counted = Counter((path, name) for path, name, _ in users if classify_file(path) == "source")
    for (_, name), _ in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        simple = name.rpartition(".")[2]
        if len(simple) >= _MIN_NAME_CHARS and not simple.startswith("_"):
            return name
    return None


def _find_heading(lake: Lake, sources: list[str]) -> str | None:
    """A heading of the document that comes first: a README, else by path."""
    headings: list[tuple[bool, str, int, str]] = []
    for source in sources:
        chunks = lake.chunks("markdown", source)
        where = ~is_null("section") & eq("archived", False)
        for row in chunks.read_rows(["path", "start_line", "section"], where).to_pylist():
            heading = row["section"].rpartition(" > ")[2].strip().replace('"', "")
            is_readable = len(heading.split()) >= _MIN_HEADING_WORDS and len(heading) <= _MAX_HEADING_CHARS
            if is_readable and heading.isascii() and not set(heading) & set("`$\\!"):
                is_readme = row["path"].lower().startswith("readme")
                headings.append((not is_readme, row["path"], row["start_line"], heading))
    return min(headings)[-1] if headings else None
