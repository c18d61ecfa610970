"""Which step of a search helps: the golden questions, asked with some of the steps left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from knowledge_pipeline.config import QuerySettings, Settings
from knowledge_pipeline.evaluation.golden import Question
from knowledge_pipeline.evaluation.judge import Response
from knowledge_pipeline.stages.base import Report
from knowledge_pipeline.stages.evaluate import ask
from knowledge_pipeline.store.lake import Lake

FUSED = "fused"  # what the other steps are compared with

ReportFor = Callable[[str], Report]
"""The report of a step, by its name."""


def steps(query: QuerySettings) -> dict[str, QuerySettings]:
    """Step -> settings that stop after it: `vector` and `bm25` alone, `fused`, and `reranked` if it is on."""
    fused = query.model_copy(update={"rerank": query.rerank.model_copy(update={"types": ()})})
    alone = fused.model_copy(update={"fusion": "weighted"})
    made = {
        "vector": alone.model_copy(update={"vector_weight": 1.0}),
        "bm25": alone.model_copy(update={"vector_weight": 0.0}),
        FUSED: fused,
    }
    return made | ({"reranked": query} if query != fused else {})


def ask_steps(
    lake: Lake,
    settings: Settings,
    questions: Sequence[Question],
    tables: Mapping[str, int],
    *,
    report_for: ReportFor,
) -> dict[str, list[Response]]:
    """Step -> responses to the same questions, by the same index.

    Raises:
        QuestionRefused, EmbeddingUnavailable, StoreError: as `evaluate.ask`.
    """
    return {
        step: ask(
            lake, settings.model_copy(update={"query": query}), questions, tables, report=report_for(step)
        )
        for step, query in steps(settings.query).items()
    }
