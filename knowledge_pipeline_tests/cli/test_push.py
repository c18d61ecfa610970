"""`knowledge push`: files into a source of type `push`, and out of it."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline_tests.cli.conftest import Run


def test_files_are_pushed_replaced_and_deleted(home: Path, run: Run):
    run("sources", "add", "push", "--id", "notes")
    (home / "guides").mkdir()
    (home / "guides" / "deploy.md").write_text("# Deploy\n\nThe heron flies on Tuesdays.\n")
    (home / "draft.md").write_text("The crane stays.\n")
    run("push", "notes", "guides/deploy.md", "draft.md")
    assert "guides/deploy.md:1-3" in run("search", "when does the heron fly").out
    assert "notes: takes what is pushed; 0 documents to be taken in." in run("sources", "test", "notes").out
    run("push", "notes", "draft.md", "--id", "guides/deploy.md", "--delete", "draft.md")
    results = run("search", "crane", "--json").json["results"]
    assert [(each["citation"]["path"], each["content"]) for each in results] == [
        ("guides/deploy.md", "The crane stays.")
    ]
    run("reindex")
    assert "crane" in run("search", "crane").out


def test_what_cannot_be_pushed_is_one_sentence(indexed: Path, run: Run):
    run("sources", "add", "push")
    (indexed / "bad.md").write_bytes(b"\xff\xfe\xff")
    assert (
        "documents are pushed to one of type 'push'" in run("push", "shop-docs", "knowledge.yaml", code=2).err
    )
    for arguments, code, sentence in (
        (["no-such.md"], 2, "no-such.md cannot be read: No such file or directory"),
        (["bad.md"], 2, "bad.md cannot be read: it is no text in UTF-8"),
        ([str(indexed / "knowledge.yaml")], 2, "names no document"),
        (["--delete", "gone.md"], 3, "source 'push' has no document 'gone.md'"),
    ):
        assert sentence in run("push", "push", *arguments, code=code).err
    for wrong in ([], ["a.md", "b.md", "--id", "c.md"], ["--id", "c.md"]):
        assert "give FILE or --delete ID; --id is for one file" in run("push", "push", *wrong, code=2).err
    assert "is read from nowhere" in run("sources", "add", "push", "--path", ".", code=2).err
