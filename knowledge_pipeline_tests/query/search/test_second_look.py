"""The second look at prose."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import QuerySettings, Settings
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.search.rows import publish, row, write

TEXTS = {
    "first": "refunds are booked by the ledger",
    "second": "the ledger is closed each evening",
    "third": "lamps of the office",
}
Ask = Callable[[float, str], dict[str, float]]


@pytest.fixture
def ask(settings: Settings, lake: Lake, space: str) -> Ask:
    """Scores by path of what is found with a share of feedback, for rows of a type."""

    def search(share: float, source_type: str) -> dict[str, float]:
        rows = [row(text, f"{name}.md", source_type=source_type, header="") for name, text in TEXTS.items()]
        write(lake, space, rows)
        publish(lake)
        query = QuerySettings(feedback=share)
        with KnowledgeBase.open(settings.model_copy(update={"query": query})) as base:
            answer = base.search("refunds booked", limit=3)
        return {result.citation.path: result.score for result in answer.results}

    return search


def test_prose_in_the_words_of_the_best_answer_comes_nearer(ask: Ask) -> None:
    before, after = ask(0.0, "markdown"), ask(1.0, "markdown")
    assert after["second.md"] > before["second.md"]
    assert after["second.md"] - after["third.md"] > before["second.md"] - before["third.md"]
    assert after["first.md"] == pytest.approx(before["first.md"], abs=0.2)


def test_code_is_left_as_it_was_found(ask: Ask) -> None:
    assert ask(0.0, "code") == ask(1.0, "code")


def test_nothing_comes_in_that_the_caller_may_not_see(settings: Settings, lake: Lake, space: str) -> None:
    hidden = {"visibility": "private", "tenant": "t", "principals": ["someone"], "source_type": "markdown"}
    write(lake, space, [row(TEXTS["first"], "first.md", source_type="markdown")])
    write(lake, space, [row(TEXTS["second"], "second.md", **hidden)])
    publish(lake)
    with KnowledgeBase.open(settings, access=Access.public()) as base:
        found = base.search("refunds booked", limit=3)
    assert [result.citation.path for result in found.results] == ["first.md"]
