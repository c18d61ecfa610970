"""What a file is called, what it is for, and what else of it was found, in the order of hits."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.contract.responses import ScoreExplanation
from knowledge_pipeline.query.search.file_signals import apply_file_signals
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.understand import understand


def hit(path: str, score: float, *, id: str = "", source_type: str = "code") -> Hit:
    chunk = IndexedChunk(
        id=id or path,
        source="s",
        uri=path,
        path=path,
        text="",
        content_hash=id or path,
        metadata={"source_type": source_type},
    )
    explanation = ScoreExplanation("one", None, None, None, None, boosts={}, fused=score)
    return Hit(chunk, score, explanation)


def ranked(question: str, *hits: Hit) -> list[str]:
    return [each.chunk.id for each in apply_file_signals(hits, understand(question).words)]


def test_a_file_that_is_named_after_the_question_rises() -> None:
    better, named = hit("app/core.py", 0.62), hit("app/sessions.py", 0.60)
    assert ranked("how is a session signed", better, named) == ["app/sessions.py", "app/core.py"]
    assert ranked("how is a cookie signed", better, named) == ["app/core.py", "app/sessions.py"]


def test_names_are_compared_by_their_stems_and_split_as_identifiers() -> None:
    for path in ("src/routes.py", "src/requestRouting.rs", "src/route_table.go"):
        assert ranked("how does routing work", hit("src/a.py", 0.62), hit(path, 0.60))[0] == path
    assert (
        ranked("parse a query string", hit("src/a.go", 0.62), hit("src/queryString.go", 0.60))[0]
        != "src/a.go"
    )


def test_a_package_file_is_named_by_its_folder() -> None:
    for package in ("session/__init__.py", "session/mod.rs", "session/index.ts"):
        assert ranked("session handling", hit("a/b.py", 0.62), hit(package, 0.60))[0] == package


def test_a_folder_counts_for_less_than_a_name() -> None:
    found = ranked("session", hit("a/b.py", 0.60), hit("session/b.py", 0.60), hit("a/session.py", 0.60))
    assert found == ["a/session.py", "session/b.py", "a/b.py"]


def test_tests_and_generated_code_fall_unless_they_are_asked_for() -> None:
    source, test, made = hit("src/a.py", 0.5), hit("tests/test_a.py", 0.6), hit("src/vendor/a.py", 0.6)
    assert ranked("what is released", source, test, made)[0] == "src/a.py"
    assert ranked("which test covers a release", source, test, made)[0] == "tests/test_a.py"


def test_one_file_does_not_crowd_out_others() -> None:
    hits = [hit("a.py", 0.9 - number / 100, id=f"a{number}") for number in range(4)]
    assert ranked("anything", *hits, hit("b.py", 0.82)) == ["a0", "a1", "b.py", "a2", "a3"]


def test_what_has_no_path_of_its_own_choosing_stays_as_it_is() -> None:
    tickets = [
        hit(f"SHOP-{number}", 0.9 - number / 100, id=f"{number}", source_type="jira") for number in range(3)
    ]
    again = [hit("SHOP-1", 0.8, id="again", source_type="jira"), hit("tests/SHOP", 0.7, source_type="jira")]
    given_ = [*tickets, *again]
    assert apply_file_signals(given_, "shop") == given_


def test_the_explanation_says_what_changed_a_score() -> None:
    one, two = apply_file_signals(
        [hit("tests/session.py", 0.8, id="1"), hit("tests/session.py", 0.6, id="2")], "session"
    )
    assert set(one.explanation.boosts) == {"file_name", "file_role"}
    assert set(two.explanation.boosts) == {"file_name", "file_role", "same_file"}
    assert two.score < one.score


PATHS = st.sampled_from(
    ["a.py", "tests/a.py", "shop/cart.py", "shop/__init__.py", "vendor/cart.js", "README.md"]
)
TYPES = st.sampled_from(["code", "markdown", "jira", "slack"])
HITS = st.lists(st.tuples(PATHS, st.floats(0, 1), TYPES), max_size=12)


@given(HITS, st.sampled_from(["cart", "the tests of a shop", "what"]), st.randoms())
def test_every_hit_is_kept_with_a_score_between_0_and_1_whatever_the_order(
    found: list[tuple[str, float, str]], question: str, random: Random
) -> None:
    hits = [hit(path, score, id=str(at), source_type=type_) for at, (path, score, type_) in enumerate(found)]
    words = understand(question).words
    ranked_ = apply_file_signals(hits, words)
    assert sorted(each.chunk.id for each in ranked_) == sorted(each.chunk.id for each in hits)
    assert all(0 <= each.score <= 1 for each in ranked_)
    assert [each.rank_key for each in ranked_] == sorted(each.rank_key for each in ranked_)
    assert apply_file_signals(random.sample(hits, len(hits)), words) == ranked_
