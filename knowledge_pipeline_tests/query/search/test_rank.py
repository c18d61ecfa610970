from __future__ import annotations

from datetime import timedelta

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.contract.responses import ScoreExplanation
from knowledge_pipeline.query.hits import Hit, IndexedChunk
from knowledge_pipeline.query.rank import HALF_LIFE_DAYS, boost_recent
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.search.rows import MOMENT, publish, row, write


def hit(id: str, score: float, *, days_ago: float | None) -> Hit:
    moment = None if days_ago is None else (MOMENT - timedelta(days=days_ago)).isoformat()
    told = {"last_modified": moment} if moment else {}
    chunk = IndexedChunk(id=id, source="s", uri=id, path=id, text=id, content_hash=id, metadata=told)
    return Hit(chunk, score, ScoreExplanation("space", 1, score, None, None, {}, score))


def test_the_recent_comes_first_among_equals_and_the_better_stays_before_it() -> None:
    hits = [hit("a", 0.5, days_ago=900), hit("b", 0.5, days_ago=10), hit("c", 0.6, days_ago=2000)]
    assert [each.chunk.id for each in boost_recent(hits, 0.05)] == ["c", "b", "a"]


def test_what_is_a_half_life_older_than_the_newest_gets_half() -> None:
    hits = [hit("new", 0.5, days_ago=400), hit("old", 0.5, days_ago=400 + HALF_LIFE_DAYS)]
    boosts = [each.explanation.boosts["recency"] for each in boost_recent(hits, 0.05)]
    assert boosts == [0.05, pytest.approx(0.025)]


def test_scores_stay_between_0_and_1_and_no_date_is_no_boost() -> None:
    found = boost_recent([hit("a", 1.0, days_ago=0), hit("b", 1.0, days_ago=None)], 0.05)
    assert [(each.score, each.explanation.boosts) for each in found] == [
        (1.0, {"recency": 0.05}),
        (1.0, {}),
    ]
    undated = [hit("b", 0.4, days_ago=None)]
    assert boost_recent(undated, 0.05) == undated and boost_recent([], 0.05) == []


def test_history_alone_favours_the_recent(base: KnowledgeBase, lake: Lake, space: str) -> None:
    commit = {"source": "log", "source_type": "git_history", "language": None}
    write(lake, space, [
        row("token fixed", "1aaa", header="", last_modified=MOMENT - timedelta(days=2000), **commit),
        row("token fixed!", "2bbb", header="", last_modified=MOMENT, **commit),
    ])  # fmt: skip
    publish(lake)
    found = base.search("token fixed", type="historical", explain=True).results
    assert [result.citation.path for result in found] == ["2bbb", "1aaa"]
    plain = base.search("token fixed", explain=True).results
    assert all(result.explain and "recency" not in result.explain.boosts for result in plain)
