"""`knowledge publish`, as a user runs it, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Run
from knowledge_pipeline_tests.stages.publish.conftest import Query
from knowledge_pipeline_tests.stages.publish.conftest import dsn as dsn  # fixtures
from knowledge_pipeline_tests.stages.publish.conftest import pgvector_server as pgvector_server
from knowledge_pipeline_tests.stages.publish.conftest import query as query


def test_a_release_is_published_and_an_edit_after_it(run: Run, shop: Path, dsn: str, query: Query) -> None:
    assert "is in schema knowledge of PostgreSQL" in run("publish").out
    assert "nothing changed" in run("publish").out
    (shop / "docs" / "guide.md").write_text("# Guide\n\nSessions are signed weekly.\n")
    run("refresh", "--source", "shop-docs")
    changed = run("publish", "--json").json
    rows = query("select count(*) from knowledge.chunks")[0][0]
    assert changed["rows"] == rows
    assert 0 < changed["added"] + changed["changed"] < rows
    assert dsn.partition("@")[0].rpartition(":")[2] not in str(changed)
    run("publish", "--schema", "other")
    assert query("select count(*) from other.chunks") == [(rows,)]


@pytest.mark.parametrize(
    ("address", "arguments", "code", "sentence"),
    [
        ("", (), 2, "set KNOWLEDGE_PUBLISH_DSN to the address of the database"),
        ("postgresql://me:hidden@127.0.0.1:1/x", (), 4, "that KNOWLEDGE_PUBLISH_DSN names cannot be reached"),
        ("hidden", (), 2, "KNOWLEDGE_PUBLISH_DSN is no address of a database"),
        ("postgresql://me:hidden@127.0.0.1:1/x", ("--schema", "No Good"), 2, "found the schema 'No Good'"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_the_password(
    run: Run,
    indexed: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    arguments: tuple[str, ...],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.setenv("KNOWLEDGE_PUBLISH_DSN", address)
    failed = run("publish", *arguments, code=code)
    assert sentence in failed.err
    assert "hidden" not in failed.out + failed.err
