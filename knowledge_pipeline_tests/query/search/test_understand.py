from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.plan import ParsedQuery, parse_verbatim, remove_stopwords, understand
from knowledge_pipeline_tests.thoroughness import examples

NOW = datetime(2026, 3, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "text", "filters"),
    [
        ("token lang:python", "token", Filters(languages=("python",))),
        ("lang:python,go token lang:rust", "token", Filters(languages=("python", "go", "rust"))),
        ("a path:src/auth b", "a b", Filters(paths=("src/auth",))),
        ('a path:"src/my app/*.py"', "a", Filters(paths=("src/my app/*.py",))),
        ("a author:'Jane O\"Neil'", "a", Filters(authors=('Jane O"Neil',))),
        ("a LANG:Python", "a", Filters(languages=("Python",))),
        ("a type:markdown source:docs", "a", Filters(source_types=("markdown",), sources=("docs",))),
        ("a repo:psf/requests branch:main", "a", Filters(repos=("psf/requests",), branches=("main",))),
        ("a tag:x label:y project:P", "a", Filters(tags=("x",), labels=("y",), projects=("P",))),
        ("a status:open space:E ext:py", "a", Filters(statuses=("open",), spaces=("E",), extensions=("py",))),
        ("a since:2024-01-31", "a", Filters(since=datetime(2024, 1, 31, tzinfo=UTC))),
        ("a until:2024-01-31", "a", Filters(until=datetime(2024, 2, 1, tzinfo=UTC))),
        ("a since:2024-12", "a", Filters(since=datetime(2024, 12, 1, tzinfo=UTC))),
        ("a until:2024-12", "a", Filters(until=datetime(2025, 1, 1, tzinfo=UTC))),
        ("a until:2024", "a", Filters(until=datetime(2025, 1, 1, tzinfo=UTC))),
        ("a since:30d", "a", Filters(since=datetime(2026, 3, 1, tzinfo=UTC))),
        ("a since:2024-01-31T10:00:00", "a", Filters(since=datetime(2024, 1, 31, 10, tzinfo=UTC))),
    ],
)  # fmt: skip
def test_filters_are_read_out_of_the_text(typed: str, text: str, filters: Filters):
    question = understand(typed, now=NOW)
    assert (question.text, question.filters) == (text, filters)


@pytest.mark.parametrize(
    "text",
    [
        "std::vector push_back",
        "what does https://example.org/path:x mean",
        r"C:\Users\me is not found",
        "foo:bar is no filter",
        "a since:soon",
        "a until:2024-99",
        "why # type:ignore here",
        "type::of and path::join",
        "type://x",
        "lang: python",
        "-lang:python",
        'lang:"" empty',
        'path:"never closed',
        "xlang:python",
        "select 'a' from t where x = 'lang:python'",
    ],
)
def test_what_names_no_filter_stays_text(text: str):
    question = understand(text)
    assert (question.text, question.filters) == (text, Filters())


@pytest.mark.parametrize(
    ("text", "identifiers", "paths"),
    [
        ("where is parse_config", ("parse_config",), ()),
        ("what does HTTPServer.handle() do?", ("HTTPServer.handle",), ()),
        ("std::vector::push_back", ("std::vector::push_back",), ()),
        ("how does `reconcile` work", ("reconcile",), ()),
        ("reconcile", ("reconcile",), ()),
        ("why does src/auth/token.py fail", (), ("src/auth/token.py",)),
        ("see ./docs/README.md:", (), ("docs/README.md",)),
        ("how to read a file", (), ()),
        ("I like e.g. apples, i.e. fruit", ("e.g", "i.e"), ()),
    ],
)
def test_identifiers_and_paths_are_found(text: str, identifiers: tuple[str, ...], paths: tuple[str, ...]):
    question = understand(text)
    assert set(identifiers) <= set(question.identifiers)
    assert question.paths == paths
    assert identifiers or not question.identifiers or paths


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("where is the retry loop implemented", "find_implementation"),
        ("how does the release work", "understand_concept"),
        ("something similar to this parser", "find_similar"),
        ("when was the lock added", "find_history"),
        ("why was the cache removed", "find_history"),
        ("KeyError exception on start", "debug_issue"),
        ("who calls open_index", "find_usage"),
        ("where is Lake used", "find_usage"),
        ("open_index", "find_implementation"),
    ],
)
def test_intent_is_told_from_the_wording(text: str, intent: str):
    assert understand(text).intent == intent


@pytest.mark.parametrize("text", ["", "  \n\t", "lang:python"])
def test_a_question_that_cannot_be_answered_is_refused_in_one_sentence(text: str):
    with pytest.raises(InvalidQuery) as refusal:
        understand(text)
    assert len(str(refusal.value)) < 200


def test_words_are_split_like_the_index():
    assert understand("HTTPServer lang:go").words == "HTTPServer http server"


@settings(max_examples=examples(200), deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=200))
def test_any_text_is_understood_or_refused(text: str):
    try:
        question = understand(text, now=NOW)
    except InvalidQuery:
        return
    assert isinstance(question, ParsedQuery) and question.text.strip()
    question.text.encode()  # valid Unicode now
    assert "\x00" not in question.text + question.words


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("How does the harness closure work?", ["harness", "closure", "work"]),
        ("what is it", ["what", "is", "it"]),
        ("don't", ["don't"]),
        ("?!", ["?!"]),
    ],
)
def test_full_text_is_asked_for_what_tells(question: str, words: list[str]) -> None:
    assert remove_stopwords(question).split() == words


def test_what_a_person_wants_is_read_from_the_first_thousand_characters():
    """`why was … changed` is looked for from every `why` to the end: 3 s for 20,000 characters of them."""
    asked = "why was it changed"
    assert parse_verbatim(f"{'x ' * 400}{asked}").intent == "find_history"
    assert parse_verbatim(f"{'x ' * 600}{asked}").intent != "find_history"
