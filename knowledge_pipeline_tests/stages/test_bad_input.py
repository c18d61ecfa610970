"""Everything bad in one repository: each is taken or skipped with its reason, and the rest goes on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline_tests.conftest import Project, tables

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
BOMB = "openapi: 3.0.0\na: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
ODD_NAMES = [
    "with space.py",
    "quo'te\".py",
    "new\nline.py",
    "-dash.py",
    "per%cent.py",
    "é😀.py",
    "a;b|c&d.py",
    "x" * 200 + ".py",
]


def git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)


def rows(project: Project, stage: str, source: str, type_: str) -> list[dict[str, Any]]:
    table = getattr(project.lake, stage)(type_, source)
    return table.read_rows(table.schema.names).to_pylist()


def reasons(project: Project, source: str, type_: str) -> dict[str, str | None]:
    return {row["uri"]: row["skipped"] for row in rows(project, "snapshot", source, type_)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one good file and everything that can be bad."""
    made = tmp_path / "repo"
    made.mkdir()
    (made / "good.py").write_text("def good():\n    return 1\n")
    (made / "broken_utf8.py").write_bytes(b"x = '\xff\xfe\xfa broken'\n")
    (made / "binary.py").write_bytes(bytes(range(256)) * 40)
    (made / "empty.py").write_text("")
    (made / "one_line.py").write_text("x = [" + "1, " * 350_000 + "]\n")
    (made / "syntax_error.py").write_text("def broken(:\n  ((((\nclass {]\n" * 3)
    (made / "lfs.py").write_text(LFS)
    with (made / "huge.py").open("wb") as file:
        file.truncate(100_000_000)
    (made / "loop").mkdir()
    (made / "loop" / "again").symlink_to(made / "loop", target_is_directory=True)
    (made / "link.py").symlink_to(made / "good.py")
    for name in ODD_NAMES:
        (made / name).write_text(f"odd = {len(name)}\n")
    (Path(os.fsdecode(os.fsencode(made) + b"/undecodable\xff.py"))).write_text("odd = 'bytes'\n")
    return made


EXPECTED = {
    "broken_utf8.py": "not valid UTF-8",
    "binary.py": "binary",
    "empty.py": "empty",
    "lfs.py": "LFS",
    "huge.py": "larger than",
    "one_line.py": "larger than",
}


@pytest.mark.parametrize("connection", ["local", "git"])
def test_each_bad_file_is_skipped_with_its_reason_or_taken(
    project: Project, folder: Path, connection: str
) -> None:
    project.declare("main", "code", folder)
    if connection == "git":
        git(folder, "init", "-qb", "main")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "everything")
        project.sources["main"]["connection"] = {"type": "git", "url": str(folder)}
    assert project.refresh().failures == {}
    found = reasons(project, "main", "code")
    for name, reason in EXPECTED.items():
        assert reason in str(found[name]), name
    assert found["good.py"] is None
    assert found["syntax_error.py"] is None
    odd = [row for row in rows(project, "chunks", "main", "code") if "odd = " in row["text"]]
    assert len(odd) == len(ODD_NAMES) + 1
    assert "symbolic link" in str(found["link.py"])
    assert not any(uri.startswith("loop") for uri in found)
    syntax = [row for row in rows(project, "chunks", "main", "code") if row["uri"] == "syntax_error.py"]
    assert syntax and all("lines" in row["metadata"] or row["symbol"] for row in syntax)
    once = tables(project)
    assert not any(stats.has_changes for stats in project.refresh().stats)
    assert tables(project) == once


@pytest.mark.slow
def test_a_line_of_a_megabyte_is_taken_where_the_limit_allows_it(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "one_line.py").write_text("x=[" + "'word', " * 150_000 + "]\n")
    project.declare("main", "code", folder, max_bytes=2_000_000, chunking={"max_tokens": 2000})
    assert project.refresh().failures == {}
    chunks = rows(project, "chunks", "main", "code")
    assert len(chunks) > 10
    assert max(row["tokens"] for row in chunks) <= 2000


