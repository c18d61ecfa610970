"""Names in code that a question writes with other borders between their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline_tests.conftest import Project

_NODE = (
    "package a;\n\npublic class {0} implements SqlNode {{\n  public boolean apply() {{ return {1}; }}\n}}\n"
)


@pytest.fixture
def indexed(project: Project, tmp_path: Path) -> Project:
    folder = tmp_path / "tags"
    folder.mkdir()
    for at, name in enumerate(("ForEachSqlNode", "MixedSqlNode", "TextSqlNode", "WhereSqlNode", "SqlNode")):
        (folder / f"{name}.java").write_text(_NODE.format(name, at))
    uses = "package a;\n\nclass Sql {\n  // sql node: a node of sql\n  int node;\n}\n"
    (folder / "Sql.java").write_text(uses)
    project.declare("code", "code", folder)
    project.refresh()
    return project


@pytest.mark.parametrize(
    "question",
    ["foreach sql node", "where is the foreach sql node", "for eachsql node", "foreach sqlnode"],
)
def test_words_that_are_together_a_name_find_it(indexed: Project, question: str):
    with KnowledgeBase.open(indexed.settings) as base:
        best = base.search(question, mode="words", explain=True).results[0]
        assert (
            best.citation.path == "ForEachSqlNode.java" and best.explain and best.explain.boosts.get("symbol")
        )


def test_a_name_with_the_borders_of_the_question_is_ranked_as_before(indexed: Project):
    with KnowledgeBase.open(indexed.settings) as base:
        results = base.search("mixed sql node", mode="words", explain=True).results
        assert results[0].citation.path == "MixedSqlNode.java"
        assert not any(result.explain.boosts.get("symbol") for result in results if result.explain)
