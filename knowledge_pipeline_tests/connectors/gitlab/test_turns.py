"""What people write on GitLab: closing words, uploads, whatever else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline.connectors.gitlab.conversations import clean_gitlab_markdown, find_closed_issues

CONNECTION = GitlabConnection(type="gitlab", project="octo/core/engine", url="https://gitlab.test/")

words = st.lists(st.from_regex(r"\A[a-z]{1,9}\Z"), max_size=5).map(" ".join)
pieces = st.sampled_from(
    [
        "closes",
        "Fixes:",
        "#1",
        "core/x#2",
        ",",
        " and ",
        "`",
        "```\n",
        "\n",
        "](/uploads/",
        "0a" * 16,
        "/-/issues/3",
    ]
)


@pytest.mark.parametrize(
    ("written", "closed"),
    [
        ("Closes #4, #6, Related to #5", ["octo/core/engine#4", "octo/core/engine#6"]),
        (
            "Fix #20, Fixes #21 and Closes group/otherproject#22.",
            [*map("octo/core/engine#{}".format, (20, 21))],
        ),
        ("fixes #18, #19\nand https://gitlab.test/group/other/-/issues/23.", ["group/other#23"]),
        ("resolves: issue #2 and issues #3", ["octo/core/engine#2", "octo/core/engine#3"]),
        ("Implements https://gitlab.test/a/b/-/work_items/7", ["a/b#7"]),
        (
            "closes https://gitlab.test/groups/a/-/work_items/7",
            ["https://gitlab.test/groups/a/-/work_items/7"],
        ),
        ("closes https://other.test/a/b/-/issues/7", ["https://other.test/a/b/-/issues/7"]),
        ("Fixes ENG-12 and other#3", ["ENG-12", "octo/core/other#3"]),
    ],
)
def test_the_default_closing_pattern_is_understood(written: str, closed: list[str]) -> None:
    found = find_closed_issues(written, CONNECTION)
    assert {mention["kind"] for mention in found} == {"closes"}
    assert set(closed) <= {mention["target"] for mention in found}


@pytest.mark.parametrize(
    "written",
    [
        None,
        "",
        "Relates to #5",
        "`closes #5`",
        "```\ncloses #5\n```",
        "discloses #5",
        "fixes utf-8",
        "closes!5",
    ],
)
def test_what_closes_nothing_is_no_mention(written: str | None) -> None:
    assert find_closed_issues(written, CONNECTION) == []


def test_an_upload_is_linked_to_where_it_lies() -> None:
    upload = f"/uploads/{'0a' * 16}/log.txt"
    assert clean_gitlab_markdown(f"see [log]({upload}) or `{upload}`", CONNECTION) == (
        f"see [log](https://gitlab.test/octo/core/engine{upload}) or `{upload}`"
    )
    assert clean_gitlab_markdown("see [there](/uploads/x)", CONNECTION) == "see [there](/uploads/x)"


@given(st.lists(st.one_of(words, pieces, st.text(max_size=9))).map("".join))
def test_nothing_that_is_written_is_too_much(written: str) -> None:
    assert all(mention["target"] for mention in find_closed_issues(written, CONNECTION))
    clean_gitlab_markdown(written, CONNECTION)


@given(st.lists(words), st.booleans())
def test_no_word_is_lost(lines: list[str], linked: bool) -> None:
    written = "\n\n".join(f"[{line}](/uploads/{'0a' * 16}/f)" if linked and line else line for line in lines)
    shown = re.findall(r"[a-z]+", re.sub(r"\]\([^)]*\)", "", clean_gitlab_markdown(written, CONNECTION)))
    assert shown == " ".join(lines).split()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "piece", ["`", "```\n", "closes ", "closes #1 ", "a/", "closes " + "a" * 250, " ,", "[](/uploads/"]
)
def test_a_long_text_is_read_to_its_end(piece: str) -> None:
    """What grew with the square of the length would take many minutes; the tests' time limit ends it."""
    find_closed_issues(piece * (2_000_000 // len(piece)), CONNECTION)
