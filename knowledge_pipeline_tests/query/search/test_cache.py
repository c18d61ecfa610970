"""Answers that are kept: for the same question, the same access, the same release; and what is not."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime

import pytest

from knowledge_pipeline import Access, KnowledgeBase
from knowledge_pipeline.config.settings import CacheSettings, Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.errors import NotFound, StoreError
from knowledge_pipeline.query import plan
from knowledge_pipeline.query.access import Caller
from knowledge_pipeline.query.answer_cache import AnswerCache
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release
from knowledge_pipeline_tests.query.search.rows import publish, row, write

JANE = Access("acme", frozenset({"jane"}))
JOE = Access("acme", frozenset({"joe"}))


@pytest.fixture
def base(base: KnowledgeBase, lake: Lake, space: str) -> KnowledgeBase:
    secret = {"visibility": "private", "tenant": "acme", "principals": ["jane"]}
    write(lake, space, [row("alpha", "a.py"), row("alpha secret", "s.py", source="hers", **secret)])
    publish(lake)
    return base


def paths(answer) -> list[str]:
    return [result.citation.path for result in answer.results]


def test_the_same_question_is_answered_again_with_an_id_of_its_own(base: KnowledgeBase) -> None:
    first, second = base.search("alpha"), base.search("alpha")
    assert (first.cached, second.cached) == (False, True)
    assert second.results == first.results
    assert second.query_id != first.query_id
    assert second.as_json()["cached"] is True


@pytest.mark.parametrize(
    "other",
    [
        {"type": "code"},
        {"limit": 1},
        {"explain": True},
        {"filters": Filters(languages=("python",))},
        {"access": JANE},
        {"access": JOE},
        {"access": Access.public()},
    ],
    ids=str,
)
def test_whatever_differs_is_another_question(base: KnowledgeBase, other: dict) -> None:
    base.search("alpha")
    assert not base.search("alpha", **other).cached
    assert base.search("alpha", **other).cached


def test_nobody_is_given_what_was_found_for_somebody_else(base: KnowledgeBase) -> None:
    assert "s.py" in paths(base.search("alpha secret", access=JANE))
    assert paths(base.search("alpha secret", access=JOE)) == ["a.py"]
    again = base.search(
        "alpha secret", access=Access("acme", frozenset({"jane"}), caller=Caller("http", "t"))
    )
    assert again.cached
    assert "s.py" in paths(again)


def test_a_new_release_is_seen_at_once(base: KnowledgeBase, lake: Lake, space: str) -> None:
    base.search("alpha")
    write(lake, space, [row("alpha anew", "new.py")])
    publish(lake)
    answer = base.search("alpha")
    assert not answer.cached
    assert "new.py" in paths(answer)


def test_an_answer_is_forgotten_in_time_and_can_be_switched_off(
    settings: Settings, base: KnowledgeBase
) -> None:
    for minutes in (0.2 / 60, 0):
        cache = CacheSettings(ttl_minutes=minutes)
        query = settings.query.model_copy(update={"cache": cache})
        with KnowledgeBase.open(settings.model_copy(update={"query": query})) as other:
            other.search("alpha")
            time.sleep(minutes * 60 + 0.01)
            assert not other.search("alpha").cached


def test_similar_is_kept_too_and_the_log_says_so(base: KnowledgeBase, lake: Lake) -> None:
    assert [base.similar(path="a.py").cached for _ in range(2)] == [False, True]
    base.close()
    table = lake.log_table("queries")
    assert sorted(table.read_rows(["cached"])["cached"].to_pylist()) == [False, True]


def test_a_space_that_is_gone_is_said_and_the_others_answer(
    base: KnowledgeBase, lake: Lake, space: str
) -> None:
    other = f"{space}-other"
    write(lake, other, [row("alpha beside", "o.py", source="beside")])
    publish(lake)
    assert set(paths(base.search("alpha"))) == {"a.py", "s.py", "o.py"}
    shutil.rmtree(lake.root / "index" / f"{other}.lance")
    answer = base.search("alpha beside", explain=True)  # its reader is open already
    assert answer.degraded == ("index",)
    assert set(paths(answer)) == {"a.py", "s.py"}
    assert answer.explain
    assert other in str(answer.explain["degraded"]["index"])
    assert not base.search("alpha beside", explain=True).cached
    with pytest.raises(StoreError, match="knowledge rollback"):
        base.get("beside:o.py")


def test_where_nothing_can_be_read_the_question_fails(base: KnowledgeBase, lake: Lake, space: str) -> None:
    shutil.rmtree(lake.root / "index" / f"{space}.lance")
    with pytest.raises(StoreError, match="cannot be read"):
        base.search("alpha")
    with pytest.raises((StoreError, NotFound)):
        base.get("app:a.py")


def test_the_cache_is_bounded(base: KnowledgeBase) -> None:
    answer, release = base.search("alpha"), Release(1, datetime.now(UTC), {}, rows=1)
    cache = AnswerCache(CacheSettings(max_megabytes=1))
    assert cache.get(release, 0) is None
    for number in range(1_000):  # 2 kB and more each
        cache.put(release, number, answer)
    assert cache.get(release, 999)
    assert cache.get(release, 0) is None
    assert 50 < sum(cache.get(release, number) is not None for number in range(1_000)) < 500


def test_a_condition_that_the_store_refuses_takes_nothing_from_others(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Filter("no_such_column = 1")
    with monkeypatch.context() as patched:
        patched.setattr(plan, "compile_filter", lambda *_: refused)
        with pytest.raises(StoreError):
            base.search("alpha")
    assert set(paths(base.search("alpha"))) == {"a.py", "s.py"}
