"""The steps of a search, asked one by one."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.config.settings import QuerySettings, RerankSettings
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.extensions.tuning import build_step_settings, run_steps
from knowledge_pipeline.store.release import newest_index_versions
from knowledge_pipeline_tests.conftest import Project


def test_the_steps_of_a_search_without_rerank() -> None:
    made = build_step_settings(QuerySettings(fusion="reciprocal_rank", vector_weight=0.3))
    assert list(made) == ["vector", "bm25", "fused"]
    alone = {step: (made[step].fusion, made[step].vector_weight) for step in ("vector", "bm25")}
    assert alone == {"vector": ("weighted", 1.0), "bm25": ("weighted", 0.0)}
    assert made["fused"] == QuerySettings(fusion="reciprocal_rank", vector_weight=0.3)


def test_only_the_last_step_reranks() -> None:
    query = QuerySettings(rerank=RerankSettings(model="some", types=("code",)))
    made = build_step_settings(query)
    assert list(made) == ["vector", "bm25", "fused", "reranked"] and made["reranked"] == query
    assert all(not made[step].rerank.types for step in ("vector", "bm25", "fused"))


def test_every_step_that_is_on_is_added_to_fused_alone() -> None:
    rerank = RerankSettings(kind="llm", types=("semantic",))
    query = QuerySettings(hyde=True, expansion="llm", decompose="rules", rerank=rerank)
    made = build_step_settings(query)
    assert list(made) == ["vector", "bm25", "fused", "hyde", "expansion", "decompose", "reranked", "all"]
    fused = made["fused"]
    assert fused == QuerySettings(rerank=RerankSettings(kind="llm"))
    assert made["expansion"] == fused.model_copy(update={"expansion": "llm"})
    assert made["reranked"] == fused.model_copy(update={"rerank": rerank})
    assert made["all"] == query
    assert made["vector"].feedback == made["bm25"].feedback == 0.0


def test_one_step_that_is_on_is_not_shown_twice() -> None:
    assert list(build_step_settings(QuerySettings(decompose="rules"))) == [
        "vector",
        "bm25",
        "fused",
        "decompose",
    ]


def test_the_same_questions_are_asked_of_every_step(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "sessions.py").write_text("def sign_session(key):\n    return key\n")
    (folder / "retries.py").write_text("def retry_request(send):\n    return send()\n")
    project.declare("app", "code", folder)
    project.refresh()
    asked = [GoldenQuestion("sign session", (GoldenAnswer("sessions.py"),), "code")]
    reported: list[str] = []
    made = run_steps(
        project.lake,
        project.settings,
        asked,
        newest_index_versions(project.lake),
        None,
        progress_for=lambda step: lambda stage, done, total: reported.append(step),
    )
    assert reported == list(made) == ["vector", "bm25", "fused"]
    assert all(found.chunks[0].path == "sessions.py" for (found,) in made.values())
    (fused,) = made["fused"]
    assert {"retrieve", "fuse"} <= fused.timings_ms.keys() and fused.degraded == ()
