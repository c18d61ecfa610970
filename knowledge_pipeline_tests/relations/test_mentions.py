"""What a text says of other documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.relations import (
    KINDS,
    DocumentContext,
    extract_front_matter_mentions,
    extract_mentions,
    extract_metadata_mentions,
)
from knowledge_pipeline_tests.counted import steps

PULL = DocumentContext("pulls", "github_pr", "pull/40", repo="ann/app")
CODE = DocumentContext("code", "code", "src/a.py", repo="ann/app")


def found(text: str, ground: DocumentContext = PULL) -> list[tuple[str, str]]:
    return [(each.kind, each.target) for each in extract_mentions(text, ground)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fixes #12.", [("closes", "#12")]),
        ("Closes: PROJ-7", [("closes", "PROJ-7")]),
        ("resolves issue #1, #2 and ann/lib#3; see #4", [
            ("closes", "#1"), ("closes", "#2"), ("closes", "ann/lib#3"), ("references", "#4"),
        ]),
        ("Implements PROJ-7, duplicates PROJ-8", [("implements", "PROJ-7"), ("duplicates", "PROJ-8")]),
        ("This supersedes https://github.com/ann/app/pull/3.", [
            ("supersedes", "https://github.com/ann/app/pull/3"),
        ]),
        ("a duplicate of #3 (see #3)", [("duplicates", "#3")]),
        ("This reverts commit 0123456789abcdef0123456789abcdef01234567.", [
            ("references", "0123456789abcdef0123456789abcdef01234567"),
        ]),
        ("the fix is in #9\nand more", [("references", "#9")]),
        ("deadbeef is a word, 1234567 a number, x#5y nothing", []),
        ("[text](https://example.org/a_(b)) and `PROJ-1`", [
            ("references", "https://example.org/a_(b"), ("references", "PROJ-1"),
        ]),
    ],
)  # fmt: skip
def test_ids_addresses_and_the_words_before_them(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


def test_a_number_in_code_is_an_issue_where_it_is_called_one() -> None:
    assert found('color = "#123456"  # see issue #12, not line #3 of it', CODE) == [("references", "#12")]
    assert found("#123 of nothing", CODE) == []
    assert found("digest = 'abc1234'", CODE) == []


def test_numbers_mean_nothing_in_a_chat_without_a_repository() -> None:
    assert found("we are #1, PROJ-2 too", DocumentContext("chat", "slack", "general")) == [
        ("references", "PROJ-2")
    ]


def test_what_a_service_says_and_what_was_changed() -> None:
    told = {
        "mentions": [
            {"kind": "closes", "target": "ann/app#3"},
            {"kind": "blocks", "target": "PROJ-9"},
            "odd",
        ],
        "files": ["src/a.py"],
        "merge_commit": "0123456789abcdef0123456789abcdef01234567",
    }
    assert [(each.kind, each.name) for each in extract_metadata_mentions(told, PULL)] == [
        ("closes", "issue:ann/app#3"),
        ("references", "key:PROJ-9"),
        ("changes", "file:ann/app/src/a.py"),
        ("references", "commit:0123456"),
    ]


def test_front_matter_names_relations() -> None:
    matter = {"supersedes": ["0003", "0004-old.md"], "related": "PROJ-1", "implements": "", "closes": None}
    adr = DocumentContext("adrs", "markdown", "adr/0007.md", repo="app")
    assert [(each.kind, each.name) for each in extract_front_matter_mentions(matter, adr)] == [
        ("supersedes", "called:adrs/0003"),
        ("supersedes", "file:app/adr/0004-old.md"),
        ("references", "key:PROJ-1"),
    ]


@given(st.text() | st.text(alphabet="#!/-:.0aAPROJ12 \nhtps()[]"))
def test_any_text_is_read(text: str) -> None:
    for ground in (PULL, CODE):
        for mention in extract_mentions(text, ground):
            assert mention.kind in KINDS
            assert mention.target in text


@pytest.mark.sampled
@pytest.mark.parametrize("piece", ["fixes #1, ", "a/", "A_", "https://", "PROJ-1 ", "0a", "and (", "-.#"])
def test_a_long_text_is_read_to_its_end(piece: str) -> None:
    """What grew with the square of the length would take many minutes; the tests' time limit ends it."""
    extract_mentions(piece * (1_000_000 // len(piece)), PULL)


@pytest.mark.parametrize("piece", ["fixes #1, ", "a/", "A_", "https://", "PROJ-1 ", "0a", "and (", "-.#"])
def test_the_work_grows_with_the_text(piece: str) -> None:
    def taken(count: int) -> int:
        return steps(lambda: extract_mentions(piece * count, PULL))

    taken(10)
    assert taken(4_000) <= 5 * taken(1_000) + 100