def test_a_yaml_bomb_and_a_broken_specification_are_taken_as_text_with_a_note(
    project: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "bomb.yaml").write_text(BOMB)
    (folder / "broken.yaml").write_text("openapi: 3.0.0\npaths: [unclosed\n")
    (folder / "good.yaml").write_text(
        "openapi: 3.0.0\ninfo: {title: t, version: '1'}\npaths:\n  /pets:\n    get:\n"
        "      summary: List pets\n      responses: {'200': {description: ok}}\n"
    )
    project.declare("main", "openapi", folder)
    outcome = project.refresh()
    assert outcome.failures == {}
    chunks = rows(project, "chunks", "main", "openapi")
    assert {"bomb.yaml", "broken.yaml", "good.yaml"} == {row["uri"] for row in chunks}
    notes = next(stats.notes for stats in outcome.stats if stats.stage == "chunks")
    assert notes.total() == 2
    assert any("GET /pets" in row["header"] for row in chunks)


def test_files_that_are_not_what_their_name_says_are_skipped(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "fake.pdf").write_bytes(b"this is not a PDF at all")
    (folder / "fake.docx").write_bytes(b"PK\x03\x04 neither is this")
    (folder / "page.html").write_text("<html><body><h1>Title</h1><p>Some text.</p></body></html>")
    (folder / "note.txt").write_text("A note. With two sentences.")
    project.declare("main", "files", folder)
    assert project.refresh().failures == {}
    found = reasons(project, "main", "files")
    assert found["page.html"] is found["note.txt"] is None
    assert "PDF" in str(found["fake.pdf"])
    assert found["fake.docx"]


FRAIL = """
import os
from pathlib import Path

def read(name, payload):
    tries = Path(payload.decode())
    tries.write_text(tries.read_text() + name[0] if tries.exists() else name[0])
    if name == "never.txt" or tries.read_text().count(name[0]) < 2:
        os.kill(os.getpid(), 9)
    return "read at last"
"""


def test_a_file_whose_parser_ended_is_tried_once_more(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/frail_extractor.py").write_text(FRAIL)
    monkeypatch.syspath_prepend(tmp_path / "plugins")
    folder, tries = tmp_path / "files", tmp_path / "tries"
    folder.mkdir()
    for name in ("late.txt", "never.txt"):
        (folder / name).write_text(str(tries))
    project.declare("main", "files", folder)
    project.sources["main"]["files"] = {"extractor": "frail_extractor:read"}
    read: list[str] = []
    for _ in range(4):
        project.refresh()
        read.append("".join(sorted(tries.read_text())))
    # Each is tried twice, not for ever.
    assert read == ["ln", "llnn", "llnn", "llnn"]
    found = reasons(project, "main", "files")
    assert found == {"late.txt": None, "never.txt": "its parser crashed, or needed too much memory"}


def test_an_empty_repository_gives_nothing_and_fails_nothing(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-qb", "main")
    for id_, type_ in (("main", "code"), ("history", "git_history")):
        project.declare(id_, type_, folder)
        project.sources[id_]["connection"] = {"type": "git", "url": str(folder)}
    outcome = project.refresh()
    assert outcome.failures == {}
    assert {stats.seen for stats in outcome.stats} == {0}


def test_a_submodule_is_recorded_as_one(project: Project, tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for folder in (inner, outer):
        folder.mkdir()
        git(folder, "init", "-qb", "main")
        (folder / "a.py").write_text("a = 1\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "first")
    git(outer, "submodule", "add", str(inner), "vendored_inner")
    git(outer, "commit", "-qm", "submodule")
    for id_ in ("over_git", "over_folder"):
        project.declare(id_, "code", outer)
    project.sources["over_git"]["connection"] = {"type": "git", "url": str(outer)}
    assert project.refresh().failures == {}
    for id_ in ("over_git", "over_folder"):
        assert "submodule" in str(reasons(project, id_, "code").get("vendored_inner"))
        assert project.lake.chunks("code", id_).count_rows(is_null("skipped")) == 1
