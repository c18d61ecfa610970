"""One spelling for what a document is called, however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.relations import DocumentContext, list_names, resolve_name

DOCS = DocumentContext("docs", "markdown", "docs/guide/start.md", repo="Ann/app")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("PROJ-12", "key:PROJ-12"),
        ("https://example.atlassian.net/browse/PROJ-12?focusedCommentId=1", "key:PROJ-12"),
        ("#12", "issue:ann/app#12"),
        ("other/lib#12", "issue:other/lib#12"),
        ("https://github.com/Ann/App/issues/12#issuecomment-3", "issue:ann/app#12"),
        ("https://github.com/Ann/App/pull/12/files", "issue:ann/app#12"),
        ("https://gitlab.com/team/sub/app/-/issues/7", "issue:team/sub/app#7"),
        ("https://gitlab.com/team/sub/app/-/merge_requests/7/diffs", "issue:team/sub/app!7"),
        ("0123456789abcdef0123456789abcdef01234567", "commit:0123456"),
        ("https://github.com/ann/app/commit/0123456789abcdef", "commit:0123456"),
        ("https://gitlab.com/ann/app/-/commit/0123456789abcdef", "commit:0123456"),
        ("https://github.com/ann/app/blob/main/src/a%20b.py#L3", "file:ann/app/src/a b.py"),
        ("../api.md#errors", "file:ann/app/docs/api.md"),
        ("/README.md", "file:ann/app/README.md"),
        ("other.md", "file:ann/app/docs/guide/other.md"),
        ("0007", "called:docs/0007"),
        ("https://wiki.example.org/wiki/spaces/OPS/pages/98765/On+call", "page:wiki.example.org/98765"),
        ("https://wiki.example.org/pages/viewpage.action?pageId=98765", "page:wiki.example.org/98765"),
        ("https://wiki.example.org/display/OPS/On+call", "page:wiki.example.org/ops/on call"),
        (
            "https://team.slack.com/archives/C1/p1700000000000200?thread_ts=1700000000.000100&cid=C1",
            "url:team.slack.com/archives/C1/p1700000000000100",
        ),
        ("https://Example.org/a/?utm=1#top", "url:example.org/a"),
        ("#section", None),
        ("mailto:ann@example.org", None),
        ("  ", None),
    ],
)
def test_what_is_written_has_one_name(written: str, name: str | None) -> None:
    assert resolve_name(written, DOCS) == name


def test_a_number_means_nothing_where_there_is_no_repository() -> None:
    assert resolve_name("#12", DocumentContext("chat", "slack", "general")) is None


@pytest.mark.parametrize(
    ("ground", "uri", "known", "mention"),
    [
        (
            DocumentContext("t", "jira", "PROJ/PROJ-12"),
            "issue/10012",
            {"metadata": {"key": "PROJ-12"}},
            "PROJ-12",
        ),
        (
            DocumentContext("p", "github_pr", "pull/12"),
            "pull/12",
            {"url": "https://github.com/ann/app/pull/12"},
            "ann/app#12",
        ),
        (DocumentContext("h", "git_history", "commit/0123"), "commit/0123456789abcdef", {}, "0123456789"),
        (
            DocumentContext("w", "confluence", "OPS/On call", host="wiki.example.org"),
            "page/98765",
            {"title": "On call", "metadata": {"wiki_space": "OPS"}},
            "https://wiki.example.org/display/OPS/On+call",
        ),
        (DocumentContext("docs", "markdown", "docs/guide/other.md", repo="Ann/app"), "x", {}, "other.md"),
        (DocumentContext("docs", "archive", "adr/0007-lance.md"), "x", {}, "0007"),
        (DocumentContext("docs", "archive", "adr/a.md"), "x", {"metadata": {"id": "ADR-7"}}, "ADR-7"),
        (
            DocumentContext("docs", "markdown", "a.md"),
            "x",
            {"title": "Choice of a store"},
            "Choice of a store",
        ),
    ],
)
def test_a_document_answers_to_what_others_write(
    ground: DocumentContext, uri: str, known: dict[str, object], mention: str
) -> None:
    told = {"url": None, "title": "", "metadata": {}, **known}
    assert resolve_name(mention, DOCS) in list_names(ground, uri, **told)  # pyright: ignore[reportArgumentType]


def test_an_issue_answers_in_a_clone_that_knows_only_its_folder() -> None:
    issue = DocumentContext("i", "github_issues", "issue/12")
    names = list_names(issue, "issue/12", url="https://github.com/ann/app/issues/12", title="", metadata={})
    assert resolve_name("#12", DocumentContext("h", "git_history", "c", repo="app")) in names
    assert resolve_name("#12", DocumentContext("h", "git_history", "c", repo="lib")) not in names


@given(st.text(), st.sampled_from(["markdown", "code", "confluence", "slack"]))
def test_nothing_that_is_written_is_refused(written: str, source_type: str) -> None:
    for text in (written, f"https://{written}", f"https://host/{written}", f"a/{written}#1"):
        name = resolve_name(text, DocumentContext("docs", source_type, "a/b.md", repo="ann/app", host="host"))
        assert name is None or name.partition(":")[0] in {
            "key", "issue", "commit", "file", "page", "called", "url",
        }  # fmt: skip


def test_the_fingerprint_of_a_context_is_the_one_that_stores_hold() -> None:
    """A store that an earlier version wrote is not cut again, so the text may not change."""
    context = DocumentContext("shop", "code", "", repo="acme/shop", host=None)
    assert context.fingerprint() == (
        "Ground(source='shop', source_type='code', path='', repo='acme/shop', host=None)"
    )
