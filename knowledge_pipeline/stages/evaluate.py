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
from knowledge_pipeline.embedding.registry import space_of
from knowledge_pipeline.errors import EmbeddingUnavailable, StoreError
from knowledge_pipeline.evaluation.golden import Golden, Question, load
from knowledge_pipeline.evaluation.judge import Found, Response
from knowledge_pipeline.evaluation.scores import ALL, DEPTH, QUALITY, Summary, summaries
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.query.log.model_calls import ModelCalls
from knowledge_pipeline.query.open_release import ChosenIndex
from knowledge_pipeline.query.search.assemble import Answer, Result
from knowledge_pipeline.query.search.engine import Engine
from knowledge_pipeline.records import digest
from knowledge_pipeline.stages.context import Report, silent
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append
from knowledge_pipeline.store.release import live, newest

VERSION = "1"  # of how questions are asked and judged: scores of different ones do not compare

Scores = Mapping[str, Mapping[str, float]]
"""Search type, or "all" -> metric -> value; the metrics are those of the log."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an index scores."""

    tables: Mapping[str, int]  # space -> version that was asked
    golden: str  # what was asked and how: see `golden_of`
    scores: Scores
    responses: tuple[Response, ...] = ()  # none where the scores were known already


def refresh(lake: Lake, settings: Settings, *, report: Report = silent) -> Evaluated | None:
    """Ask the newest index the golden questions, unless exactly it was asked exactly them before.

    None where no questions are configured, or nothing is indexed.

    Raises:
        ConfigError: a file of questions is missing or wrong.
        QuestionRefused: a question makes no sense.
        EmbeddingUnavailable: the questions cannot be embedded: scores without vectors say nothing.
    """
    tables = newest(lake)
    if not settings.evaluation.questions or not tables:
        return None
    golden = load(settings.evaluation.questions)
    mark = golden_of(golden, settings)
    known = recorded(lake, tables, mark)
    if known:
        return Evaluated(tables, mark, known)
    made = _evaluated(lake, settings, golden, tables, report)
    released = live(lake)
    if released and released.tables != tables and not recorded(lake, released.tables, mark):
        with suppress(StoreError):  # a release that is broken does not keep a sound one from replacing it
            _evaluated(lake, settings, golden, released.tables, report)
    return made


def problem(lake: Lake, settings: Settings) -> str | None:
    """Why the newest index must not be released; None where it may be, or no questions are configured.

    Of an index that is live already there is nothing to forbid.

    Raises:
        ConfigError: a file of questions is missing or wrong.
    """
    tables, released = newest(lake), live(lake)
    if not settings.evaluation.questions or not tables or (released and released.tables == tables):
        return None
    mark = golden_of(load(settings.evaluation.questions), settings)
    found = _quality(recorded(lake, tables, mark))
    if found is None:
        return "the golden questions were not asked of the newest index: run `knowledge refresh`"
    if found < settings.evaluation.floor:
        return (
            f"the newest index answers the golden questions with {QUALITY} {found:.3f}, "
            f"below evaluation.floor ({settings.evaluation.floor:g})"
        )
    before = _quality(recorded(lake, released.tables, mark)) if released else None
    if before is not None and before - found > settings.evaluation.allowed_drop + 1e-9:
        return (
            f"the newest index answers the golden questions with {QUALITY} {found:.3f}, the live release "
            f"with {before:.3f}: more below it than evaluation.allowed_drop "
            f"({settings.evaluation.allowed_drop:g})"
        )
    return None


def due(lake: Lake, settings: Settings) -> bool:
    """Whether the newest index has not been asked yet.

    Raises:
        ConfigError: a file of questions is missing or wrong.
    """
    tables = newest(lake)
    if not settings.evaluation.questions or not tables:
        return False
    return not recorded(lake, tables, golden_of(load(settings.evaluation.questions), settings))


def ask(
    lake: Lake,
    settings: Settings,
    questions: Sequence[Question],
    tables: Mapping[str, int],
    *,
    limit: int = DEPTH,
    report: Report = silent,
) -> list[Response]:
    """Ask chosen index versions, one question after the other, so that their times mean something.

    Ten results are ten passages; where files are judged, a higher `limit` gives ten files.

    Raises:
        QuestionRefused: a question makes no sense.
        EmbeddingUnavailable: the questions cannot be embedded.
        StoreError: a version cannot be opened.
    """
    return asyncio.run(_ask(lake, settings, questions, tables, limit, report))


def golden_of(golden: Golden, settings: Settings) -> str:
    """Equal where the same questions are asked in the same way: only then scores compare."""
    return digest(VERSION, golden.digest, settings.query.model_dump_json(), *_model_of(settings))


