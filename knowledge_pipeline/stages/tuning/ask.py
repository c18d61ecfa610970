"""Asks the live release the questions of pairs: the features of what it finds are what is learned from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.embedding.base import Embedder
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.open_release import PinnedIndex
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.pipeline import keep_candidates
from knowledge_pipeline.query.search.understand import ParsedQuery, understand
from knowledge_pipeline.stages.progress import ProgressCallback
from knowledge_pipeline.stages.tuning.examples import ANSWER, Example, build_example, judge_by_symbol
from knowledge_pipeline.stages.tuning.masking import DocstringMask, EmbedText
from knowledge_pipeline.stages.tuning.pairs import Pair
from knowledge_pipeline.store.index.bm25 import TermStatistics, count_terms
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
                    hits, query = await _find_hits(engine, pair, statistics, embed)
                    examples.append((pair, _to_example(pair, hits, query)))
                except InvalidQuery:
                    continue  # "in:" or another filter that is none, in a sentence of a docstring
                finally:
                    report("ask", done, len(pairs))
        finally:
            await engine.aclose()
        return examples

    return asyncio.run(ask())


async def _find_hits(
    engine: Engine, pair: Pair, statistics: Mapping[str, TermStatistics], embed: EmbedText
) -> tuple[list[Hit[IndexedChunk]], ParsedQuery]:
    question, adjust = pair.question, keep_candidates
    if pair.taken_out:
        adjust = DocstringMask(pair, understand(question.text).words, statistics, embed)
    filters = Filters(**question.filters)
    return await engine.find_unranked(
        question.text, Access.operator(), type=question.type, filters=filters, adjust=adjust
    )


def _to_example(pair: Pair, hits: Sequence[Hit[IndexedChunk]], query: ParsedQuery) -> Example:
    answers = pair.question.answers
    gains: dict[str, dict[str, float]] = {"file": {each.path: float(each.relevance) for each in answers}}
    if any(each.symbol for each in answers):
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
    by_space = {resolve_space(each).name: each for each in settings.list_embeddings()}

    @cache
    def open_once(space: str) -> Embedder:
        return open_embedder(by_space[space])

    def embed(text: str, space: str) -> np.ndarray:
        return open_once(space).embed([text])[0]

    return embed
