"""What counts as relevant, and what counts as the same."""

from __future__ import annotations

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import QuerySettings, Settings
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.search.rows import publish, row, write

LONG = "the session is signed with the key of the tenant and kept for an hour at most, then it is renewed"


def found(settings: Settings, text: str, **query: object) -> list[str]:
    changed = settings.model_copy(update={"query": QuerySettings.model_validate(query)})
    with KnowledgeBase.open(changed) as base:
        return [result.citation.path for result in base.search(text, limit=20).results]


@pytest.fixture
def shelf(lake: Lake, space: str) -> None:
    write(lake, space, [row("refunds are booked", "a.py"), row("lamps of the office", "b.py")])
    publish(lake)


@pytest.mark.usefixtures("shelf")
def test_nothing_relevant_is_an_answer(settings: Settings):
    assert len(found(settings, "quantum chromodynamics")) == 2
    assert found(settings, "quantum chromodynamics", floor=0.6) == []
    assert found(settings, "refunds are booked", floor=0.6) == ["a.py"]


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("fusion", ["weighted", "reciprocal_rank"])
def test_scores_that_mean_something_else_in_each_answer_have_no_floor(settings: Settings, fusion: str):
    assert len(found(settings, "quantum chromodynamics", floor=0.99, fusion=fusion)) == 2


@pytest.mark.usefixtures("shelf")
def test_a_boost_of_one_result_does_not_push_others_below_the_floor(
    settings: Settings, lake: Lake, space: str
):
    write(lake, space, [row("by hand", "named.py", symbol="book_refunds")])
    publish(lake)
    asked = "refunds are booked by `book_refunds`"
    with KnowledgeBase.open(settings) as base:
        results = {one.citation.path: one for one in base.search(asked, limit=20, explain=True).results}
    explained = results["a.py"].explain
    assert explained is not None and results["a.py"].score < explained.fused
    between = (results["a.py"].score + explained.fused) / 2
    assert "a.py" in found(settings, asked, floor=between)
    assert "a.py" not in found(settings, asked, floor=explained.fused + 0.01)


def test_of_nearly_equal_results_the_best_is_shown(base: KnowledgeBase, lake: Lake, space: str):
    write(lake, space, [
        row(f"{LONG} again and again in all of the places", "a.py"),
        row(f"{LONG} again and again in all of the cases", "b.py"),
        row("the session of the office", "c.py"),
    ])  # fmt: skip
    publish(lake)

    def paths(type_: str) -> set[str]:
        return {result.citation.path for result in base.search(LONG, type=type_).results}  # type: ignore[arg-type]

    assert paths("semantic") == paths("code")
    assert len(paths("semantic") & {"a.py", "b.py"}) == 1 and "c.py" in paths("semantic")
    assert paths("similar") == {"a.py", "b.py", "c.py"}
