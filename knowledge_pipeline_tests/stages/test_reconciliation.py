"""The four consequences of "every stage is a reconciliation", on generated histories.

1. Incremental equals full, after any edits, deletions, renames, ignores, config changes, crashes.
2. Cost follows the change.
3. No state beside the data.
4. A full reindex is the same code.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.stages import chunks as chunk_rows
from knowledge_pipeline.stages import embeddings
from knowledge_pipeline.stages import pipeline as early_release
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.thoroughness import examples, stride

NAMES = ["a.py", "b.py", "pkg/c.py", "pkg/d.go", "odd 'name\".py", "é😀.py"]
FEW_CHUNKS = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(30))
BODIES = [
    "def add(left, right):\n    return left + right\n",
    "def sub(one, two):\n    return one - two\n\n\nclass Store:\n    def get(self):\n        return 1\n",
    "# a comment alone\n",
    "",
    "def broken(:\n",
    "package main\n\nfunc main() {\n\tprintln(1)\n}\n",
    "x = 1\n" * 300,
    FEW_CHUNKS,
    FEW_CHUNKS.replace("return 29", "return 'the last'"),
    FEW_CHUNKS * 2,
]
CHANGES = [
    {},
    {"exclude": ["pkg/"]},
    {"exclude": ["*.go", "!a.py"]},
    {"include": ["*.py"]},
    {"max_bytes": 60},
    {"chunking": {"max_tokens": 40}},
    {"chunking": {"strategy": "fixed_size", "max_tokens": 64, "overlap_tokens": 8}},
    {"metadata": {"tags": ["team"], "code": False}},
    {"sanitize": {"secrets": "off"}},
    {"access": {"visibility": "tenant", "tenant": "acme"}},
    {"languages": ["python"]},
    {"embedding": "other"},
]

Step = tuple[str, object, object]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(BODIES)),
        st.tuples(st.just("write at one time"), st.sampled_from(NAMES), st.sampled_from(BODIES)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("ignore"), st.sampled_from(["*.go\n", "pkg/\n", "b.py\n", ""]), st.none()),
        st.tuples(st.just("configure"), st.sampled_from(CHANGES), st.none()),
        st.tuples(st.just("refresh"), st.none(), st.none()),
        st.tuples(st.just("crash"), st.integers(1, 12), st.none()),
    ),
    min_size=2,
    max_size=9,
)


class Crash(Exception):
    """Stands for a kill between two writes."""


@contextmanager
def crash_before_write(number: int) -> Iterator[None]:
    """Let the store die just before its `number`th write."""
    left = number
    commit = Table._commit

    def fragile(table: Table, write: Callable[[], object], **how: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash
        commit(table, write, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_commit", fragile)
        yield


def take(step: Step, project: Project, folder: Path) -> None:
    """Carry one step of a history out."""
    action, first, second = step
    match action:
        case "write" | "write at one time":
            path = folder / str(first)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(second), encoding="utf-8")
            if action == "write at one time":  # then only the chunks that differ are other rows
                os.utime(path, (0, 0))
        case "delete":
            (folder / str(first)).unlink(missing_ok=True)
        case "rename":
            if (folder / str(first)).exists():
                (folder / str(second)).parent.mkdir(parents=True, exist_ok=True)
                (folder / str(first)).rename(folder / str(second))
        case "ignore":
            (folder / ".gitignore").write_text(str(first))
        case "configure":
            configure(project, folder, dict(first))  # type: ignore[call-overload]
        case "refresh":
            project.refresh(allow_empty=True)
        case "crash":
            try:
                with crash_before_write(int(str(first))):
                    project.refresh(allow_empty=True)
            except Crash:
                pass


def configure(project: Project, folder: Path, change: dict[str, object]) -> None:
    if change.get("embedding") == "other":
        change["embedding"] = project.embedding.model_copy(update={"model": "other-words"})
    project.declare("main", "code", folder, **change)


@contextmanager
def release_words_first() -> Iterator[None]:
    """Let every source be indexed before it is embedded, and released after every few vectors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(early_release, "MIN_REMOTE_TEXTS", 0)
        patch.setattr(early_release, "INTERVAL_S", 0.0)
        patch.setattr(early_release, "MAX_TIME_SHARE", 1e9)
        patch.setattr(embeddings, "TEXTS_PER_COMMIT", 8)
        yield


