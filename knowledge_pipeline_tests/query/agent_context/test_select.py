"""Choosing passages for a budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.context.select import (
    ContextCandidate,
    ContextSelection,
    ExcerptSelector,
    SearchChances,
    rank_candidates,
)
from knowledge_pipeline.context.tokens import estimate_tokens
from knowledge_pipeline_tests.query.agent_context.cited import result

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
HEADING = 5


def select(
    candidates: Sequence[ContextCandidate], *, max_tokens: int, question: str = "alpha beta"
) -> ContextSelection:
    selector = ExcerptSelector(candidates, question, count=estimate_tokens, heading_cost=lambda _: HEADING)
    return selector.select(max_tokens)


def lines(seed: int, count: int) -> str:
    """Text that is like no other: each line names its number."""
    return "".join(
        f"{'    ' * (n % 3)}{WORDS[(seed * 7 + n * 3) % 10]} {seed} {n} {seed * n}\n" for n in range(count)
    )


@st.composite
def searches(draw: st.DrawFn):
    """Results of three searches over four documents: chunks apart, touching, overlapping."""
    documents = {f"{seed}.py": lines(seed, draw(st.integers(1, 30))) for seed in range(4)}
    found = []
    for name, weight in (("semantic", 0.7), ("similar", 0.4), ("rules", 1.0)):
        results = []
        for _ in range(draw(st.integers(0, 6))):
            uri = draw(st.sampled_from(sorted(documents)))
            text = documents[uri]
            start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
            if text[start:end].strip():
                results.append(result(text, start, end, uri=uri))
        found.append(SearchChances.by_rank(name, results, weight))
    return documents, found


@given(searches(), st.integers(0, 600))
def test_the_budget_is_never_exceeded(drawn, allowance):
    _, found = drawn
    selection = select(rank_candidates(found), max_tokens=allowance)
    assert selection.tokens <= allowance
    assert selection.tokens == sum(passage.tokens for passage in selection.excerpts)
    assert selection.tokens == sum(HEADING + estimate_tokens(passage.text) for passage in selection.excerpts)


def test_a_lower_share_of_headings_gives_more_and_shorter_passages():
    text = "".join(f"alpha beta {n}\n" + "one line of many that nobody asked for\n" * 9 for n in range(6))
    candidates = rank_candidates([SearchChances.by_rank("semantic", [result(text, 0, len(text))])])

    def select_with(share: float) -> ContextSelection:
        selector = ExcerptSelector(
            candidates,
            "alpha beta",
            count=estimate_tokens,
            heading_cost=lambda _: 40,
            heading_share=share,
        )
        return selector.select(200)

    few, many = select_with(1.0), select_with(0.05)
    assert 0 < len(few.excerpts) < len(many.excerpts)
    for each in (*few.excerpts, *many.excerpts):
        assert each.tokens == 40 + estimate_tokens(each.text)  # the whole heading counts


@given(searches(), st.integers(0, 600))
def test_every_passage_is_its_document_s_lines(drawn, allowance):
    documents, found = drawn
    for passage in select(rank_candidates(found), max_tokens=allowance).excerpts:
        text = documents[passage.citation.path]
        first, last = (int(line) for line in (re.findall(r"\d+", passage.citation.lines) * 2)[:2])
        assert "\n".join(text.split("\n")[first - 1 : last]).find(passage.text) >= 0
        assert passage.citation.url == f"https://example.com/{passage.citation.path}#{passage.citation.lines}"


@given(searches(), st.integers(0, 600))
def test_every_chunk_is_shown_or_left_out_or_like_another_one(drawn, allowance):
    _, found = drawn
    selection = select(rank_candidates(found), max_tokens=allowance)
    shown = {id_ for passage in selection.excerpts for id_ in passage.chunks}
    left_out = {each.id for each in selection.omitted}
    twins = len(rank_candidates(found))
    assert not shown & left_out and len(shown) + len(left_out) == twins
    if len(left_out) == twins:
        assert selection.excerpts == ()


@given(searches(), st.integers(0, 600))
def test_nothing_is_shown_twice(drawn, allowance):
    _, found = drawn
    passages = select(rank_candidates(found), max_tokens=allowance).excerpts
    for first, second in combinations(passages, 2):
        assert first.text not in second.text or len(first.text) < 40
        assert (first.citation, first.text) != (second.citation, second.text)
    assert [passage.number for passage in passages] == list(range(1, len(passages) + 1))


@given(searches(), st.integers(0, 600))
def test_a_document_s_passages_stand_together_in_reading_order(drawn, allowance):
    _, found = drawn
    passages = select(rank_candidates(found), max_tokens=allowance).excerpts
    paths = [passage.citation.path for passage in passages]
    assert len(set(paths)) == 1 + sum(a != b for a, b in pairwise(paths)) or not paths
    for first, second in pairwise(passages):
        if first.citation.path == second.citation.path:
            assert int(first.citation.lines[1:].split("-")[0]) <= int(second.citation.lines[1:].split("-")[0])


def test_a_chunk_that_several_searches_found_is_there_once_and_counts_for_more():
    both, only = result("one\n", 0, 3, uri="a"), result("two\n", 0, 3, uri="b")
    candidates = rank_candidates(
        [SearchChances("semantic", [only, both], [0.6, 0.5]), SearchChances("similar", [both], [0.4])]
    )
    assert [(each.result.id, each.found_by, round(each.score, 6)) for each in candidates] == [
        (both.id, ("semantic", "similar"), 0.7),
        (only.id, ("semantic",), 0.6),
    ]


def test_nearly_equal_chunks_are_there_once_and_the_other_places_are_named():
    text = lines(1, 8)
    copies = [result(text, 0, len(text), uri=uri) for uri in ("a", "copy")]
    found = SearchChances.by_rank("semantic", copies)
    (passage,) = select(rank_candidates([found]), max_tokens=1000).excerpts
    assert passage.citation.path == "a"
    assert [place.path for place in passage.near_duplicates] == ["copy"]


def test_chunks_that_touch_are_one_passage_that_names_all_its_symbols():
    text = lines(1, 9)
    middle = text.index("\n", len(text) // 2) + 1
    found = [
        result(text, middle, len(text), symbol="g", language="python"),
        result(text, 0, middle, symbol="f", language="python"),
    ]
    (passage,) = select(rank_candidates([SearchChances.by_rank("semantic", found)]), max_tokens=1000).excerpts
    assert (passage.text, passage.citation.lines) == (text.rstrip(), "L1-L9")
    assert passage.symbols == ("f", "g") and passage.metadata == {"language": "python"}
    assert passage.chunks == (found[1].id, found[0].id)


def candidates_of(*texts: str) -> list[ContextCandidate]:
    found = [result(text, 0, len(text), uri=f"{n}.py") for n, text in enumerate(texts)]
    return rank_candidates([SearchChances.by_rank("semantic", found)])


def test_the_best_chunk_is_cut_at_lines_rather_than_left_out():
    best = lines(1, 20)
    allowance = HEADING + estimate_tokens("\n".join(best.split("\n")[:3])) + 1
    selection = select(candidates_of(best), max_tokens=allowance)
    (passage,) = selection.excerpts
    assert selection.is_cut and passage.text in best
    assert 1 < passage.text.count("\n") + 1 < 20


def test_lines_with_the_question_s_rare_words_are_shown_without_the_rest_of_their_chunk():
    text = "def pay(order):\n" + "".join(f"    step_{n}(order)\n" for n in range(40))
    text = text.replace("step_25(order)", "refund(order)  # a refund")
    (excerpt,) = select(candidates_of(text), max_tokens=60, question="how is a refund made").excerpts
    assert "refund(order)" in excerpt.text and "step_2(" not in excerpt.text
    assert excerpt.missing_lines > 0


def test_an_excerpt_that_begins_within_a_definition_names_its_signature():
    text = "@cached\ndef pay(order):\n" + "".join(f"    step_{n}(order)\n" for n in range(40))
    text = text.replace("step_25(order)", "refund(order)  # a refund")
    found = [result(text, 0, len(text), symbol="pay")]
    candidates = rank_candidates([SearchChances.by_rank("semantic", found)])
    (excerpt,) = select(candidates, max_tokens=60, question="how is a refund made").excerpts
    assert excerpt.within == "def pay(order):"
    (whole,) = select(candidates, max_tokens=1000, question="how is a refund made").excerpts
    assert whole.within is None


@given(searches(), st.integers(0, 600))
def test_a_larger_budget_is_used_where_something_is_cut(drawn, allowance):
    _, found = drawn
    candidates = rank_candidates(found)
    selection = select(candidates, max_tokens=allowance)
    if not selection.is_cut:
        assert selection.excerpts == select(candidates, max_tokens=10**6).excerpts


def test_nothing_found_and_no_room_are_no_passages():
    assert select([], max_tokens=100).excerpts == ()
    nothing = select(candidates_of("one", "two"), max_tokens=0)
    assert nothing.excerpts == () and len(nothing.omitted) == 2
