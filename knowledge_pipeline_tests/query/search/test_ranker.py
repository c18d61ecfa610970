"""What a hit and its file say about a question, and the order and the scores that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.query.search.features import FEATURES, compute_features
from knowledge_pipeline.query.search.hits import (
    FusedCandidates,
    Hit,
    Hits,
    IndexedChunk,
    ScoreParts,
    to_outlines,
)
from knowledge_pipeline.query.search.ranker import RankingModel, load_model, rank_hits
from knowledge_pipeline.query.search.understand import understand
from knowledge_pipeline_tests.thoroughness import examples


def hit(
    path: str,
    score: float = 0.5,
    *,
    id: str = "",
    source_type: str = "code",
    symbol: str | None = None,
    symbols: tuple[str, ...] = (),
) -> Hit:
    metadata: dict[str, Any] = {"source_type": source_type, **({"symbol": symbol} if symbol else {})}
    chunk = IndexedChunk(
        id=id or path,
        source="s",
        uri=path,
        path=path,
        text="",
        content_hash=id or path,
        symbols=(symbol,) if symbol else symbols,
        metadata=metadata,
    )
    return Hit(chunk, score, ScoreParts("one", None, None, None, None, boosts={}, fused=score))


def as_columns(hits: Sequence[Hit]) -> Hits:
    parts = [each.explanation for each in hits]
    nothing = [0] * len(hits)
    found = FusedCandidates(
        to_outlines(each.chunk for each in hits),
        rows=[each.row for each in hits],
        spaces=[each.space for each in parts],
        vector_ranks=nothing,
        similarities=nothing,
        word_ranks=nothing,
        word_scores=nothing,
        scores=np.array([each.fused for each in parts]),
    )
    return Hits(found, np.arange(len(hits)), found.scores)


def rank(hits: Sequence[Hit], question: str, **options: Any) -> list[Hit]:
    return list(rank_hits(as_columns(hits), understand(question), **options))


def read_features(question: str, hits: Sequence[Hit]) -> np.ndarray:
    fused = np.array([each.explanation.fused for each in hits])
    return compute_features(to_outlines(each.chunk for each in hits), fused, understand(question))


def features(question: str, *hits: Hit) -> list[dict[str, float]]:
    return [dict(zip(FEATURES, row, strict=True)) for row in read_features(question, hits).tolist()]


def ranked(question: str, *hits: Hit, diverse: bool = True) -> list[str]:
    return [each.chunk.id for each in rank(hits, question, diverse=diverse)]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("where is Store.get", hit("a.py", symbols=("app.Store.get",))),
        ("where is store::get", hit("a.py", symbols=("Store.get",))),
        ("why does `get` fail", hit("a.py", symbols=("Other", "Store.get"))),
        ("what is in auth.py", hit("src/auth.py")),
        ("what is in src/auth.py", hit("lib/src/auth.py")),
    ],
)
def test_a_named_symbol_or_file_comes_first_among_equals(asked: str, named: Hit) -> None:
    assert ranked(asked, hit("0.py"), named)[0] == named.chunk.id


def test_a_longer_name_that_ends_alike_is_not_named() -> None:
    (found,) = features("`get` in auth.py", hit("xauth.py", symbols=("forget",)))
    assert found["symbol"] == found["path"] == 0.0


def test_a_file_that_is_named_after_the_question_rises() -> None:
    better, named = hit("app/core.py", 0.62), hit("app/sessions.py", 0.60)
    assert ranked("how is a session signed", better, named) == ["app/sessions.py", "app/core.py"]
    assert ranked("how is a cookie signed", better, named) == ["app/core.py", "app/sessions.py"]


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("how does routing work", "src/routes.py"),
        ("how does routing work", "src/requestRouting.rs"),
        ("how does routing work", "src/router.go"),
        ("how extractors are built", "src/extract/mod.rs"),
        ("session handling", "session/__init__.py"),
        ("session handling", "session/index.ts"),
    ],
)
def test_names_are_split_as_identifiers_and_compared_by_their_stems(question: str, path: str) -> None:
    (found,) = features(question, hit(path))
    assert found["file_name"] > 0.0


def test_short_words_that_begin_alike_are_different_names() -> None:
    (found,) = features("how are testimonials and apps shown", hit("src/test_app.py"))
    assert found["file_name"] == 0.5, "`app` alone"


def test_tests_and_generated_code_fall_unless_they_are_asked_for() -> None:
    source, test, made = hit("src/a.py", 0.5), hit("tests/test_a.py", 0.55), hit("src/vendor/a.py", 0.55)
    assert ranked("what is released", source, test, made)[0] == "src/a.py"
    assert ranked("which test covers a release", source, test, made)[0] == "tests/test_a.py"


def test_a_file_of_which_more_was_found_is_more_coherent() -> None:
    many = [hit("a.py", 0.4, id=f"a{number}") for number in range(3)]
    found = features("anything", *many, hit("b.py", 0.5), hit("c.md", 0.9, source_type="markdown"))
    coherence = [each["coherence"] for each in found]
    assert coherence[:3] == [1.0] * 3
    assert coherence[3:] == [pytest.approx(0.5 / (0.4 * 2.19)), 0.0], "a page of prose stands alone"


def test_one_good_chunk_is_more_coherent_than_two_poor_ones() -> None:
    found = features("anything", hit("a.py", 0.3, id="a1"), hit("a.py", 0.3, id="a2"), hit("b.py", 0.55))
    assert [each["coherence"] for each in found] == [pytest.approx(0.51 / 0.55)] * 2 + [1.0]


def test_one_file_does_not_crowd_out_others_in_a_diverse_list() -> None:
    hits = [hit("a.md", 0.9 - number / 100, id=f"a{number}", source_type="markdown") for number in range(4)]
    others = [hit("b.md", 0.88, source_type="markdown")]
    assert ranked("anything", *hits, *others)[1] == "b.md"
    assert ranked("anything", *hits, *others, diverse=False) == ["a0", "a1", "a2", "b.md", "a3"]


def test_what_has_no_path_of_its_own_choosing_keeps_its_order() -> None:
    tickets = [hit("SHOP-1", 0.9 - n / 100, id=f"{n}", source_type="jira") for n in range(4)]
    found = rank([*tickets, hit("tests/SHOP", 0.7, source_type="jira")], "shop")
    assert [each.chunk.id for each in found] == ["0", "1", "2", "3", "tests/SHOP"]
    assert all(each.explanation.boosts == {} for each in found)


def test_a_score_does_not_depend_on_what_else_the_question_found() -> None:
    one = hit("a.md", 0.6, source_type="markdown")
    other = hit("session.md", 0.3, source_type="markdown")
    alone, together = rank([one], "session"), rank([one, other], "session")
    assert alone[0] == together[0]


def test_the_model_of_the_package_has_the_signs_that_it_was_trained_with() -> None:
    model = load_model()
    assert set(model.weights) == set(FEATURES[1:])
    assert all(weight >= 0 for name, weight in model.weights.items() if name != "role")
    assert model.weights["role"] <= 0
    assert 0 < model.repeat_factor <= 1


PATHS = st.sampled_from(
    ["a.py", "tests/a.py", "shop/cart.py", "shop/__init__.py", "vendor/cart.js", "README.md", "", "/"]
)
TYPES = st.sampled_from(["code", "markdown", "jira", "slack"])
SYMBOLS = st.sampled_from([None, "Cart", "Shop.cart", "of_a_shop"])
HITS = st.lists(st.tuples(PATHS, st.floats(0, 1), TYPES, SYMBOLS), max_size=12)
QUESTIONS = st.sampled_from(["cart", "the tests of a shop", "what", "`Shop.cart` in cart.py"])


def build_hits(found: list[tuple[str, float, str, str | None]]) -> list[Hit]:
    return [
        hit(path, score, id=str(at), source_type=type_, symbol=symbol)
        for at, (path, score, type_, symbol) in enumerate(found)
    ]


@settings(max_examples=examples(100), deadline=None)
@given(HITS, QUESTIONS, st.booleans(), st.randoms())
def test_every_hit_is_kept_with_a_score_between_0_and_1_whatever_the_order(
    found: list[tuple[str, float, str, str | None]], question: str, diverse: bool, random: Random
) -> None:
    hits = build_hits(found)
    ranked_ = rank(hits, question, diverse=diverse)
    assert sorted(each.chunk.id for each in ranked_) == sorted(each.chunk.id for each in hits)
    assert all(0 <= each.score <= 1 for each in ranked_)
    order = [(-each.score, each.chunk.id) for each in ranked_]
    assert order == sorted(order)
    assert rank(random.sample(hits, len(hits)), question, diverse=diverse) == ranked_


@settings(max_examples=examples(100), deadline=None)
@given(HITS, QUESTIONS)
def test_the_explanation_adds_up_to_the_score(
    found: list[tuple[str, float, str, str | None]], question: str
) -> None:
    share = load_model().shares[0]
    for each in rank(build_hits(found), question):
        total = share * each.explanation.fused + sum(each.explanation.boosts.values())
        assert each.score == pytest.approx(max(0.0, total)) or total < 0


@settings(max_examples=examples(100), deadline=None)
@given(HITS, QUESTIONS)
def test_features_are_between_0_and_1(found: list[tuple[str, float, str, str | None]], question: str) -> None:
    rows = read_features(question, build_hits(found))
    assert rows.shape == (len(found), len(FEATURES))
    assert ((rows >= 0) & (rows <= 1)).all()


@settings(max_examples=examples(100), deadline=None)
@given(HITS.filter(bool), QUESTIONS, st.data())
def test_a_hit_that_the_searches_find_better_never_ranks_lower(
    found: list[tuple[str, float, str, str | None]], question: str, data: st.DataObject
) -> None:
    hits = build_hits(found)
    at = data.draw(st.integers(0, len(hits) - 1))
    score = data.draw(st.floats(hits[at].score, 1))
    better = hits[at]._replace(score=score, explanation=hits[at].explanation._replace(fused=score))
    alone = RankingModel({**load_model().weights, "coherence": 0.0}, 1.0)  # which counts for others as well
    before = [each.chunk.id for each in rank(hits, question, model=alone)]
    after = [each.chunk.id for each in rank([*hits[:at], better, *hits[at + 1 :]], question, model=alone)]
    assert after.index(str(at)) <= before.index(str(at))


def test_shares_of_a_model_add_up_to_the_highest_score() -> None:
    shares = RankingModel({"file_name": 0.5, "role": -0.25}, 1.0).shares
    assert shares.clip(min=0).sum() == pytest.approx(1.0)
    assert np.count_nonzero(shares) == 3