def history_ends_as_a_full_index_does(steps: list[Step], server: OpenAIServer, *, words_first: bool) -> None:
    with tempfile.TemporaryDirectory() as root, release_words_first() if words_first else nullcontext():
        folder = Path(root) / "repo"
        folder.mkdir()
        (folder / "stays.py").write_text("stays = True\n")
        project = Project(Path(root), embedding_by(server))
        project.declare("main", "code", folder)
        for step in steps:
            take(step, project, folder)
        failures = project.refresh(allow_empty=True).failures
        live = tables(project, archived=False)
        everything = tables(project)

        project.refresh(allow_empty=True, full=True)
        assert tables(project) == everything, "a full reindex changed what an incremental refresh had left"

        fresh = Project(Path(root) / "fresh", project.embedding)
        fresh.sources = project.sources
        assert fresh.refresh(allow_empty=True).failures.keys() == failures.keys()
        assert live == tables(fresh, archived=False)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS, st.booleans())
def test_after_any_history_a_refresh_leaves_what_a_full_index_would(
    embedding_server: OpenAIServer, steps: list[Step], words_first: bool
) -> None:
    history_ends_as_a_full_index_does(steps, embedding_server, words_first=words_first)


@pytest.mark.parametrize("first", [[("refresh", None, None)], [("delete", "stays.py", None)]])
@pytest.mark.parametrize(
    "write", [3, 6, *(pytest.param(write, marks=pytest.mark.slow) for write in (4, 5, 7, 8))]
)
def test_a_file_that_is_gone_after_a_kill_leaves_nothing(
    embedding_server: OpenAIServer, first: list[Step], write: int
) -> None:
    steps = [*first, ("write", "a.py", BODIES[0]), ("crash", write, None), ("delete", "a.py", None)]
    history_ends_as_a_full_index_does(steps, embedding_server, words_first=False)


