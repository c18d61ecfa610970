"""`export`: stored documents as files, and nothing that is there lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.base import path_to_uri
from knowledge_pipeline.connectors.records import read_record
from knowledge_pipeline.stages.export import ExportedDocument, export_path, iter_documents, write_document
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.cli.conftest import GUIDE, Run

RECORD = b"\xef\xbb\xbf---\r\ntitle: Lock\r\n---\r\n# Lock \r\nText\r\n"
SESSION = b'{"messages": [{"role": "user", "content": "Why?"}],\n "a": 1.50}'


def export(run: Run, *arguments: str, code: int = 0) -> str:
    return run("export", "--source", "shop-docs", *arguments, code=code).out


def keep(home: Path, files: dict[str, bytes]) -> None:
    """Store files as records, as a refresh of an archive does, beside the documents of `shop-docs`."""
    table = Lake(home / ".knowledge").snapshot("markdown", "shop-docs")
    rows = []
    for name, payload in files.items():
        made = read_record(name, payload)
        known = {
            "uri": path_to_uri(name),
            "path": name,
            "text": made.text,
            "metadata": json.dumps(made.metadata),
        }
        rows.append({"revision": "1", "content_hash": "1", **known})
    table.upsert(pa.Table.from_pylist(rows, schema=table.schema).to_batches())


def test_documents_are_written_into_a_folder_and_again_without_a_change(indexed: Path, run: Run):
    assert export(run, "--to", "out") == "1 document of shop-docs: 1 written\n"
    assert (indexed / "out/docs/guide.md").read_text() == GUIDE
    assert export(run, "--to", "out") == "1 document of shop-docs: 1 unchanged\n"
    assert [path.name for path in (indexed / "out/docs").iterdir()] == ["guide.md"]


@pytest.mark.slow
def test_one_document_goes_to_stdout_byte_for_byte(indexed: Path):
    keep(indexed, {"lock.md": RECORD, "s.json": SESSION})
    for uri, payload in (("lock.md", RECORD), ("s.json", SESSION)):
        command = [sys.executable, "-m", "knowledge_pipeline.cli", "export", "-s", "shop-docs", "--uri", uri]
        done = subprocess.run(command, cwd=indexed, env=dict(os.environ), check=True, capture_output=True)
        assert (done.stdout, done.stderr) == (payload, b"")


def test_a_file_that_differs_is_left_and_the_stored_one_is_written_beside_it(indexed: Path, run: Run):
    place = indexed / "out/docs/guide.md"
    place.parent.mkdir(parents=True)
    place.write_text("mine")
    for _ in range(2):
        told = export(run, "--to", "out", code=1)
        assert "differs and is kept: the stored content is in out/docs/guide.md.stored" in told
        assert "1 kept because they differ (--force overwrites them)" in told
        assert (place.read_text(), Path(f"{place}.stored").read_text()) == ("mine", GUIDE)
        assert len(list(place.parent.iterdir())) == 2
    Path(f"{place}.stored").write_text("mine too")
    problems = json.loads(export(run, "--to", "out", "--json", code=1))["problems"]
    assert [problem["stored"] for problem in problems] == ["out/docs/guide.md.stored2"]
    assert Path(f"{place}.stored").read_text() == "mine too"
    assert "1 replaced" in export(run, "--to", "out", "--force")
    assert place.read_text() == GUIDE


@pytest.mark.slow
def test_archived_documents_come_only_when_asked_for(indexed: Path, run: Run):
    guide = indexed.parent / "shop/docs/guide.md"
    (guide.parent / "other.md").write_text("# Other\n")
    run("refresh")
    guide.unlink()
    run("refresh")
    assert export(run, "--to", "out") == "1 document of shop-docs: 1 written\n"
    assert "archived since 20" in run("export", "-s", "shop-docs", "--uri", "docs/guide.md", code=3).err
    told = export(run, "--to", "out", "--include-archived")
    assert told == "2 documents of shop-docs, 1 of them archived: 1 written, 1 unchanged\n"
    assert (indexed / "out/docs/guide.md").read_text() == GUIDE
    assert export(run, "--uri", "docs/guide.md", "--include-archived") == GUIDE


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--source", "shop-docs"], 2, "give --to FOLDER, or one --uri"),
        (["--source", "shop-docs", "--uri", "docs/guide.md", "--json"], 2, "give --to FOLDER"),
        (["--source", "none", "--to", "out"], 3, "nothing of a source 'none' is stored; stored: shop-"),
        (["--source", "shop-docs", "--uri", "no.md"], 3, "source 'shop-docs' holds no document 'no.md'"),
    ],
)
def test_what_cannot_be_exported_is_told(indexed: Path, run: Run, arguments: list[str], code: int, said: str):
    assert said in run("export", *arguments, code=code).err
    assert not (indexed / "out").exists()


def test_a_skipped_document_is_told_with_its_reason(indexed: Path, run: Run):
    (indexed.parent / "shop/docs/bad.md").write_bytes(b"\xfa\xfb\xfc\x80\x81")
    run("refresh")
    assert "was skipped (" in run("export", "-s", "shop-docs", "--uri", "docs/bad.md", code=3).err
    assert export(run, "--to", "out").startswith("1 document of shop-docs: 1 written")


def test_it_needs_no_secret(indexed: Path, run: Run, monkeypatch):
    monkeypatch.delenv("EMBEDDING_KEY")
    assert json.loads(export(run, "--to", "out", "--json"))["written"] == 1


@pytest.mark.parametrize(
    ("path", "type_", "language", "name"),
    [
        ("a/b.md", "archive", None, "a/b.md"),
        ("100% a.py", "code", "python", "100% a.py"),
        ("../../up.md", "markdown", None, "%2E%2E/%2E%2E/up.md"),
        ("/top.md", "markdown", None, "%/top.md"),
        ("a//./b.md", "markdown", None, "a/%/%2E/b.md"),
        ("nul\0.md", "markdown", None, "nul%00.md"),
        ("a.txt", "files", "text", "a.txt"),
        ("a.pdf", "files", None, "a.pdf.txt"),
        ("a.DOCX", "files", "markdown", "a.DOCX.md"),
        ("issue/12", "github_issues", "markdown", "issue/12.md"),
        ("0f3a", "git_history", None, "0f3a.txt"),
    ],
)
def test_a_name_is_the_file_s_own_and_never_leads_out_of_the_folder(path, type_, language, name, tmp_path):
    assert export_path(path_to_uri(path), type_, language) == name
    written = write_document(ExportedDocument("uri", name, b"x"), tmp_path / "in" / "side")
    assert written.outcome == "written" and written.file.resolve().is_relative_to(tmp_path / "in" / "side")


def test_a_link_in_the_folder_leads_nowhere(tmp_path: Path):
    outside, folder = tmp_path / "outside", tmp_path / "in"
    outside.mkdir()
    folder.mkdir()
    (folder / "docs").symlink_to(outside)
    (folder / "a.md").symlink_to(outside / "a.md")
    assert write_document(ExportedDocument("u", "docs/b.md", b"x"), folder).outcome == "failed"
    assert write_document(ExportedDocument("u", "a.md", b"x"), folder).outcome == "differs"
    assert write_document(ExportedDocument("u", "a.md", b"x"), folder, force=True).outcome == "replaced"
    assert list(outside.iterdir()) == [] and (folder / "a.md").read_bytes() == b"x"


def test_a_folder_in_place_of_a_file_stays_and_is_told(tmp_path: Path):
    (tmp_path / "a.md" / "b").mkdir(parents=True)
    assert write_document(ExportedDocument("u", "a.md", b"x"), tmp_path).outcome == "differs"
    assert write_document(ExportedDocument("u", "a.md", b"x"), tmp_path, force=True).outcome == "failed"
    (tmp_path / "c").write_text("a file")
    assert write_document(ExportedDocument("u", "c/d.md", b"x"), tmp_path).outcome == "failed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.md", "a.md.stored", "c"]


def test_a_source_that_is_not_configured_any_more_can_still_be_exported(indexed: Path, run: Run):
    settings: Settings = load_settings(indexed / "knowledge.yaml")
    lake = Lake(settings.store)
    without = settings.model_copy(update={"sources": ()})
    assert [document.name for document in iter_documents(lake, without, "shop-docs")] == ["docs/guide.md"]
