"""What `make demo` shows a person first, on this repository, is right as soon as words can be searched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_questions_of_the_demo_are_answered_rightly_by_words_alone(home: Path, run: Run) -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo:")[2]
    (secrets, crash, release) = re.findall(r'knowledge search "(.+?)" --limit', recipe)
    (home / "knowledge.yaml").write_text(
        f"version: 1\nstore: .knowledge\nsources:\n"
        f"  - {{id: code, type: code, connection: {{type: local, path: '{ROOT}'}},"
        f" exclude: [knowledge_pipeline_tests/corpus/, Makefile]}}\n"
        f"  - {{id: docs, type: markdown, connection: {{type: local, path: '{ROOT}'}}}}\n"
    )
    run("index", "--words")
    answers = {
        secrets: "knowledge_pipeline/sanitizing/sanitize.py",
        crash: "knowledge_pipeline/store/reconcile.py",
        release: "knowledge_pipeline/cli/releases.py",
    }
    for question, path in answers.items():
        (first, *_) = run("search", question, "--mode", "words", "--json").json["results"]
        assert first["citation"]["path"] == path, question
