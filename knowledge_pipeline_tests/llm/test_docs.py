"""The examples of the page about language models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge_pipeline.config import file

PAGE = Path(__file__).parents[2] / "docs" / "language-model.md"
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_valid_and_switches_something_on(example, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any-key")
    path = tmp_path / "knowledge.yaml"
    path.write_text(example)
    query = file.load_settings(path).query
    assert query.list_language_model_keys() or query.decompose == "rules"


def test_there_are_examples():
    assert len(EXAMPLES) >= 4
