"""Evaluations of a real index: what is asked, what is written down, what keeps a release back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowledge_pipeline.config.operation import EvaluationSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ReleaseRefused
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion, GoldenSet
from knowledge_pipeline.stages import evaluate, pipeline
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.evaluate import evaluation_key
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.refreshed import refresh_source

QUESTIONS = """
type: code
questions:
  - {question: how is a session signed, answers: [{path: sessions.py, symbol: sign_session}]}
  - {question: send a request again, answers: [{path: retries.py, symbol: retry_request}]}
"""
SIGNED = 'def sign_session(key):\n    """How a session is signed."""\n    return key\n'
RETRIED = 'def retry_request(send):\n    """Send a request again."""\n    return send()\n'
WORSE = "def other():\n    return 1\n"


@pytest.fixture
def folder(project: Project, tmp_path: Path) -> Path:
    """A source of two files, not refreshed yet, and two questions about it."""
    made = tmp_path / "repo"
    made.mkdir()
    (made / "sessions.py").write_text(SIGNED)
    (made / "retries.py").write_text(RETRIED)
    (tmp_path / "golden.yaml").write_text(QUESTIONS)
    project.declare("app", "code", made)
    return made


def settings(project: Project, **evaluation: object) -> Settings:
    """With the questions, and limits."""
    made = EvaluationSettings.model_validate({"questions": [project.root / "golden.yaml"], **evaluation})
    return project.settings.model_copy(update={"evaluation": made})


def index(project: Project) -> None:
    """Up to the index, releasing nothing."""
    refresh_source(RefreshContext(project.lake, project.settings, project.settings.sources[0]))


def logged(project: Project) -> list[dict]:
    table = project.lake.log_table("evaluations")
    return table.read_rows(table.schema.names).to_pylist()


@pytest.mark.usefixtures("folder")
def test_the_newest_index_is_asked_before_anything_is_released(project: Project) -> None:
    index(project)
    assert find_live_release(project.lake) is None
    made = evaluate.refresh(project.lake, settings(project))
    assert made is not None and made.scores["all"]["nDCG@10"] == 1.0
    assert made.scores["code"]["questions"] == 2 and made.scores["all"]["p50_ms"] > 0
    rows = logged(project)
    assert {row["type"] for row in rows} == {"all", "code"}
    assert {row["metric"] for row in rows} == {
        *("nDCG@10", "R@10", "RR@10", "Success@1", "Success@5"),
        *("p50_ms", "p95_ms", "questions"),
    }
    assert {json.dumps(made.tables) for _ in rows} == {row["tables"] for row in rows}
    assert {row["golden"] for row in rows} == {made.golden_key}


@pytest.mark.usefixtures("folder")
def test_the_same_index_is_asked_the_same_questions_once(
    project: Project, embedding_server: OpenAIServer
) -> None:
    index(project)
    first = evaluate.refresh(project.lake, settings(project))
    asked, rows = len(embedding_server.requests), logged(project)
    second = evaluate.refresh(project.lake, settings(project))
    assert (len(embedding_server.requests), logged(project)) == (asked, rows)
    assert first is not None and second is not None
    assert (second.scores, second.tables, second.responses) == (first.scores, first.tables, ())


def test_other_questions_another_index_or_other_settings_are_asked_anew(
    project: Project, folder: Path
) -> None:
    index(project)
    evaluate.refresh(project.lake, settings(project))
    assert not evaluate.needs_evaluation(project.lake, settings(project))
    changed = settings(project)
    query = changed.query.model_copy(update={"vector_weight": 0.9})
    assert evaluate.needs_evaluation(project.lake, changed.model_copy(update={"query": query}))
    golden = project.root / "golden.yaml"
    golden.write_text(golden.read_text() + "  - {question: more, answers: [{path: retries.py}]}\n")
    assert evaluate.needs_evaluation(project.lake, settings(project))
    golden.write_text(QUESTIONS)
    (folder / "new.py").write_text("x = 1\n")
    index(project)
    assert evaluate.needs_evaluation(project.lake, settings(project))


@pytest.mark.usefixtures("folder")
def test_without_questions_or_without_an_index_nothing_is_done(project: Project) -> None:
    assert evaluate.refresh(project.lake, settings(project)) is None
    assert evaluate.find_release_problem(project.lake, settings(project)) is None
    index(project)
    assert evaluate.refresh(project.lake, project.settings) is None
    assert evaluate.find_release_problem(project.lake, project.settings) is None
    assert not evaluate.needs_evaluation(project.lake, project.settings)
    assert logged(project) == []


def test_an_index_that_was_not_asked_is_a_problem(project: Project, folder: Path) -> None:
    index(project)
    assert "is not evaluated by the golden questions" in (
        evaluate.find_release_problem(project.lake, settings(project)) or ""
    )
    evaluate.refresh(project.lake, settings(project))
    assert evaluate.find_release_problem(project.lake, settings(project)) is None
    (folder / "new.py").write_text("x = 1\n")
    index(project)
    assert "is not evaluated" in (evaluate.find_release_problem(project.lake, settings(project)) or "")


def test_scores_below_the_floor_are_a_problem(project: Project, folder: Path) -> None:
    (folder / "sessions.py").write_text(WORSE)
    index(project)
    evaluate.refresh(project.lake, settings(project))
    assert evaluate.find_release_problem(project.lake, settings(project, floor=0.5)) is None
    told = evaluate.find_release_problem(project.lake, settings(project, floor=0.6)) or ""
    assert "nDCG@10 0.500, below evaluation.floor (0.6)" in told


def test_of_what_is_live_already_there_is_nothing_to_forbid(project: Project, folder: Path) -> None:
    (folder / "sessions.py").write_text(WORSE)
    project.refresh()
    chosen = settings(project, floor=0.9)
    assert pipeline.refresh(project.lake, chosen, chosen.sources).failures == {}
    assert evaluate.find_release_problem(project.lake, chosen) is None


@pytest.mark.slow
def test_a_worse_index_is_indexed_and_not_released(project: Project, folder: Path) -> None:
    chosen = settings(project, floor=0.9)
    pipeline.refresh(project.lake, chosen, chosen.sources)
    (folder / "sessions.py").write_text(WORSE)
    refused = pipeline.refresh(project.lake, chosen, chosen.sources).failures["release"]
    assert isinstance(refused, ReleaseRefused) and "below evaluation.floor (0.9)" in str(refused)
    released = find_live_release(project.lake)
    assert (
        released is not None
        and released.release == 1
        and released.tables != evaluate.newest_index_versions(project.lake)
    )
    (folder / "sessions.py").write_text(SIGNED)
    assert pipeline.refresh(project.lake, chosen, chosen.sources).failures == {}


def test_scores_far_below_the_live_release_are_a_problem(project: Project, folder: Path) -> None:
    project.refresh()
    (folder / "sessions.py").write_text(WORSE)
    index(project)
    evaluate.refresh(project.lake, settings(project))  # the live release is asked too
    assert evaluate.find_release_problem(project.lake, settings(project, allowed_drop=0.5)) is None
    told = evaluate.find_release_problem(project.lake, settings(project, allowed_drop=0.4)) or ""
    assert "nDCG@10 0.500, the live release with 1.000" in told and "(0.4)" in told


def test_a_refresh_evaluates_and_then_releases(project: Project, folder: Path) -> None:
    chosen = settings(project, floor=0.9)
    outcome = pipeline.refresh(project.lake, chosen, chosen.sources)
    assert outcome.failures == {} and outcome.release is not None and outcome.release.version == 1
    assert len({row["tables"] for row in logged(project)}) == 1
    assert pipeline.refresh(project.lake, chosen, chosen.sources).failures == {}
    assert len({row["at"] for row in logged(project)}) == 1


@pytest.mark.usefixtures("folder")
def test_a_missing_file_of_questions_keeps_the_release_back_in_one_sentence(project: Project) -> None:
    (project.root / "golden.yaml").unlink()
    chosen = settings(project)
    outcome = pipeline.refresh(project.lake, chosen, chosen.sources)
    assert isinstance(outcome.failures["release"], ConfigError)
    assert str(outcome.failures["release"]).startswith("there are no golden questions at ")
    assert find_live_release(project.lake) is None and len(outcome.stats) == 5


@pytest.mark.usefixtures("folder")
def test_without_vectors_no_score_is_written_down(project: Project) -> None:
    with OpenAIServer() as server:
        project.embedding = embedding_by(server, max_tries=1)
        index(project)
    with pytest.raises(EmbeddingUnavailable, match="cannot be asked without vectors"):
        evaluate.refresh(project.lake, settings(project))
    assert logged(project) == []


def test_a_live_release_that_is_broken_does_not_keep_its_successor_from_being_evaluated(
    project: Project, folder: Path
) -> None:
    project.refresh()
    (folder / "new.py").write_text("x = 1\n")
    project.refresh()
    next((project.lake.root / "index").glob("*.lance")).rename(project.root / "lost.lance")
    index(project)
    made, released = evaluate.refresh(project.lake, settings(project)), find_live_release(project.lake)
    assert made is not None and made.scores["all"]["nDCG@10"] == 1.0
    assert released is not None and max(released.tables.values()) > max(made.tables.values())
    assert evaluate.find_release_problem(project.lake, settings(project)) is None


def test_the_history_is_one_entry_an_evaluation(project: Project, folder: Path) -> None:
    index(project)
    evaluate.refresh(project.lake, settings(project))
    (folder / "sessions.py").write_text(WORSE)
    index(project)
    evaluate.refresh(project.lake, settings(project))
    past = evaluate.list_evaluations(project.lake)
    assert [entry["nDCG@10"] for entry in past] == [1.0, 0.5]
    assert past[0]["at"] < past[1]["at"]  # type: ignore[operator]


def test_scores_compare_where_the_same_language_model_was_asked() -> None:
    golden = GoldenSet((GoldenQuestion("what", (GoldenAnswer("a.py"),)),))

    def mark(model: dict[str, object] | None, **query: object) -> str:
        return evaluation_key(
            golden, Settings.model_validate({"language_model": model, "query": query}), None
        )

    used = {"model": "one", "api_key": "first"}
    assert mark(used, hyde=True) == mark({**used, "api_key": "second", "timeout_s": 5}, hyde=True)
    marks = [
        mark(used, hyde=True),
        mark({**used, "model": "two"}, hyde=True),
        mark({**used, "base_url": "http://localhost/v1"}, hyde=True),
        mark(used),
    ]
    assert len(set(marks)) == len(marks)
    assert mark(used) == mark(None)
