"""Ablation: scores a search by the golden questions with some of its steps left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from knowledge_pipeline.config.settings import QuerySettings, Settings
from knowledge_pipeline.evaluation.golden import GoldenQuestion
from knowledge_pipeline.evaluation.judge import QuestionResponse
from knowledge_pipeline.stages.evaluate import run_questions
from knowledge_pipeline.stages.progress import ProgressCallback
from knowledge_pipeline.store.lake import Lake

FUSED_STEP = "fused"  # the baseline of the other steps

_DISABLED = {"hyde": False, "expansion": "off", "decompose": "off"}
_STEP_BY_SETTING = {"hyde": "hyde", "expansion": "expansion", "decompose": "decompose", "rerank": "reranked"}
"""Key of the settings -> name of the step that it adds."""

ProgressForStep = Callable[[str], ProgressCallback]
"""The report of a step, by its name."""


def build_step_settings(query: QuerySettings) -> dict[str, QuerySettings]:
    """Step -> settings: each search alone, both, and both with each further step that is enabled.

    `vector` and `bm25` alone take no feedback. After `fused` come `hyde`, `expansion`, `decompose` and
    `reranked`, and `all` where several of them are enabled.
    """
    no_reranking = query.rerank.model_copy(update={"types": ()})
    fused = query.model_copy(update={**_DISABLED, "rerank": no_reranking})
    alone = fused.model_copy(update={"fusion": "weighted", "feedback": 0.0})
    further = {
        step: fused.model_copy(update={name: getattr(query, name)})
        for name, step in _STEP_BY_SETTING.items()
        if getattr(query, name) != getattr(fused, name)
    }
    return {
        "vector": alone.model_copy(update={"vector_weight": 1.0}),
        "bm25": alone.model_copy(update={"vector_weight": 0.0}),
        FUSED_STEP: fused,
        **further,
        **({"all": query} if len(further) > 1 else {}),
    }


def run_steps(
    lake: Lake,
    settings: Settings,
    questions: Sequence[GoldenQuestion],
    tables: Mapping[str, int],
    ranker: str | None,
    *,
    progress_for: ProgressForStep,
) -> dict[str, list[QuestionResponse]]:
    """Step -> responses to the same questions, by the same index.

    Raises:
        InvalidQuery, EmbeddingUnavailable, StoreError: as `run_questions` does.
    """
    return {
        step: run_questions(
            lake,
            settings.model_copy(update={"query": query}),
            questions,
            tables,
            ranker,
            report=progress_for(step),
        )
        for step, query in build_step_settings(settings.query).items()
    }
