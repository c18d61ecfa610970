"""Code that the best code found has to do with, ranked by real searches over real files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from knowledge_pipeline import Access, KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.query.search.rows import publish, row, write

ENTRY = """\
from engine import ignite


def launch_rocket_into_orbit():
    return ignite()
"""
ENGINE = """\
def ignite():
    return "fuel burns near the rocket"


def cool_down():
    return "water runs near the rocket"
"""
HIDDEN = """\
from engine import cool_down


def launch_rocket_into_orbit_quietly():
    return cool_down()
"""
QUESTION = "launch rocket into orbit"


@pytest.fixture
def rocket(project: Project, tmp_path: Path) -> Project:
    """A program that calls one of two functions alike; a hidden one calls the other."""
    for folder, files in (
        ("open", {"entry.py": ENTRY, "engine.py": ENGINE}),
        ("hidden", {"quiet.py": HIDDEN}),
    ):
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)
    method = {"chunking": {"strategy": "ast_aware", "granularity": "method", "min_tokens": 0}}
    project.declare("open", "code", tmp_path / "open", **method)
    project.refresh()
    return project


def hide_a_caller(project: Project) -> None:
    hidden = {"visibility": "private", "tenant": "red", "principals": ["ann"]}
    project.declare("hidden", "code", project.root / "hidden", access=hidden)
    project.refresh()


def search(settings: Settings, weight: float, **options: object) -> SearchResponse:
    graph = settings.query.graph.model_copy(update={"expansion_weight": weight})
    query = settings.query.model_copy(update={"graph": graph})
    with KnowledgeBase.open(settings.model_copy(update={"query": query})) as base:
        return base.search(QUESTION, **{"type": "code", **options})  # pyright: ignore[reportArgumentType]


def scores(answer: SearchResponse) -> dict[str, float]:
    """Of each definition."""
    return {each.metadata["symbol"]: each.score for each in answer.results if "symbol" in each.metadata}


def boosts(answer: SearchResponse) -> dict[str, Mapping[str, float]]:
    """Of each definition, by what it was favoured."""
    explained = [each for each in answer.results if "symbol" in each.metadata and each.explain]
    return {each.metadata["symbol"]: each.explain.boosts for each in explained if each.explain}


def test_what_the_best_hit_calls_rises_over_what_is_as_like(rocket: Project):
    before, after = scores(search(rocket.settings, 0.0)), scores(search(rocket.settings, 0.5))
    assert next(iter(after)) == "launch_rocket_into_orbit"
    assert after["ignite"] / after["cool_down"] > before["ignite"] / before["cool_down"]
    assert all(0 <= score <= 1 for score in after.values())


def test_why_a_hit_rose_is_told(rocket: Project):
    answer = search(rocket.settings, 0.5, explain=True)
    assert boosts(answer)["ignite"]["graph"] > 0 and "graph" not in boosts(answer)["cool_down"]
    assert answer.timings_ms["follow"] > 0


@pytest.mark.slow
def test_a_hidden_caller_changes_no_score(rocket: Project):
    before = scores(search(rocket.settings, 0.5, access=Access.public()))
    hide_a_caller(rocket)
    assert set(scores(search(rocket.settings, 0.5))) > set(before)
    assert list(scores(search(rocket.settings, 0.5, access=Access.public()))) == list(before)
    public = boosts(search(rocket.settings, 0.5, access=Access.public(), explain=True))
    assert "graph" not in public["cool_down"]
    assert boosts(search(rocket.settings, 0.5, explain=True))["cool_down"]["graph"] > 0


def test_other_searches_are_left_as_they_are(rocket: Project):
    assert scores(search(rocket.settings, 0.5, type="semantic")) == scores(
        search(rocket.settings, 0.0, type="semantic")
    )


def test_without_a_code_graph_the_order_stands_and_it_is_said(settings: Settings, lake: Lake, space: str):
    write(lake, space, [row("launch the rocket"), row("the orbit", "b.py")])
    publish(lake, graph=False)
    answer = search(settings, 0.5)
    assert answer.degraded == ("graph",)
    assert [each.id for each in answer.results] == [each.id for each in search(settings, 0.0).results]