@pytest.mark.parametrize("words_first", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_crash_before_each_single_write_is_healed(
    project: Project, tmp_path: Path, words_first: bool
) -> None:
    files = "test_failures.py" if words_first else "test_b*.py"
    with release_words_first() if words_first else nullcontext():
        crash_before_writes(project, tmp_path, files)


def crash_before_writes(project: Project, tmp_path: Path, files: str) -> None:
    """Crash before each write, or one of some."""
    folder = tmp_path / "repo"
    folder.mkdir()
    for path in sorted(Path(__file__).parent.glob(files)):
        shutil.copy(path, folder)
    undisturbed = Project(tmp_path / "calm", project.embedding)
    undisturbed.declare("main", "code", folder)
    undisturbed.refresh()
    crashes = 0
    for write in range(1, 200, stride(3)):
        disturbed = Project(tmp_path / f"hit{write}", project.embedding)
        disturbed.declare("main", "code", folder)
        try:
            with crash_before_write(write):
                disturbed.refresh()
        except Crash:
            crashes += 1
            disturbed.refresh()
            assert tables(disturbed) == tables(undisturbed)
        else:
            break
    assert crashes >= 5, "snapshot, chunks, embeddings, index and release each write at least once"


def versions(project: Project) -> dict[str, int]:
    """Newest version of every table there is, the logs aside."""
    return {
        str(path.parent.relative_to(project.lake.root)): sum(1 for _ in path.iterdir())
        for path in project.lake.root.rglob("_versions")
        if "logs" not in path.parts
    }


def test_refreshing_twice_writes_nothing(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    for name, body in zip(["a.py", "b.py", "empty.py"], [BODIES[0], BODIES[1], ""], strict=True):
        (folder / name).write_text(body)
    project.declare("main", "code", folder)
    first = project.refresh()
    before, once = versions(project), tables(project)
    second = project.refresh()
    assert (first.failures, second.failures) == ({}, {})
    assert versions(project) == before
    assert tables(project) == once != {}
    assert not any(stats.has_changes for stats in second.stats)


def test_one_edit_costs_one_document_and_its_vectors(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    for number in range(40):
        (folder / f"m{number}.py").write_text(f"def f{number}():\n    return {number}\n")
    project.declare("main", "code", folder)
    project.refresh()
    (folder / "m7.py").write_text("def f7():\n    return 'seven'\n")
    stats = {one.stage: one for one in project.refresh().stats}
    assert (stats["snapshot"].changed, stats["chunks"].changed, stats["embeddings"].added) == (1, 1, 1)
    assert (stats["index"].added, stats["index"].removed, stats["index"].unchanged) == (1, 1, 39)


def test_a_file_that_is_gone_is_archived_without_cutting_it_again(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    for name, body in zip(["a.py", "b.py", "c.py"], [BODIES[1], BODIES[2], FEW_CHUNKS], strict=True):
        (folder / name).write_text(body)
    project.declare("main", "code", folder)
    project.refresh()
    for name in ("b.py", "c.py"):
        (folder / name).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(chunk_rows.chunking, "chunk_document", lambda *_, **__: pytest.fail("it is cut"))
        assert project.refresh().failures == {}
    archived = tables(project)
    project.refresh(full=True)
    assert tables(project) == archived


def test_an_edit_that_only_moves_a_function_embeds_nothing(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    functions = "".join(f"def f{number}():\n    return [{number}] * {number}\n\n\n" for number in range(30))
    (folder / "a.py").write_text('"""First."""\n\n' + functions)
    project.declare("main", "code", folder, chunking={"max_tokens": 96, "min_tokens": 0})
    project.refresh()
    before = {row["id"] for row in tables(project)["chunks main"]}
    (folder / "a.py").write_text('"""First, and\n\n\nlonger."""\n\n' + functions)
    stats = {one.stage: one for one in project.refresh().stats}
    after = {row["id"] for row in tables(project)["chunks main"]}
    assert stats["embeddings"].added <= 1
    assert len(before - after) <= 1, "an edit above them left the ids of other chunks alone"


def test_what_is_kept_beside_the_tables_may_be_lost(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.py").write_text(BODIES[0])
    project.declare("main", "code", folder)
    project.refresh()
    for place in ("locks", "cache"):
        shutil.rmtree(project.lake.root / place, ignore_errors=True)
    for path in project.lake.root.glob("state.sqlite*"):
        path.unlink()
    assert [path.name for path in project.lake.root.glob("*") if path.is_file()] == []
    once = tables(project)
    assert not any(stats.has_changes for stats in project.refresh().stats)
    assert tables(project) == once


def test_a_text_that_another_source_has_is_not_embedded_again(
    project: Project, tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("def unheard_of():\n    return 'embedded once'\n")
        project.declare(name, "code", tmp_path / name)
    project.refresh("one")
    asked = len(embedding_server.requests)
    outcome = project.refresh("two")
    assert len(embedding_server.requests) == asked
    assert next(s for s in outcome.stats if s.stage == "embeddings").notes == {"taken from another source": 1}
    project.refresh("two", reembed=True)
    assert len(embedding_server.requests) == asked + 1


def test_switching_a_branch_back_embeds_nothing_again(
    project: Project, tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    project.declare("main", "code", folder)
    (folder / "a.py").write_text("def before_the_switch():\n    return 1\n")
    project.refresh()
    (folder / "a.py").write_text("def after_the_switch():\n    return 2\n")
    project.refresh()
    asked = len(embedding_server.requests)
    (folder / "a.py").write_text("def before_the_switch():\n    return 1\n")
    project.refresh()
    assert len(embedding_server.requests) == asked