def _model_of(settings: Settings) -> tuple[str, ...]:
    """What of the language model changes answers, where questions are asked with one. No key."""
    model = settings.language_model
    if model is None or not settings.query.uses_of_language_model():
        return ()
    told = {"model", "base_url", "max_input_tokens", "reasoning_effort"}
    return (model.model_dump_json(include=told),)


def recorded(lake: Lake, tables: Mapping[str, int], golden: str) -> Scores:
    """What versions scored when they were last asked; empty where they never were."""
    where = eq("tables", _named(tables)) & eq("golden", golden)
    rows = lake.log("evaluations").rows(["at", "type", "metric", "value"], where).to_pylist()
    scores: dict[str, dict[str, float]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        scores.setdefault(row["type"], {})[row["metric"]] = row["value"]
    return scores


def history(lake: Lake) -> list[dict[str, object]]:
    """Every evaluation, the newest last: `at`, `tables`, `golden`, and a key for each metric over all."""
    columns = ["at", "tables", "golden", "metric", "value"]
    rows = lake.log("evaluations").rows(columns, eq("type", ALL)).to_pylist()
    found: dict[tuple[datetime, str, str], dict[str, object]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        key = (row["at"], row["tables"], row["golden"])
        made = found.setdefault(key, {"at": row["at"], "tables": row["tables"], "golden": row["golden"]})
        made[row["metric"]] = row["value"]
    return list(found.values())


def metrics(summary: Summary) -> dict[str, float]:
    """A summary as the log has it: measures by place, latency, number of questions."""
    of_measures = {name: estimate.mean for name, estimate in summary.by_place.items()}
    spent = {"p50_ms": summary.p50_ms, "p95_ms": summary.p95_ms}
    return {**of_measures, **spent, "questions": float(summary.questions)}


def _evaluated(
    lake: Lake, settings: Settings, golden: Golden, tables: Mapping[str, int], report: Report
) -> Evaluated:
    responses = ask(lake, settings, golden.questions, tables, report=report)
    scores = {summary.type: metrics(summary) for summary in summaries(responses)}
    mark, at = golden_of(golden, settings), datetime.now(UTC)
    shared = {"at": at, "tables": _named(tables), "golden": mark}
    rows = [
        {**shared, "type": type_, "metric": metric, "value": value}
        for type_, values in scores.items()
        for metric, value in values.items()
    ]
    append(lake, "evaluations", rows)
    return Evaluated(dict(tables), mark, scores, tuple(responses))


async def _ask(
    lake: Lake,
    settings: Settings,
    questions: Sequence[Question],
    tables: Mapping[str, int],
    limit: int,
    report: Report,
) -> list[Response]:
    spaces = {space_of(settings.embedding_of(source)).name for source in settings.sources}
    calls = ModelCalls(lake)
    engine = Engine(settings, lake, index=ChosenIndex(lake, tables), record=calls.note)
    responses: list[Response] = []
    try:
        for question in questions[:1]:  # the first one opens models and tables: its time is not the search's
            await _answer(engine, question, limit)
        for done, question in enumerate(questions, start=1):
            answer = await _answer(engine, question, limit)
            _require_vectors(answer, spaces)
            found = tuple(_found(result) for result in answer.results)
            timings, degraded = dict(answer.timings_ms), answer.degraded
            responses.append(Response(question, found, answer.took_ms, timings, degraded))
            report("evaluate", done, len(questions))
    finally:
        await engine.aclose()
        calls.close()
    return responses


async def _answer(engine: Engine, question: Question, limit: int) -> Answer:
    return await engine.search(
        question.text,
        Access.operator(),
        type=question.type,
        filters=Filters(**question.filters),
        limit=limit,
        explain=True,
    )


def _require_vectors(answer: Answer, spaces: set[str]) -> None:
    """Refuse an answer by words alone, in a space that the settings fill."""
    reasons = answer.explain["degraded"].get("vector", {}) if answer.explain else {}
    for space, reason in reasons.items():
        if space in spaces:
            raise EmbeddingUnavailable(f"the golden questions cannot be asked without vectors: {reason}")


def _found(result: Result) -> Found:
    known = result.metadata
    symbols = {known.get("symbol") or "", *(known.get("symbols") or ())}
    return Found(
        id=result.id,
        source=result.citation.source,
        uri=str(known.get("uri", "")),
        path=result.citation.path,
        symbols=frozenset(map(str, symbols - {""})),
    )


def _named(tables: Mapping[str, int]) -> str:
    return json.dumps(dict(tables), sort_keys=True)


def _quality(scores: Scores) -> float | None:
    return scores.get(ALL, {}).get(QUALITY)
