"""Evaluate: scores an index by the golden questions, and decides whether it may be released.

It asks the newest versions of all spaces by the product's own search, and the live release for comparison.
The log `evaluations` keeps the scores.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import EmbeddingUnavailable, StoreError
from knowledge_pipeline.evaluation.golden import GoldenQuestion, GoldenSet, load_golden_set
from knowledge_pipeline.evaluation.scores import (
    ALL,
    JUDGED_DEPTH,
    QUALITY_MEASURE,
    QuestionResponse,
    RetrievedChunk,
    Summary,
    require_measures,
    summarize,
)
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append_rows
from knowledge_pipeline.store.release import find_live_release, newest_index_versions

if TYPE_CHECKING:  # what asks is imported where it is: a refresh without a change evaluates nothing
    from knowledge_pipeline.contract.responses import SearchResponse, SearchResult
    from knowledge_pipeline.query.search import Engine

VERSION = "1"  # of how questions are asked and judged; scores of different versions do not compare

MetricScores = Mapping[str, Mapping[str, float]]
"""Search type, or "all" -> metric -> value; the metrics are those of the log."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The scores of an index."""

    tables: Mapping[str, int]  # space -> version
    golden_key: str  # from `evaluation_key`
    scores: MetricScores
    responses: tuple[QuestionResponse, ...] = ()  # none where the scores were logged before


def refresh(
    lake: Lake, settings: Settings, *, report: ProgressCallback = ignore_progress
) -> EvaluationResult | None:
    """Evaluate the newest index by the golden questions, unless the log has its scores.

    None where no questions are configured, or nothing is indexed.

    Raises:
        ConfigError: a file of questions is missing or wrong.
        InvalidQuery: a question is not valid.
        EmbeddingUnavailable: the questions cannot be embedded: scores without vectors say nothing.
    """
    tables = newest_index_versions(lake)
    if not settings.evaluation.questions or not tables:
        return None
    golden = load_golden_set(settings.evaluation.questions)
    live = find_live_release(lake)
    ranker = live.ranker if live else None  # the next release keeps it
    key = evaluation_key(golden, settings, ranker)
    if scores := load_scores(lake, tables, key):
        return EvaluationResult(tables, key, scores)
    result = _evaluate_tables(lake, settings, golden, tables, ranker, report)
    if live and live.tables != tables and not load_scores(lake, live.tables, key):
        with suppress(StoreError):  # a broken release must not block the one that replaces it
            _evaluate_tables(lake, settings, golden, live.tables, ranker, report)
    return result


def find_release_problem(lake: Lake, settings: Settings) -> str | None:
    """Why the newest index must not be released.

    None where it may be, is live already, or no questions are configured.

    Raises `ConfigError`: a file of questions is missing or wrong.
    """
    tables, live, limits = newest_index_versions(lake), find_live_release(lake), settings.evaluation
    if not limits.questions or not tables or (live and live.tables == tables):
        return None
    ranker = live.ranker if live else None
    key = evaluation_key(load_golden_set(limits.questions), settings, ranker)
    score = _overall_quality(load_scores(lake, tables, key))
    if score is None:
        return "the newest index is not evaluated by the golden questions: run `knowledge refresh`"
    answers = f"the newest index answers the golden questions with {QUALITY_MEASURE} {score:.3f}"
    if score < limits.floor:
        return f"{answers}, below evaluation.floor ({limits.floor:g})"
    before = _overall_quality(load_scores(lake, live.tables, key)) if live else None
    if before is not None and before - score > limits.allowed_drop + 1e-9:
        drop = f"more below it than evaluation.allowed_drop ({limits.allowed_drop:g})"
        return f"{answers}, the live release with {before:.3f}: {drop}"
    return None


def needs_evaluation(lake: Lake, settings: Settings) -> bool:
    """Whether the log has no scores of the newest index. Raises `ConfigError` as `refresh` does."""
    tables, questions = newest_index_versions(lake), settings.evaluation.questions
    if not questions or not tables:
        return False
    live = find_live_release(lake)
    key = evaluation_key(load_golden_set(questions), settings, live.ranker if live else None)
    return not load_scores(lake, tables, key)


