"""Words of a question that have the form of a filter: taken as one only where something has the value."""

from __future__ import annotations

import pytest

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.query.search.rows import publish, row, write

ACME = Access("acme", frozenset())


@pytest.fixture
def indexed(lake, space, base) -> KnowledgeBase:
    """Code of one repository, documents of another, and a repository of a tenant."""
    write(
        lake,
        space,
        [
            row("KeyError var log x not found in the reader", "src/payments/auth.py", repo="pallets/flask"),
            row("rollback of a release of org kp", "src/app.go", repo="pallets/flask", language="go",
                tags=["namespace:shop"], symbol="App.rollback", symbol_kind="method",
                metadata='{"kinds": ["method", "constant"]}'),
            row("error of an unknown author", "guides/errors.md", source="docs", source_type="markdown",
                language=None, repo="pallets/site", author="Ann Lee"),
            row("the hidden rollback", "src/hidden.py", source="secret", repo="acme/hidden-kp",
                visibility="tenant", tenant="acme", language="cobol", symbol_kind="paragraph"),
        ],
    )  # fmt: skip
    publish(lake)
    return base


def paths(answer) -> list[str]:
    return [result.citation.path for result in answer.results]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("KeyError: path:/var/log/x not found", "src/payments/auth.py"),
        ("rollback repo:org/kp", "src/app.go"),
        ("error author:unknown", "guides/errors.md"),
        ("error since:soon", "guides/errors.md"),
        ("error type:ignore", "guides/errors.md"),
        ("repo:org/kp", "src/app.go"),
    ],
)
def test_a_word_whose_value_nothing_has_is_searched_for_and_told(indexed, question, found):
    term = next(word for word in question.split() if ":" in word.rstrip(":"))
    for type_ in ("semantic", None):
        answer = indexed.search(question, type=type_)
        assert found in paths(answer)
        assert [note for note in answer.notes if note.startswith(f"`{term}` was searched for as words: ")]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("error type:docs", "guides/errors.md"),
        ("error author:lee", "guides/errors.md"),
        ("error path:*.md", "guides/errors.md"),
        ("error path:guides", "guides/errors.md"),
        ("rollback lang:go repo:flask", "src/app.go"),
        ("the log path:payments/", "src/payments/auth.py"),
    ],
)
def test_a_word_whose_value_something_has_narrows_and_is_told(indexed, question, found):
    answer = indexed.search(question, access=Access.public())
    assert paths(answer) == [found]
    terms = [f"`{word}`" for word in question.split() if ":" in word]
    assert answer.notes == (f"taken as filters, and not searched for: {', '.join(terms)}",)
    assert answer.as_json()["notes"] == list(answer.notes)


def test_of_several_values_one_is_enough(indexed):
    assert paths(indexed.search("rollback lang:go,cobalt", access=Access.public())) == ["src/app.go"]


def test_a_question_of_filters_alone_is_refused(indexed):
    with pytest.raises(InvalidQuery, match="no words"):
        indexed.search("lang:go")


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        ({"repos": "pallets/flsk"}, "repository 'pallets/flsk'; the nearest: pallets/flask"),
        ({"sources": ["dcos"]}, "source 'dcos'; the nearest: docs"),
        ({"languages": "goo"}, "language 'goo'; the nearest: go"),
        ({"kinds": "constnt"}, "kind of definition 'constnt'; the nearest: constant"),
        ({"kinds": "banana"}, "kind of definition 'banana'; there are: constant, method"),
        ({"symbols": "rolback"}, "definition 'rolback'; the nearest: App.rollback"),
        ({"namespaces": "shp"}, "namespace 'shp'; the nearest: shop"),
        ({"paths": "lib/auth.py"}, "path 'lib/auth.py'; the nearest: src/payments/auth.py"),
        ({"paths": "src/paymnts/"}, "path 'src/paymnts/'; the nearest: src/payments/"),
    ],
)
def test_nothing_found_names_the_nearest_values_that_exist(indexed, filters, named):
    answer = indexed.search("error", filters=filters, access=Access.public())
    note, *_ = answer.notes  # then which filter leaves nothing, and what there is
    assert answer.results == () and note.startswith(f"nothing that you may see has the {named}")


def test_what_the_caller_may_not_see_is_neither_taken_nor_near(indexed):
    public, acme = Access.public(), ACME
    for filters in (
        {"repos": "acme/hidden-kq"},
        {"languages": "cobo"},
        {"sources": "secre"},
        {"kinds": "paragrap"},
        {"paths": "hiden.py"},
    ):
        hidden = indexed.search("rollback", filters=filters, access=public)
        assert hidden.results == () and hidden.notes and "nearest" not in str(hidden.notes)
        assert "nearest" in indexed.search("rollback", filters=filters, access=acme).notes[0]
    for term in ("repo:acme/hidden-kp", "lang:cobol", "source:secret", "path:src/hidden.py"):
        told = indexed.search(f"rollback {term}", access=public).notes
        assert told and told[0].startswith(f"`{term}` was searched for as words"), told
        assert indexed.search(f"rollback {term}", access=acme).notes[0].startswith("taken as filters")


def test_a_file_that_does_not_exist_names_the_nearest_that_the_caller_may_see(indexed):
    with pytest.raises(NotFound, match=r"the nearest: src/payments/auth\.py"):
        indexed.similar(path="auht.py")
    with pytest.raises(NotFound) as refusal:
        indexed.similar(path="hiddn.py", access=Access.public())
    assert "hidden" not in str(refusal.value)


def test_a_pattern_may_leave_out(indexed):
    public = Access.public()
    everything = paths(indexed.search("error rollback log", access=public))
    assert len(everything) == 3
    kept = indexed.search("error rollback log", filters={"paths": ["!*.md"]}, access=public)
    assert sorted(paths(kept)) == ["src/app.go", "src/payments/auth.py"]
    kept = indexed.search("error rollback log", filters={"paths": ["src/", "!payments/"]}, access=public)
    assert paths(kept) == ["src/app.go"]


def test_a_search_takes_a_mapping_and_the_class_and_refuses_unknown_names(indexed):
    by_mapping = indexed.search("error", filters={"source_types": ["markdown"]})
    assert paths(by_mapping) == paths(indexed.search("error", filters=Filters(source_types=("markdown",))))
    assert paths(by_mapping) == ["guides/errors.md"]
    assert indexed.similar(text="error", filters={"since": "2020"}, mode="", path="", source="").results
    with pytest.raises(InvalidQuery, match=r"no filter lang; allowed: languages, extensions"):
        indexed.search("error", filters={"lang": "go"})
