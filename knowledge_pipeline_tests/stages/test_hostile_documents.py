"""Documents that are made to hold a refresh: it goes on, and says what it left out."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from knowledge_pipeline.code_graph.extraction import extract
from knowledge_pipeline.syntax.parse_guard import ParseGuard
from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

LEVELS = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
MERGED = [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}], k{n}: 1}}" for n in range(1, 12)]


@pytest.mark.parametrize(
    "fields",
    [
        ["a0: &a0 x", *LEVELS, "date: *a11"],
        ["a0: &a0 x", *LEVELS, "tags: *a11"],
        ["a0: &a0 x", *LEVELS, "*a11 : title"],
        ["m0: &m0 {k0: 1}", *MERGED, "title: *m11"],
    ],
)
def test_front_matter_that_grows_by_its_aliases_makes_plain_text_with_a_note(
    tmp_path: Path, embedding_server: OpenAIServer, fields: list[str]
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    matter = "\n".join(fields)
    (folder / "bomb.md").write_text(f"---\n{matter}\n---\nA note about growth.\n")
    (folder / "other.md").write_text("---\ntitle: Other\ndate: 2024-05-06\n---\nAnother note.\n")
    project = Project(tmp_path, embedding_by(embedding_server))
    project.declare("notes", "archive", folder)
    outcome = project.refresh()
    assert not outcome.failures
    (notes,) = [stats.notes for stats in outcome.stats if stats.stage == "chunks"]
    reason = "its front matter cannot be read: its aliases grow beyond all bounds; taken as plain text"
    assert list(notes) == [f"{reason} (bomb.md)"]


HOSTILE_CODE = {
    "chain.js": ("javascript", "x = " + "a+" * 15_000 + "a"),
    "union.ts": ("typescript", "type X = " + "A | " * 20_000 + "B"),
    "Lambda.java": ("java", "a=>" * 10_000),
    "Deep.cs": ("c_sharp", "x = " + "a + " * 20_000 + "b;"),
}


def test_code_that_takes_quadratic_time_to_parse_is_cut_by_lines_with_a_note(
    tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    for name, (_, text) in HOSTILE_CODE.items():
        (folder / name).write_text(text)
    (folder / "sound.py").write_text("def sound():\n    return 1\n")
    project = Project(tmp_path, embedding_by(embedding_server))
    project.declare("code", "code", folder)
    outcome = project.refresh()
    assert not outcome.failures
    (notes,) = [stats.notes for stats in outcome.stats if stats.stage == "chunks"]
    languages = {language for language, _ in HOSTILE_CODE.values()}
    reasons = {reason for note in notes for reason in note.split("; ")}
    for language in languages:
        assert any(reason.startswith(f"could not be parsed as {language}") for reason in reasons)


def test_facts_of_long_chains_take_time_in_proportion_to_them() -> None:
    text = "=>a" * 7_000  # which is read as an assignment in an assignment in an assignment
    started = time.thread_time()
    extract("chain.py", text, "python")
    assert time.thread_time() - started < 5  # took two minutes


def test_a_parser_that_crashes_or_hangs_ends_only_its_own_process() -> None:
    guard = ParseGuard()
    try:
        assert guard.can_parse("x = 1\n" * 1_000, "python")
        assert not guard.can_parse("a=>" * 20_000, "java")
        assert guard.can_parse("x = 1\n" * 1_000, "python")
    finally:
        guard.close()
