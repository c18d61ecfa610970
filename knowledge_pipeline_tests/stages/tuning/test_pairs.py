"""Pairs: what asks, what answers, which are learned from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.extensions.tuning_examples import (
    Pair,
    PairKind,
    TracedDocument,
    clean_title,
    date_files,
    drop_ambiguous,
    iter_docstring_pairs,
    iter_history_pairs,
    iter_judgement_pairs,
    select_newest,
    split_newest,
)
from knowledge_pipeline.records import Mention

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILES = {
    "file:shop/cart.py": [("shop", "cart.py")],
    "file:shop/tests/test_cart.py": [("shop", "tests/test_cart.py")],
    **{f"file:shop/{name}.py": [("shop", f"{name}.py")] for name in "abcdef"},
}


def pair(number: int, kind: PairKind = "commit", text: str = "") -> Pair:
    question = GoldenQuestion(text or f"what is changed in {number}", (GoldenAnswer("a.py"),))
    return Pair(kind, question, f"history:{number}", NOON + timedelta(days=number))


def commit(title: str, *paths: str, uri: str = "commit/1", **fields: object) -> TracedDocument:
    mentions = [Mention("changes", f"/{path}", f"file:shop/{path}") for path in paths]
    other = fields.pop("mentions", ())
    values = {"type": "git_history", "source": "history", "made_at": NOON, "names": (f"commit:{uri}",)}
    return TracedDocument(**{**values, **fields}, uri=uri, title=title, mentions=(*mentions, *other))  # type: ignore[arg-type]


def ticket(title: str, name: str, type_: str = "jira") -> TracedDocument:
    return TracedDocument(type_, "tickets", f"ticket/{name}", title, None, (name,), ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("language", "text", "sentence", "symbol"),
    [
        (
            "python",
            'class Store:\n    def get(self, key):\n        """Read one value by its :class:`Key`.\n\n'
            '        More.\n        """\n        return key\n',
            "Read one value by its Key",
            "Store.get",
        ),
        (
            "go",
            "package a\n\n// Get reads one value by its key. It waits.\n"
            "func Get(key string) int {\n\treturn 1\n}\n",
            "reads one value by its key",
            "Get",
        ),
        (
            "java",
            "class Store {\n  /**\n   * Reads one value by its {@link Key}.\n   * @param key what\n   */\n"
            "  int get(Key key) {\n    return 1;\n  }\n}\n",
            "Reads one value by its Key",
            "Store.get",
        ),
    ],
)
def test_a_docstrings_first_sentence_asks_for_its_definition(
    language: str, text: str, sentence: str, symbol: str
) -> None:
    (found,) = iter_docstring_pairs(text, source="app", path="store", language=language)
    assert found.question == GoldenQuestion(
        sentence, (GoldenAnswer("store", symbol),), "code", {"sources": ("app",)}
    )
    assert found.taken_out in text and "value by its" in found.taken_out


def test_a_comment_that_stands_apart_or_says_little_asks_nothing() -> None:
    apart = "package a\n\n// All rights are reserved by us.\n\nfunc Get() int {\n\treturn 1\n}\n"
    short = 'def get():\n    """Read it."""\n'
    assert not list(iter_docstring_pairs(apart, source="app", path="a.go", language="go"))
    assert not list(iter_docstring_pairs(short, source="app", path="a.py", language="python"))
    assert not list(iter_docstring_pairs("some text of no language", source="a", path="a", language=None))


def test_a_commit_asks_for_the_files_that_it_changed_but_for_tests() -> None:
    one = commit("feat(cart): Empty the cart after payment (#12)", "cart.py", "tests/test_cart.py", "gone.py")
    (found,) = iter_history_pairs([one], FILES)
    assert found.question.text == "Empty the cart after payment"
    assert found.question.answers == (GoldenAnswer("cart.py"),)
    assert (found.kind, found.origin, found.made_at) == ("commit", "history:commit/1", NOON)
    assert date_files([one], FILES)["shop", "cart.py"] == NOON


