"""`knowledge verify --sources` says what differs from a source, and ends with 1 then."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.cli.conftest import Run


@pytest.fixture
def indexed(home: Path, run: Run) -> Lake:
    folder = home / "notes"
    folder.mkdir()
    (folder / "build.md").write_text("# Build\n\nHow to build.\n")
    config = home / "knowledge.yaml"
    config.write_text(
        config.read_text().replace("sources: []", "sources:")
        + """\
  - {id: notes, type: markdown, connection: {type: local, path: notes}}
  - {id: inbox, type: push, connection: {type: push}}
"""
    )
    run("refresh", "--source", "notes")
    return Lake(home / ".knowledge")


def test_what_differs_is_named_and_a_refresh_mends_it(indexed: Lake, run: Run):
    assert "notes: 0 documents differ (listed 1" in run("verify", "--sources").out
    table = indexed.snapshot("markdown", "notes")
    [row] = table.read_rows(table.schema.names, eq("uri", "build.md")).to_pylist()
    table.upsert([pa.RecordBatch.from_pylist([row | {"text": "# Other\n"}], schema=table.schema)])
    told = run("verify", "--sources", "notes", code=1).out
    assert "build.md" in told and "stored with another text" in told and "`knowledge refresh` mends" in told
    run("refresh", "--source", "notes")
    [source] = run("verify", "--sources", "--json").json["sources"]
    assert source["differences"] == {} and source["documents"] == 1


def test_what_cannot_be_compared_or_is_typed_wrong_is_one_sentence(indexed: Lake, run: Run):
    assert "pushed: nobody else has them" in run("verify", "--sources", "inbox", code=1).out
    assert "SOURCE goes with --sources" in run("verify", "notes", code=2).err
    assert "no source 'other'" in run("verify", "--sources", "other", code=3).err
