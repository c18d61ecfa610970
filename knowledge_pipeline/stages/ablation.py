"""Which step of a search helps: the golden questions, asked with some of the steps left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from knowledge_pipeline.config.query import RerankSettings
from knowledge_pipeline.config.settings import QuerySettings, Settings
from knowledge_pipeline.evaluation.golden import GoldenQuestion
from knowledge_pipeline.evaluation.judge import QuestionResponse
from knowledge_pipeline.stages.context import ProgressCallback
from knowledge_pipeline.stages.evaluate import run_questions
from knowledge_pipeline.store.lake import Lake

FUSED_STEP = "fused"  # what the other steps are compared with

_DISABLED = {"hyde": False, "expansion": "off", "decompose": "off"}
_STEP_BY_SETTING = {"hyde": "hyde", "expansion": "expansion", "decompose": "decompose", "rerank": "reranked"}
"""Key of the settings -> name of the step that it adds."""

ProgressForStep = Callable[[str], ProgressCallback]
"""The report of a step, by its name."""


def build_step_settings(query: QuerySettings) -> dict[str, QuerySettings]:
    """Step -> settings: each search alone, both, and both with one more step, of those that are on.

    `vector` and `bm25` alone have no second look. `fused` is followed by `hyde`,
    `expansion`, `decompose` and `reranked`, and by `all` where several of them are on.
    """
    fused = query.model_copy(update={**_DISABLED, "rerank": _disable_reranking(query)})
    alone = fused.model_copy(update={"fusion": "weighted", "feedback": 0.0})
    more = {
        step: fused.model_copy(update={name: getattr(query, name)})
        for name, step in _STEP_BY_SETTING.items()
        if getattr(query, name) != getattr(fused, name)
    }
    return {
        "vector": alone.model_copy(update={"vector_weight": 1.0}),
        "bm25": alone.model_copy(update={"vector_weight": 0.0}),
        FUSED_STEP: fused,
        **more,
        **({"all": query} if len(more) > 1 else {}),
    }


def _disable_reranking(query: QuerySettings) -> RerankSettings:
    return query.rerank.model_copy(update={"types": ()})


def run_steps(
    lake: Lake,
    settings: Settings,
    questions: Sequence[GoldenQuestion],
    tables: Mapping[str, int],
    *,
    progress_for: ProgressForStep,
) -> dict[str, list[QuestionResponse]]:
    """Step -> responses to the same questions, by the same index.

    Raises:
        QuestionRefused, EmbeddingUnavailable, StoreError: as `evaluate.ask`.
    """
    return {
        step: run_questions(
            lake, settings.model_copy(update={"query": query}), questions, tables, report=progress_for(step)
        )
        for step, query in build_step_settings(settings.query).items()
    }
