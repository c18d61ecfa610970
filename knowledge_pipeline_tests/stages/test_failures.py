"""Failed is never done, and a listing that fails deletes nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from knowledge_pipeline.errors import EmbeddingUnavailable, SourceRefused
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]


@pytest.fixture(scope="module")
def released(template: Project) -> Project:
    """A source of two files, refreshed and released."""
    made = template.root / "repo"
    made.mkdir()
    (made / "a.py").write_text("first = 1\n")
    (made / "b.py").write_text("second = 2\n")
    template.declare("main", "code", made)
    template.refresh()
    return template


@pytest.fixture
def folder(project: Project, released: Project) -> Path:
    """The source of a copy of it."""
    project.copy_all(released)
    return project.root / "repo"


def unchanged_by(project: Project, sentence: str) -> None:
    """Refreshing fails with one sentence and leaves every table as it was."""
    before = tables(project)
    outcome = project.refresh()
    assert sentence in str(outcome.failures["main"])
    assert "\n" not in str(outcome.failures["main"])
    assert tables(project) == before


def test_a_folder_that_is_gone_deletes_nothing(project: Project, folder: Path) -> None:
    shutil.move(folder, folder.with_name("elsewhere"))
    unchanged_by(project, "repo")


def test_a_folder_that_is_suddenly_empty_deletes_nothing(project: Project, folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    unchanged_by(project, "lists no document at all, but 2 are stored")


def test_an_empty_folder_is_believed_when_told_so(project: Project, folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    assert project.refresh(allow_empty=True).failures == {}
    assert tables(project, archived=False) == {}


def test_patterns_that_match_nothing_delete_nothing(project: Project, folder: Path) -> None:
    project.declare("main", "code", folder, include=["*.pyy"])
    unchanged_by(project, "lists no document at all")


def test_a_repository_that_is_gone_deletes_nothing(project: Project, folder: Path) -> None:
    for words in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*GIT, *words], cwd=folder, check=True)
    project.sources["main"]["connection"] = {"type": "git", "url": str(folder)}
    assert project.refresh().failures == {}
    shutil.move(folder, folder.with_name("elsewhere"))
    unchanged_by(project, "repo")


def test_one_source_that_fails_does_not_stop_the_others(
    project: Project, folder: Path, tmp_path: Path
) -> None:
    project.declare("absent", "code", tmp_path / "absent")
    (folder / "a.py").write_text("third = 3\n")
    outcome = project.refresh()
    assert list(outcome.failures) == ["absent"]
    assert any(stats.source == "main" and stats.has_changes for stats in outcome.stats)
    assert outcome.release is not None and outcome.release.added == 1


def test_a_source_that_cannot_be_embedded_does_not_hold_back_the_release_of_others(
    project: Project, folder: Path, tmp_path: Path
) -> None:
    with OpenAIServer() as dead:
        gone = embedding_by(dead, max_tries=1)
    made = tmp_path / "stuck"
    made.mkdir()
    (made / "a.py").write_text("stuck = 1\n")
    project.declare("stuck", "code", made, embedding=gone)
    (folder / "a.py").write_text("third = 3\n")
    outcome = project.refresh()
    assert list(outcome.failures) == ["stuck"]
    assert outcome.release is not None and outcome.release.added == 1


def test_a_source_none_of_whose_documents_can_be_read_fails(project: Project, tmp_path: Path) -> None:
    made = tmp_path / "binary"
    made.mkdir()
    for name in ("a.py", "b.py"):
        (made / name).write_bytes(b"\x00\x01\x02" * 100)
    project.declare("main", "code", made)
    failures = project.refresh().failures
    assert isinstance(failures["main"], SourceRefused)
    assert "none of the 2 documents of source 'main' can be read" in str(failures["main"])


@pytest.mark.slow
def test_what_was_embedded_before_an_endpoint_died_is_not_embedded_again(tmp_path: Path) -> None:
    with OpenAIServer() as server:
        project = Project(tmp_path, embedding_by(server, batch_size=64, max_tries=1, max_concurrent=1))
        made = tmp_path / "repo"
        made.mkdir()
        for number in range(700):
            (made / f"m{number}.py").write_text(f"value_{number} = {number}\n")
        project.declare("main", "code", made)
        server.fail_next(*[Fault()] * 8, Fault(status=500))
        failures = project.refresh().failures
        assert isinstance(failures["main"], EmbeddingUnavailable)
        asked = len(server.requests)
        assert project.refresh().failures == {}
        again = sum(len(request.texts) for request in server.requests[asked:])
        assert again == 700 - 512, "what had been committed was not asked for again"
