"""Which step of a search helps: the golden questions, asked with some of the steps left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from knowledge_pipeline.config.query import Reranking
from knowledge_pipeline.config.settings import QuerySettings, Settings
from knowledge_pipeline.evaluation.golden import Question
from knowledge_pipeline.evaluation.judge import Response
from knowledge_pipeline.stages.context import Report
from knowledge_pipeline.stages.evaluate import ask
from knowledge_pipeline.store.lake import Lake

FUSED = "fused"  # what the other steps are compared with

_OFF = {"hyde": False, "expansion": "off", "decompose": "off"}
_ADDED = {"hyde": "hyde", "expansion": "expansion", "decompose": "decompose", "rerank": "reranked"}
"""Key of the settings -> name of the step that it adds."""

ReportFor = Callable[[str], Report]
"""The report of a step, by its name."""


def steps(query: QuerySettings) -> dict[str, QuerySettings]:
    """Step -> settings: each search alone, both, and both with one more step, of those that are on.

    `vector` and `bm25` alone have no second look. `fused` is followed by `hyde`,
    `expansion`, `decompose` and `reranked`, and by `all` where several of them are on.
    """
    fused = query.model_copy(update={**_OFF, "rerank": _not_at_all(query)})
    alone = fused.model_copy(update={"fusion": "weighted", "feedback": 0.0})
    more = {
        step: fused.model_copy(update={name: getattr(query, name)})
        for name, step in _ADDED.items()
        if getattr(query, name) != getattr(fused, name)
    }
    return {
        "vector": alone.model_copy(update={"vector_weight": 1.0}),
        "bm25": alone.model_copy(update={"vector_weight": 0.0}),
        FUSED: fused,
        **more,
        **({"all": query} if len(more) > 1 else {}),
    }


def _not_at_all(query: QuerySettings) -> Reranking:
    return query.rerank.model_copy(update={"types": ()})


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