def run_questions(
    lake: Lake,
    settings: Settings,
    questions: Sequence[GoldenQuestion],
    tables: Mapping[str, int],
    ranker: str | None,
    *,
    limit: int = JUDGED_DEPTH,
    report: ProgressCallback = ignore_progress,
) -> list[QuestionResponse]:
    """Ask chosen index versions with a release's weights, one question after the other, for their times.

    Ten results are ten chunks; where files are judged, a higher `limit` gives ten files.

    Raises:
        ConfigError: what scores the answers is not installed.
        InvalidQuery: a question is not valid.
        EmbeddingUnavailable: the questions cannot be embedded.
        StoreError: a version cannot be opened.
    """
    require_measures()
    from knowledge_pipeline.knowledge_base import open_engine
    from knowledge_pipeline.query.logs import ModelCallLog
    from knowledge_pipeline.query.open_release import PinnedIndex

    async def run() -> list[QuestionResponse]:
        spaces = {resolve_space(settings.resolve_embedding(source)).name for source in settings.sources}
        calls, responses = ModelCallLog(lake), list[QuestionResponse]()
        engine = open_engine(settings, lake, PinnedIndex(lake, tables, ranker), record=calls.record)
        try:
            for question in questions[:1]:  # loads models and tables, which is not part of the search's time
                await _search(engine, question, limit)
            for done, question in enumerate(questions, start=1):
                response = await _search(engine, question, limit)
                reasons: dict[str, str] = (
                    response.explain["degraded"].get("vector", {}) if response.explain else {}
                )
                if reason := next((reasons[space] for space in reasons if space in spaces), None):
                    raise EmbeddingUnavailable(
                        f"the golden questions cannot be asked without vectors: {reason}"
                    )
                chunks = tuple(map(_to_retrieved_chunk, response.results))
                timings, degraded = dict(response.timings_ms), response.degraded
                responses.append(QuestionResponse(question, chunks, response.took_ms, timings, degraded))
                report("evaluate", done, len(questions))
        finally:
            await engine.aclose()
            calls.close()
        return responses

    return asyncio.run(run())


def evaluation_key(golden: GoldenSet, settings: Settings, ranker: str | None) -> str:
    """Equal where the same questions are asked in the same way: only then do scores compare."""
    parts = [VERSION, golden.digest, settings.query.model_dump_json()]
    if ranker is not None:
        parts.append(ranker)
    model, keys = settings.language_model, {"model", "base_url", "max_input_tokens", "reasoning_effort"}
    if model is not None and settings.query.list_language_model_keys():
        parts.append(model.model_dump_json(include=keys))
    return hash_strings(*parts)


def load_scores(lake: Lake, tables: Mapping[str, int], golden_key: str) -> MetricScores:
    """The last logged scores of index versions; empty where there are none."""
    where = eq("tables", _tables_key(tables)) & eq("golden", golden_key)
    rows = lake.log_table("evaluations").read_rows(["at", "type", "metric", "value"], where).to_pylist()
    scores: dict[str, dict[str, float]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        scores.setdefault(row["type"], {})[row["metric"]] = row["value"]
    return scores


def list_evaluations(lake: Lake) -> list[dict[str, Any]]:
    """Every evaluation, the newest last: `at`, `tables`, `golden`, and a key for each overall metric."""
    columns = ["at", "tables", "golden", "metric", "value"]
    stored = lake.log_table("evaluations").read_rows(columns, eq("type", ALL))
    rows: list[dict[str, Any]] = stored.to_pylist()
    evaluations: dict[tuple[datetime, str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        shared = {name: row[name] for name in ("at", "tables", "golden")}
        key = (row["at"], row["tables"], row["golden"])
        evaluations.setdefault(key, shared)[row["metric"]] = row["value"]
    return list(evaluations.values())


def summary_metrics(summary: Summary) -> dict[str, float]:
    """A summary as logged: measures by place, latency, number of questions."""
    return {
        **{name: estimate.mean for name, estimate in summary.by_place.items()},
        "p50_ms": summary.p50_ms,
        "p95_ms": summary.p95_ms,
        "questions": float(summary.questions),
    }


def _evaluate_tables(
    lake: Lake,
    settings: Settings,
    golden: GoldenSet,
    tables: Mapping[str, int],
    ranker: str | None,
    report: ProgressCallback,
) -> EvaluationResult:
    responses = run_questions(lake, settings, golden.questions, tables, ranker, report=report)
    scores = {summary.type: summary_metrics(summary) for summary in summarize(responses)}
    key = evaluation_key(golden, settings, ranker)
    shared = {"at": datetime.now(UTC), "tables": _tables_key(tables), "golden": key}
    rows = [
        {**shared, "type": type_, "metric": metric, "value": value}
        for type_, values in scores.items()
        for metric, value in values.items()
    ]
    append_rows(lake, "evaluations", rows)
    return EvaluationResult(dict(tables), key, scores, tuple(responses))


async def _search(engine: Engine, question: GoldenQuestion, limit: int) -> SearchResponse:
    from knowledge_pipeline.contract.filters import Filters
    from knowledge_pipeline.query.access import Access
    from knowledge_pipeline.query.plan import SearchQuestion

    filters = Filters(**question.filters)
    search = SearchQuestion(question.text, question.type, filters, limit=limit, explain=True)
    return await engine.search(search, Access.operator())


def _to_retrieved_chunk(result: SearchResult) -> RetrievedChunk:
    metadata, citation = result.metadata, result.citation
    symbols = frozenset(map(str, {metadata.get("symbol") or "", *(metadata.get("symbols") or ())} - {""}))
    uri = str(metadata.get("uri", ""))
    return RetrievedChunk(id=result.id, source=citation.source, uri=uri, path=citation.path, symbols=symbols)


def _tables_key(tables: Mapping[str, int]) -> str:
    return json.dumps(dict(tables), sort_keys=True)


def _overall_quality(scores: MetricScores) -> float | None:
    return scores.get(ALL, {}).get(QUALITY_MEASURE)
