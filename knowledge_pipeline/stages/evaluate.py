"""Evaluate: asks an index the golden questions before it is released, and says whether it may be.

The newest versions of all spaces are asked, by the product's own search. What they score is
appended to the log `evaluations`; the live release is asked the same, as what to compare with.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import SearchResponse, SearchResult
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import EmbeddingUnavailable, StoreError
from knowledge_pipeline.evaluation.golden import GoldenQuestion, GoldenSet, load_golden_set
from knowledge_pipeline.evaluation.judge import QuestionResponse, RetrievedChunk
from knowledge_pipeline.evaluation.scores import ALL, JUDGED_DEPTH, QUALITY_MEASURE, Summary, summarize
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.log.model_calls import ModelCallLog
from knowledge_pipeline.query.open_release import PinnedIndex
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages.context import ProgressCallback, ignore_progress
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append_rows
from knowledge_pipeline.store.release import find_live_release, newest_index_versions

VERSION = "1"  # of how questions are asked and judged: scores of different ones do not compare

MetricScores = Mapping[str, Mapping[str, float]]
"""Search type, or "all" -> metric -> value; the metrics are those of the log."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """What an index scores."""

    tables: Mapping[str, int]  # space -> version that was asked
    golden_key: str  # what was asked and how: see `golden_of`
    scores: MetricScores
    responses: tuple[QuestionResponse, ...] = ()  # none where the scores were known already


def refresh(
    lake: Lake, settings: Settings, *, report: ProgressCallback = ignore_progress
) -> EvaluationResult | None:
    """Ask the newest index the golden questions, unless exactly it was asked exactly them before.

    None where no questions are configured, or nothing is indexed.

    Raises:
        ConfigError: a file of questions is missing or wrong.
        QuestionRefused: a question makes no sense.
        EmbeddingUnavailable: the questions cannot be embedded: scores without vectors say nothing.
    """
    tables = newest_index_versions(lake)
    if not settings.evaluation.questions or not tables:
        return None
    golden = load_golden_set(settings.evaluation.questions)
    mark = evaluation_key(golden, settings)
    known = load_scores(lake, tables, mark)
    if known:
        return EvaluationResult(tables, mark, known)
    made = _evaluate_tables(lake, settings, golden, tables, report)
    released = find_live_release(lake)
    if released and released.tables != tables and not load_scores(lake, released.tables, mark):
        with suppress(StoreError):  # a release that is broken does not keep a sound one from replacing it
            _evaluate_tables(lake, settings, golden, released.tables, report)
    return made


def find_release_problem(lake: Lake, settings: Settings) -> str | None:
    """Why the newest index must not be released; None where it may be, or no questions are configured.

    Of an index that is live already there is nothing to forbid.

    Raises:
        ConfigError: a file of questions is missing or wrong.
    """
    tables, released = newest_index_versions(lake), find_live_release(lake)
    if not settings.evaluation.questions or not tables or (released and released.tables == tables):
        return None
    mark = evaluation_key(load_golden_set(settings.evaluation.questions), settings)
    found = _overall_quality(load_scores(lake, tables, mark))
    if found is None:
        return "the golden questions were not asked of the newest index: run `knowledge refresh`"
    if found < settings.evaluation.floor:
        return (
            f"the newest index answers the golden questions with {QUALITY_MEASURE} {found:.3f}, "
            f"below evaluation.floor ({settings.evaluation.floor:g})"
        )
    before = _overall_quality(load_scores(lake, released.tables, mark)) if released else None
    if before is not None and before - found > settings.evaluation.allowed_drop + 1e-9:
        return (
            f"the newest index answers the golden questions with {QUALITY_MEASURE} {found:.3f}, the live release "
            f"with {before:.3f}: more below it than evaluation.allowed_drop "
            f"({settings.evaluation.allowed_drop:g})"
        )
    return None


def needs_evaluation(lake: Lake, settings: Settings) -> bool:
    """Whether the newest index has not been asked yet.

    Raises:
        ConfigError: a file of questions is missing or wrong.
    """
    tables = newest_index_versions(lake)
    if not settings.evaluation.questions or not tables:
        return False
    return not load_scores(
        lake, tables, evaluation_key(load_golden_set(settings.evaluation.questions), settings)
    )


def run_questions(
    lake: Lake,
    settings: Settings,
    questions: Sequence[GoldenQuestion],
    tables: Mapping[str, int],
    *,
    limit: int = JUDGED_DEPTH,
    report: ProgressCallback = ignore_progress,
) -> list[QuestionResponse]:
    """Ask chosen index versions, one question after the other, so that their times mean something.

    Ten results are ten passages; where files are judged, a higher `limit` gives ten files.

    Raises:
        QuestionRefused: a question makes no sense.
        EmbeddingUnavailable: the questions cannot be embedded.
        StoreError: a version cannot be opened.
    """
    return asyncio.run(_run_questions(lake, settings, questions, tables, limit, report))


def evaluation_key(golden: GoldenSet, settings: Settings) -> str:
    """Equal where the same questions are asked in the same way: only then scores compare."""
    return hash_strings(
        VERSION, golden.digest, settings.query.model_dump_json(by_alias=True), *_language_model_key(settings)
    )


def _language_model_key(settings: Settings) -> tuple[str, ...]:
    """What of the language model changes answers, where questions are asked with one. No key."""
    model = settings.language_model
    if model is None or not settings.query.list_language_model_keys():
        return ()
    told = {"model", "base_url", "max_input_tokens", "reasoning_effort"}
    return (model.model_dump_json(include=told),)


def load_scores(lake: Lake, tables: Mapping[str, int], golden_key: str) -> MetricScores:
    """What versions scored when they were last asked; empty where they never were."""
    where = eq("tables", _tables_key(tables)) & eq("golden", golden_key)
    rows = lake.log_table("evaluations").read_rows(["at", "type", "metric", "value"], where).to_pylist()
    scores: dict[str, dict[str, float]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        scores.setdefault(row["type"], {})[row["metric"]] = row["value"]
    return scores


def list_evaluations(lake: Lake) -> list[dict[str, object]]:
    """Every evaluation, the newest last: `at`, `tables`, `golden`, and a key for each metric over all."""
    columns = ["at", "tables", "golden", "metric", "value"]
    rows = lake.log_table("evaluations").read_rows(columns, eq("type", ALL)).to_pylist()
    found: dict[tuple[datetime, str, str], dict[str, object]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        key = (row["at"], row["tables"], row["golden"])
        made = found.setdefault(key, {"at": row["at"], "tables": row["tables"], "golden": row["golden"]})
        made[row["metric"]] = row["value"]
    return list(found.values())


def summary_metrics(summary: Summary) -> dict[str, float]:
    """A summary as the log has it: measures by place, latency, number of questions."""
    of_measures = {name: estimate.mean for name, estimate in summary.by_place.items()}
    spent = {"p50_ms": summary.p50_ms, "p95_ms": summary.p95_ms}
    return {**of_measures, **spent, "questions": float(summary.questions)}


def _evaluate_tables(
    lake: Lake, settings: Settings, golden: GoldenSet, tables: Mapping[str, int], report: ProgressCallback
) -> EvaluationResult:
    responses = run_questions(lake, settings, golden.questions, tables, report=report)
    scores = {summary.type: summary_metrics(summary) for summary in summarize(responses)}
    mark, at = evaluation_key(golden, settings), datetime.now(UTC)
    shared = {"at": at, "tables": _tables_key(tables), "golden": mark}
    rows = [
        {**shared, "type": type_, "metric": metric, "value": value}
        for type_, values in scores.items()
        for metric, value in values.items()
    ]
    append_rows(lake, "evaluations", rows)
    return EvaluationResult(dict(tables), mark, scores, tuple(responses))


async def _run_questions(
    lake: Lake,
    settings: Settings,
    questions: Sequence[GoldenQuestion],
    tables: Mapping[str, int],
    limit: int,
    report: ProgressCallback,
) -> list[QuestionResponse]:
    spaces = {resolve_space(settings.resolve_embedding(source)).name for source in settings.sources}
    calls = ModelCallLog(lake)
    engine = Engine(settings, lake, index=PinnedIndex(lake, tables), record=calls.record)
    responses: list[QuestionResponse] = []
    try:
        for question in questions[:1]:  # the first one opens models and tables: its time is not the search's
            await _search(engine, question, limit)
        for done, question in enumerate(questions, start=1):
            answer = await _search(engine, question, limit)
            _require_vectors(answer, spaces)
            found = tuple(_to_judged_result(result) for result in answer.results)
            timings, degraded = dict(answer.timings_ms), answer.degraded
            responses.append(QuestionResponse(question, found, answer.took_ms, timings, degraded))
            report("evaluate", done, len(questions))
    finally:
        await engine.aclose()
        calls.close()
    return responses


async def _search(engine: Engine, question: GoldenQuestion, limit: int) -> SearchResponse:
    return await engine.search(
        question.text,
        Access.operator(),
        type=question.type,
        filters=Filters(**question.filters),
        limit=limit,
        explain=True,
    )


def _require_vectors(answer: SearchResponse, spaces: set[str]) -> None:
    """Refuse an answer by words alone, in a space that the settings fill."""
    reasons = answer.explain["degraded"].get("vector", {}) if answer.explain else {}
    for space, reason in reasons.items():
        if space in spaces:
            raise EmbeddingUnavailable(f"the golden questions cannot be asked without vectors: {reason}")


def _to_judged_result(result: SearchResult) -> RetrievedChunk:
    known = result.metadata
    symbols = {known.get("symbol") or "", *(known.get("symbols") or ())}
    return RetrievedChunk(
        id=result.id,
        source=result.citation.source,
        uri=str(known.get("uri", "")),
        path=result.citation.path,
        symbols=frozenset(map(str, symbols - {""})),
    )


def _tables_key(tables: Mapping[str, int]) -> str:
    return json.dumps(dict(tables), sort_keys=True)


def _overall_quality(scores: MetricScores) -> float | None:
    return scores.get(ALL, {}).get(QUALITY_MEASURE)
