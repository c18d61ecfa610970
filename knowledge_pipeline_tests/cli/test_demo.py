"""What `make demo` shows a person first, on this repository, is right as soon as words can be searched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_first_question_of_the_demo_is_answered_rightly_by_words_alone(home: Path, run: Run) -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo:")[2]
    (question, *_) = re.findall(r'knowledge search "(.+?)" --limit', recipe)
    (home / "knowledge.yaml").write_text(
        f"version: 1\nstore: .knowledge\nsources:\n"
        f"  - {{id: code, type: code, connection: {{type: local, path: '{ROOT}'}},"
        f" exclude: [knowledge_pipeline_tests/corpus/, Makefile]}}\n"
        f"  - {{id: docs, type: markdown, connection: {{type: local, path: '{ROOT}'}}}}\n"
    )
    run("index", "--words")
    (first, *_) = run("search", question, "--mode", "words", "--json").json["results"]
    assert first["citation"]["path"] == "knowledge_pipeline/sanitizing/sanitize.py"
