"""What a hit and its file say about a question, and the order and the scores that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.contract.responses import ScoreExplanation
from knowledge_pipeline.embedding.word_vectors import WordVectors
from knowledge_pipeline.query.features import FEATURES, TEXT_FEATURES, compute_features, compute_text_features
from knowledge_pipeline.query.hits import (
    Hit,
    Hits,
    IndexedChunk,
    to_outlines,
)
from knowledge_pipeline.query.plan import understand
from knowledge_pipeline.query.rank import (
    FORM,
    ConfidenceSignals,
    LinearModel,
    Ranking,
    RankingModel,
    estimate_confidence,
    load_model,
)
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
    return Hit(chunk, score, ScoreExplanation("one", None, None, None, None, boosts={}, fused=score))


def replace_source(given: Hit, source: str) -> Hit:
    return given._replace(chunk=replace(given.chunk, source=source))


def as_columns(hits: Sequence[Hit]) -> Hits:
    parts = [each.explanation for each in hits]
    nothing = [0] * len(hits)
    unknown = [float("-inf")] * len(hits)
    fused = np.array([each.fused for each in parts])
    return Hits(
        to_outlines(each.chunk for each in hits),
        rows=[each.row for each in hits],
        spaces=[each.space for each in parts],
        vector_ranks=nothing,
        similarities=unknown,
        word_ranks=nothing,
        word_scores=nothing,
        fused=fused,
        scores=fused,
        order=np.arange(len(hits)),
    )


def rank(hits: Sequence[Hit], question: str, **options: Any) -> list[Hit]:
    ranking = Ranking.build(as_columns(hits), understand(question), options.pop("model", None))
    return list(ranking.finish(np.zeros((0, len(TEXT_FEATURES))), **options))


def for_all(model: LinearModel) -> RankingModel:
    return RankingModel(model, model)


def read_features(question: str, hits: Sequence[Hit]) -> np.ndarray:
    fused = np.array([each.explanation.fused for each in hits])
    outlines, nothing = to_outlines(each.chunk for each in hits), np.full(len(hits), np.nan)
    return compute_features(outlines, fused, nothing, understand(question))


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
    others = [hit(f"app/{name}.py", 0.2) for name in "abcd"]
    assert ranked("how is a session signed", better, named, *others)[:2] == ["app/sessions.py", "app/core.py"]
    assert ranked("how is a cookie signed", better, named, *others)[:2] == ["app/core.py", "app/sessions.py"]


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("how does routing work", "src/routes.py"),
        ("how are requests routed", "src/requestRouting.rs"),
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
    (found,) = features("how are testimonials shown", hit("src/test.py"))
    assert found["file_name"] == 0.0


def test_a_file_is_named_by_all_words_of_its_name() -> None:
    question = "where are type handlers of the mapper"
    named, partly = features(question, hit("Mapper.TypeHandler.cs"), hit("Mapper.Async.cs"))
    assert (named["file_name"], partly["file_name"]) == (1.0, 0.0)


def test_candidates_of_one_family_and_of_several_are_weighed_differently() -> None:
    by_name = LinearModel({"file_name": 1.0}, further_chunk=0.0)
    by_score = LinearModel({"fused": 1.0}, further_chunk=0.0)
    model = RankingModel(one_family=by_name, several_families=by_score)
    code = [hit("session.py", 0.1), hit("other.py", 0.9)]
    page = hit("page.md", 0.0, source_type="markdown")

    def find_first(*hits: Hit) -> str:
        return rank(hits, "how is a session signed", model=model)[0].chunk.id

    assert find_first(*code) == "session.py"
    assert find_first(*code, page) == "other.py"


def test_the_name_of_the_repository_names_no_file() -> None:
    (found,) = features("how does shop sign sessions", replace_source(hit("src/shop.py"), "acme-shop-code"))
    assert found["file_name"] == 0.0


def test_a_definition_in_the_letters_of_the_question_comes_before_one_in_others() -> None:
    exact, other = hit("0.py", symbols=("Session",)), hit("1.py", symbols=("session",))
    assert ranked("where is `session` defined", exact, other) == ["1.py", "0.py"]


def test_tests_and_generated_code_fall_unless_they_are_asked_for() -> None:
    source, test, made = hit("src/a.py", 0.5), hit("tests/test_a.py", 0.55), hit("src/vendor/a.py", 0.55)
    assert ranked("what is released", source, test, made)[0] == "src/a.py"
    assert ranked("which test covers a release", source, test, made)[0] == "tests/test_a.py"


@pytest.mark.parametrize("source_type", ["code", "markdown", "slack"])
def test_a_document_of_which_more_was_found_is_more_coherent(source_type: str) -> None:
    many = [hit("a", 0.6, id=f"a{number}", source_type=source_type) for number in range(3)]
    others = [hit("b", 0.6, source_type=source_type), hit("c", 0.1, source_type=source_type)]
    found = features("anything", *many, *others)
    coherence = [each["coherence"] for each in found]
    assert coherence[:3] == [1.0] * 3
    assert coherence[3] == pytest.approx(1 / 2.19)
    assert coherence[4] == 0.0


def test_each_family_is_compared_with_its_own_mean() -> None:
    code = [hit(f"{number}.py", 0.8 + number / 100) for number in range(4)]
    pages = [hit(f"{number}.md", 0.2 + number / 100, source_type="markdown") for number in range(4)]
    found = [each["fused"] for each in features("anything", *code, *pages)]
    assert found[:4] == pytest.approx(found[4:], abs=1e-3)


def test_a_family_that_was_not_trained_counts_as_the_mean_of_those_that_were() -> None:
    (found,) = features("how do I sign", hit("a", source_type="a type of tomorrow"))
    families = ("code", "documentation", "history", "discussion")
    assert [found[name] for name in families] == [0.25] * 4
    assert [found[f"howto_{name}"] for name in families] == [0.25] * 4


def test_one_file_does_not_crowd_out_others_in_a_diverse_list() -> None:
    hits = [hit("a.md", 0.9 - number / 100, id=f"a{number}", source_type="markdown") for number in range(4)]
    found = [*hits, hit("b.md", 0.88, source_type="markdown")]
    model = for_all(LinearModel({"fused": 1.0}, further_chunk=0.5))
    whole = [each.chunk.id for each in rank(found, "anything", model=model, diverse=False)]
    assert whole == ["a0", "a1", "a2", "b.md", "a3"]
    assert [each.chunk.id for each in rank(found, "anything", model=model)][1] == "b.md"


def test_a_path_that_nobody_chose_says_nothing_of_a_ticket() -> None:
    (found,) = features("shop", hit("tests/SHOP", source_type="jira"))
    assert found["file_name"] == found["test"] == 0.0


def test_the_model_of_the_package_names_features_that_there_are() -> None:
    for model in (load_model().one_family, load_model().several_families):
        assert set(model.weights) <= {*FEATURES, *TEXT_FEATURES}
        assert model.weights["test"] < 0 < model.weights["fused"]
        assert model.further_chunk >= 0


def test_a_stored_model_is_read_as_it_was_written() -> None:
    model = for_all(LinearModel({"fused": 2.0}, further_chunk=0.5, base=-1.0))
    assert load_model(model.to_json()) == model


def test_a_stored_model_of_an_earlier_form_is_not_used() -> None:
    former = '{"repeat_factor": 0.9, "weights": {"coherence": 0.25}}'
    assert f'"form": {FORM}' not in former
    assert load_model(former) == load_model()


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
@given(HITS, QUESTIONS, st.booleans())
def test_the_explanation_adds_up_to_the_log_odds_of_the_score(
    found: list[tuple[str, float, str, str | None]], question: str, diverse: bool
) -> None:
    for each in rank(build_hits(found), question, diverse=diverse):
        total = sum(each.explanation.boosts.values())
        assert each.score == pytest.approx(1 / (1 + np.exp(-total)))


@settings(max_examples=examples(100), deadline=None)
@given(HITS, QUESTIONS)
def test_features_are_bounded(found: list[tuple[str, float, str, str | None]], question: str) -> None:
    rows = read_features(question, build_hits(found))
    assert rows.shape == (len(found), len(FEATURES))
    assert ((rows >= -0.25) & (rows <= 1)).all()


@settings(max_examples=examples(100), deadline=None)
@given(HITS.filter(bool), QUESTIONS, st.data())
def test_what_was_read_stands_before_what_was_not(
    found: list[tuple[str, float, str, str | None]], question: str, data: st.DataObject
) -> None:
    hits = build_hits(found)
    count = data.draw(st.integers(0, len(hits)))
    values = st.lists(st.floats(0, 1), min_size=len(TEXT_FEATURES), max_size=len(TEXT_FEATURES))
    texts = np.array([data.draw(values) for _ in range(count)]).reshape(count, len(TEXT_FEATURES))
    ranking = Ranking.build(as_columns(hits), understand(question))
    before = [each.chunk.id for each in ranking.hits]
    after = ranking.finish(texts)
    scores = {each.chunk.id: each.score for each in after}
    lowest = min((scores[id_] for id_ in before[:count]), default=1.0)
    assert all(scores[id_] <= lowest + 1e-12 for id_ in before[count:])
    assert sorted(before) == sorted(each.chunk.id for each in after)


WORDS = WordVectors()


def read_text(question: str, text: str, **options: Any) -> dict[str, float]:
    row = compute_text_features([chunk_of(text, **options)], understand(question), WORDS)[0]
    return dict(zip(TEXT_FEATURES, row.tolist(), strict=True))


def chunk_of(text: str, header: str = "", source_type: str = "markdown", **options: Any) -> IndexedChunk:
    metadata = {"source_type": source_type, **options}
    return IndexedChunk("1", "s", "a", "a", text, "h", header=header, metadata=metadata)


def test_a_heading_whose_words_are_asked_is_told() -> None:
    header = "docs/deploying.md\nDeploying > Nginx proxy configuration"
    assert read_text("nginx proxy configuration", "", header=header)["heading"] == 1.0
    assert read_text("how do I run it behind nginx", "", header=header)["heading"] == pytest.approx(1 / 3)
    assert read_text("deploying", "", header=header)["heading"] == 0.0, "the innermost heading counts"


def test_words_of_nearly_the_same_meaning_are_near() -> None:
    question = "delete a file"
    same, near, far = (
        read_text(question, text)["nearest_words"]
        for text in ("delete every file", "removes the files", "a colour of the sky")
    )
    assert same == pytest.approx(1.0)
    assert same > near > far >= 0.0


def test_words_that_follow_each_other_as_in_the_question_are_a_pair() -> None:
    question = "connection pool limits"
    assert read_text(question, "the connection pool keeps limits")["word_pairs"] == 0.5
    assert read_text(question, "a pool of one connection")["word_pairs"] == 0.0


def test_new_history_is_told_where_the_question_asks_for_it() -> None:
    moments = ("2024-07-01T00:00:00+00:00", "2024-01-03T00:00:00+00:00")
    commits = [chunk_of("x", source_type="git_history", last_modified=moment) for moment in moments]
    page = chunk_of("x", last_modified=moments[0])
    at = TEXT_FEATURES.index("asked_recency")
    asked, not_asked = (
        compute_text_features([*commits, page], understand(question), WORDS)[:, at].tolist()
        for question in ("what changed recently", "what changed")
    )
    assert asked == pytest.approx([1.0, 0.5, 0.0])
    assert not_asked == [0.0] * 3


def test_confidence_rises_with_each_of_its_signals() -> None:
    low = ConfidenceSignals(similarity=0.2, nearest_words=0.3)
    for name in ConfidenceSignals._fields:
        assert 0 < estimate_confidence(low) < estimate_confidence(low._replace(**{name: 0.9})) < 1


def test_texts_without_words_say_nothing() -> None:
    assert read_text("anything at all", "")["nearest_words"] >= 0.0
    assert compute_text_features([], understand("anything"), WORDS).shape == (0, len(TEXT_FEATURES))
    assert set(read_text("the of", "the of").values()) == {0.0}
