from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.query.hits import IndexedChunk, SpaceCandidates, to_outlines
from knowledge_pipeline.query.rank import FusionMethod, fuse
from knowledge_pipeline_tests.thoroughness import examples

METHODS: tuple[FusionMethod, ...] = ("following", "weighted", "reciprocal_rank")


def chunk(id: str) -> IndexedChunk:
    return IndexedChunk(id=id, source="s", uri="a.py", path="a.py", text=id, content_hash=id)


def candidates(
    space: str,
    vectors: Mapping[str, float] | None,
    words: Mapping[str, float] | None,
    unrelated: float = 0.0,
) -> SpaceCandidates:
    """What both searches of a space found, by id, in the order given."""
    found = {**(vectors or {}), **(words or {})}
    near = {id: score if isfinite(score) else -inf for id, score in (vectors or {}).items()}
    similarities, word_scores = ([side.get(id, nan) for id in found] for side in (near, words or {}))
    rows = np.array([sorted(found).index(id) for id in found], np.int64)
    chunks = to_outlines(map(chunk, found))
    return SpaceCandidates(space, rows, chunks, np.array(similarities), np.array(word_scores), unrelated)


def fused(
    vectors: dict[str, float] | None,
    words: dict[str, float] | None,
    *,
    method: FusionMethod = "weighted",
    weight=0.5,
) -> list[tuple[str, float]]:
    hits = fuse([candidates("one", vectors, words)], method=method, vector_weight=weight)
    return [(hit.chunk.id, hit.score) for hit in hits]


def test_a_chunk_without_a_vector_competes_by_its_words():
    """Its similarity is taken to lie between that of a match by words and the best, as its words do."""
    vectors, words = {"near": 0.8, "far": 0.2}, {"near": 8.0, "far": 2.0, "best": 10.0, "weak": 1.0}
    found_ = dict(fused(vectors, words))
    assert list(found_) == ["best", "near", "weak", "far"]
    assert found_["best"] == pytest.approx(1.0)
    assert found_["weak"] == pytest.approx(0.5 * (0.5 + 0.5 * 0.1) + 0.5 * 0.1)


IDS = st.sampled_from([f"id{number}" for number in range(12)])
SIMILARITIES = st.dictionaries(IDS, st.integers(-100, 100).map(lambda n: n / 100), max_size=12)
BM25 = st.dictionaries(IDS, st.integers(1, 3000).map(lambda n: n / 100), max_size=12)
WEIGHTS = st.integers(0, 10).map(lambda n: n / 10)


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), st.lists(st.tuples(SIMILARITIES, BM25), max_size=3), WEIGHTS, st.sampled_from(METHODS))
def test_the_order_of_the_candidates_does_not_matter(data, spaces, weight, method):
    def shuffle(scores: dict[str, float]) -> dict[str, float]:
        return dict(data.draw(st.permutations(list(scores.items()))))

    given_ = [candidates(f"space{n}", v, w) for n, (v, w) in enumerate(spaces)]
    shuffled = [candidates(f"space{n}", shuffle(v), shuffle(w)) for n, (v, w) in enumerate(spaces)]
    hits = fuse(data.draw(st.permutations(shuffled)), method=method, vector_weight=weight)
    assert list(hits) == list(fuse(given_, method=method, vector_weight=weight))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(SIMILARITIES, BM25), min_size=1, max_size=3), WEIGHTS, st.sampled_from(METHODS))
def test_every_candidate_is_a_hit_once_with_a_score_between_0_and_1(spaces, weight, method):
    given_ = [candidates(f"space{n}", v, w) for n, (v, w) in enumerate(spaces)]
    hits = fuse(given_, method=method, vector_weight=weight)
    assert sorted(hit.chunk.id for hit in hits) == sorted(
        {id for space in spaces for side in space for id in side}
    )
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@settings(max_examples=examples(150), deadline=None)
@given(SIMILARITIES, BM25, WEIGHTS, st.sampled_from(METHODS), IDS, st.sampled_from(["vector", "bm25"]))
def test_a_better_score_never_gives_a_worse_rank(vectors, words, weight, method, id, side):
    scores = vectors if side == "vector" else words
    if id not in scores:
        return
    before = [each for each, _ in fused(vectors, words, method=method, weight=weight)].index(id)
    better = scores | {id: scores[id] + 0.3}
    raised = (better, words) if side == "vector" else (vectors, better)
    assert [each for each, _ in fused(*raised, method=method, weight=weight)].index(id) <= before


@pytest.mark.parametrize("method", METHODS)
def test_equal_scores_are_ordered_by_id(method: FusionMethod):
    assert [id for id, _ in fused({"c": 0.5, "a": 0.5, "b": 0.5}, None, method="weighted")] == ["a", "b", "c"]
    assert fused({"b": 0.9, "a": 0.1}, {"a": 2.0, "b": 1.0}, method=method) == fused(
        {"a": 0.1, "b": 0.9}, {"b": 1.0, "a": 2.0}, method=method
    )


@pytest.mark.parametrize(
    ("vectors", "words"), [(None, {"a": 3.0, "b": 1.0}), ({"a": 0.9, "b": 0.2}, None), ({}, {"a": 3.0})]
)
def test_one_search_alone_has_all_the_weight(vectors, words):
    assert fused(vectors, words, weight=0.3)[0] == ("a", 1.0)


def test_the_weight_decides_between_the_searches():
    vectors, words = {"v": 0.9, "w": 0.1}, {"w": 9.0, "v": 1.0}
    assert fused(vectors, words, weight=0.9)[0][0] == "v"
    assert fused(vectors, words, weight=0.1)[0][0] == "w"


