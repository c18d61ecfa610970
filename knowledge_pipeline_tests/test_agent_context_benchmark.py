"""The benchmark of contexts finds mirrors, reads both forms of sets, and says what it left out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import agent_context
from benchmarks.repositories import find_mirror


@pytest.fixture
def mirrors(tmp_path: Path) -> Path:
    """A mirror of `own/shop`, as `Own+Shop/repo`, with one commit."""
    place = tmp_path / "mirrors" / "Own+Shop" / "repo"
    place.mkdir(parents=True)
    (place / "pay.py").write_text("def refund(order):\n    return order.total\n")
    git = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    return tmp_path / "mirrors"


def test_a_mirror_is_found_in_any_case_of_letters(mirrors):
    assert find_mirror(mirrors, "own/shop") == mirrors / "Own+Shop" / "repo"
    with pytest.raises(FileNotFoundError, match=r"clone own/gone to there"):
        find_mirror(mirrors, "own/gone")


def test_questions_that_cannot_be_asked_are_listed_with_the_reason(mirrors, tmp_path, monkeypatch, capsys):
    rows = [
        ("own/shop", "HEAD", "pay.py"),
        ("own/shop", "HEAD", "unknown.py"),
        ("own/shop", "0" * 40, "pay.py"),
        ("own/gone", "HEAD", "pay.py"),
    ]
    issue = "how is a refund made" + " and so on" * 600  # longer than what a search takes
    questions = [
        {"repository": repository, "commit": commit, "question": issue, "spans": [span]}
        for repository, commit, path in rows
        for span in [{"path": path, "start": 1, "end": 2}]
    ]
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    options = ["--mirrors", str(mirrors), "--store", str(tmp_path / "store")]
    monkeypatch.setattr(sys, "argv", ["agent_context", str(tmp_path / "set"), *options])
    agent_context.main()
    said, *_ = capsys.readouterr().out.partition("┏")
    assert said.splitlines() == [
        "1 of 4 questions",
        "left out: own/shop, 1 of 2 questions: none of their lines is in its files",
        f"left out: own/shop, 1 of 1 questions: its mirror lacks the commit {'0' * 40}",
        f"left out: own/gone, 1 of 1 questions: there is no git repository at {mirrors / 'own+gone'}: "
        f"clone own/gone to there",
    ]


def test_of_a_mixed_set_the_targets_that_are_lines_count(tmp_path: Path):
    rows: list[dict[str, Any]] = [
        {"id": "1", "kind": "howto", "question": "a", "targets": [line_target(3, 4), {"commit": "f" * 40}]},
        {"id": "2", "kind": "history", "question": "b", "targets": [{"commit": "e" * 40}]},
        {"id": "3", "kind": "none", "question": "c", "targets": []},
    ]
    for row in rows:
        row |= {"repository": "own/shop", "commit": "HEAD"}
        row["targets"] = [target | {"grade": 2} for target in row["targets"]]
    (tmp_path / "own+shop.jsonl").write_text("\n".join(map(json.dumps, rows)))
    questions, left_out = agent_context.read_questions(tmp_path)
    assert left_out == 2
    assert [(question.repository, question.text, set(question.lines)) for question in questions] == [
        ("own/shop", "a", {("pay.py", 3), ("pay.py", 4)}),
        ("own/shop", "b", set()),
    ]


def line_target(start: int, end: int) -> dict[str, Any]:
    return {"path": "pay.py", "start": start, "end": end}