@pytest.mark.parametrize(
    ("title", "paths", "fields"),
    [
        ("Merge the branch of a colleague", ["cart.py"], {}),
        ("Bump the version of something else", ["cart.py"], {}),
        ("Empty the cart after payment", ["cart.py"], {"is_merge": True}),
        ("Empty the cart after payment", ["tests/test_cart.py"], {}),
        ("Empty the cart after payment", [f"{name}.py" for name in "abcdef"], {}),
        ("Empty the cart", ["cart.py"], {}),
    ],
)
def test_a_commit_that_tells_nothing_of_its_files_asks_nothing(
    title: str, paths: list[str], fields: dict[str, object]
) -> None:
    assert not list(iter_history_pairs([commit(title, *paths, **fields)], FILES))


def test_a_ticket_asks_for_the_files_of_all_commits_that_name_it() -> None:
    named = (Mention("references", "SHOP-1", "key:SHOP-1"),)
    closed = (Mention("closes", "#7", "issue:shop#7"), Mention("references", "#8", "issue:shop#8"))
    documents = [
        commit("SHOP-1: more of it", "a.py", uri="commit/1", mentions=named),
        commit("SHOP-1: the rest", "b.py", uri="commit/2", mentions=named),
        commit("fix it", "c.py", uri="commit/3", mentions=closed),
        ticket("Customers cannot empty their cart", "key:SHOP-1"),
        ticket("The total is wrong for students", "issue:shop#7", "github_issues"),
        ticket("What is only talked about here", "issue:shop#8", "github_issues"),
    ]
    found = {each.question.text: each for each in iter_history_pairs(documents, FILES)}
    assert {text: [one.path for one in each.question.answers] for text, each in found.items()} == {
        "Customers cannot empty their cart": ["a.py", "b.py"],
        "The total is wrong for students": ["c.py"],
    }
    assert {each.kind for each in found.values()} == {"ticket"}


def test_titles_lose_their_keys_prefixes_and_numbers() -> None:
    assert clean_title("fix(core)!: [SHOP-1] Empty the cart. (#12)") == "Empty the cart"
    assert clean_title("SHOP-1: Empty the cart") == "Empty the cart"


def test_a_result_answers_where_more_readers_found_it_useful_than_useless() -> None:
    queries = [
        {"query_id": f"q{number}", "text": "empty the cart", "type": "code"} for number in range(2)
    ] + [{"query_id": "q2", "text": "def f()", "type": "similar"}]
    feedback = [
        {"query_id": "q0", "result_id": "one", "judgement": "useful", "at": NOON},
        {"query_id": "q1", "result_id": "two", "judgement": "clicked", "at": NOON + timedelta(days=1)},
        {"query_id": "q1", "result_id": "two", "judgement": "useless", "at": NOON},
        {"query_id": "q1", "result_id": "gone", "judgement": "useful", "at": NOON},
        {"query_id": "q2", "result_id": "one", "judgement": "useful", "at": NOON},
        {"query_id": "unknown", "result_id": "one", "judgement": "useful", "at": NOON},
    ]
    (found,) = iter_judgement_pairs(queries, feedback, {"one": "shop:cart.py", "two": "shop:other.py"})
    assert found.question == GoldenQuestion(
        "empty the cart", (GoldenAnswer("shop:cart.py", None, 2),), "code"
    )
    assert (found.origin, found.made_at) == ("q1", NOON + timedelta(days=1))


def test_the_newest_fifth_of_each_kind_is_held_out() -> None:
    pairs = [*map(pair, range(10)), *(pair(number, "docstring") for number in range(5))]
    learned, held_out = split_newest(pairs)
    assert [each.origin for each in held_out] == ["history:4", "history:9", "history:8"]
    assert sorted(learned + held_out, key=repr) == sorted(pairs, key=repr)
    assert split_newest(pairs[::-1]) == (learned, held_out), "whatever the order"


def test_the_newest_of_each_kind_are_kept_and_copies_of_a_question_are_not() -> None:
    kept = select_newest([pair(1), pair(3), pair(2), pair(1, "docstring")], limit=2)
    assert [each.origin for each in kept] == ["history:1", "history:3", "history:2"]
    copies = [pair(1, text="Return the Value of it"), pair(2, text="return the value of it"), pair(3)]
    assert [each.origin for each in drop_ambiguous(copies)] == ["history:3"]