def test_nothing_found_is_an_empty_list():
    assert list(fuse([], method="weighted", vector_weight=0.5)) == []
    assert fused({}, {}) == []


def test_scores_that_are_no_numbers_are_not_found_at_all():
    assert fused({"a": float("nan"), "b": 0.5}, {"a": 1.0}, weight=0.6) == [("b", 0.6), ("a", 0.4)]


def test_an_explanation_tells_ranks_and_scores_of_both_searches():
    found = candidates("one", {"a": 0.9, "b": 0.1}, {"b": 4.0, "c": 2.0})
    hits = {hit.chunk.id: hit.explanation for hit in fuse([found], method="weighted", vector_weight=0.5)}
    assert (hits["b"].vector_rank, hits["b"].vector_score, hits["b"].bm25_rank, hits["b"].bm25_score) == (
        2,
        0.1,
        1,
        4.0,
    )
    assert (hits["a"].bm25_rank, hits["a"].bm25_score, hits["c"].vector_rank) == (None, None, None)
    assert hits["c"].bm25_rank == 2


def test_spaces_meet_in_one_list_and_a_passage_of_both_counts_once():
    spaces = [
        candidates("code", {"a": 0.9, "b": 0.1}, {"a": 5.0}),
        candidates("prose", {"c": 0.8, "a": 0.1}, {"c": 4.0}),
    ]
    hits = fuse(spaces, method="weighted", vector_weight=0.5)
    assert [hit.chunk.id for hit in hits] == ["a", "c", "b"]
    assert hits[0].explanation.space == "code"


def test_a_passage_that_two_stores_hold_counts_once_by_its_best_scores():
    twice = [*map(chunk, ("a", "b", "a"))]
    scores = np.array([0.4, 0.5, 0.9]), np.array([nan, 2.0, 1.0])
    found = SpaceCandidates("one", np.arange(3), to_outlines(twice), *scores)
    hits = fuse([found], method="reciprocal_rank", vector_weight=0.5)
    assert list(hits) == list(
        fuse(
            [candidates("one", {"a": 0.9, "b": 0.5}, {"b": 2.0, "a": 1.0})],
            method="reciprocal_rank",
            vector_weight=0.5,
        )
    )


def share_of_words(vectors: dict[str, float], words: dict[str, float]) -> float:
    """What a passage gets that only the words found, and found best."""
    return dict(fused(vectors, words, method="following"))["w"]


def test_the_weight_of_the_words_follows_the_question():
    near, far = {"v": 0.9, "w": 0.0}, {"v": 0.3, "w": 0.0}
    alike = {"w": 9.0} | {f"other{n}": 8.9 for n in range(12)}
    assert share_of_words(far, {"w": 9.0}) > share_of_words(near, {"w": 9.0})
    assert share_of_words(far, {"w": 9.0}) > share_of_words(far, alike)


@pytest.mark.parametrize(("weight", "scores"), [(1.0, {"v": 0.6, "w": 0.2}), (0.0, {"v": 0.5, "w": 1.0})])
def test_the_weight_can_be_leaned_until_one_search_is_alone(weight: float, scores: dict[str, float]):
    found_ = fused({"v": 0.6, "w": 0.2}, {"w": 8.0, "v": 4.0}, method="following", weight=weight)
    assert dict(found_) == pytest.approx(scores)


def test_scores_by_the_weight_that_follows_say_how_near_it_is_and_not_which_is_best():
    assert fused({"a": 0.4, "b": 0.2}, None, method="following") == [("a", 0.4), ("b", 0.2)]


def test_the_best_of_two_models_count_alike_whatever_their_scale():
    spaces = [
        candidates("wide", {"a": 0.4, "b": 0.2}, None),
        candidates("narrow", {"c": 0.9, "d": 0.85}, None),
    ]
    hits = fuse(spaces, method="following", vector_weight=0.5)
    scores = {hit.chunk.id: hit.score for hit in hits}
    assert scores["a"] == pytest.approx(scores["c"])
    assert {hit.chunk.id: hit.explanation.vector_score for hit in hits}["a"] == 0.4


def test_matches_without_any_score_leave_the_vectors_alone():
    assert fused({"a": 0.4}, {"b": 0.0}, method="following") == [("a", 0.4), ("b", 0.0)]


def test_a_similarity_counts_from_what_the_model_gives_unrelated_texts():
    likeness = {"same": 1.0, "near": 0.75, "far": 0.25, "strange": 0.0, "opposite": 0.0}
    cosines = {"same": 1.0, "near": 0.85, "far": 0.55, "strange": 0.4, "opposite": -0.2}
    found = candidates("one", cosines, None, unrelated=0.4)
    hits = fuse([found], method="following", vector_weight=0.5)
    assert {hit.chunk.id: round(hit.score, 6) for hit in hits} == likeness
    assert {hit.chunk.id: hit.explanation.vector_score for hit in hits} == cosines


def test_two_models_with_other_levels_weigh_the_words_alike():
    words = {"a": 9.0, "b": 3.0}
    plain = candidates("one", {"a": 0.2, "b": 0.6}, words)
    lifted = candidates("one", {"a": 0.6, "b": 0.8}, words, unrelated=0.5)
    scores = [
        {hit.chunk.id: round(hit.score, 6) for hit in hits}
        for hits in (fuse([each], method="following", vector_weight=0.5) for each in (plain, lifted))
    ]
    assert scores[0] == scores[1]
