"""Pairs from a real store: code with its docstrings, and the history of its repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline.extensions.tuning_examples import mine_pairs
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.repositories import Repository

CART = 'def empty_cart(cart):\n    """Take everything out of a cart."""\n    cart.clear()\n'
EARLIER, LATER = 1_700_000_000, 1_710_000_000  # seconds
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def shop(project: Project, tmp_path: Path) -> Repository:
    """A repository of two commits, indexed as code and as history."""
    repository = Repository(tmp_path / "shop")
    repository.write({"cart.py": CART, "data.json": "{}"}).commit(
        "Let customers empty their cart", when=EARLIER
    )
    keys = f'def read_key():\n    """Return the key that is {SECRET} here."""\n    return 1\n'
    repository.write({"keys.py": keys, "data.json": "[]"}).commit("Read the key of a customer", when=LATER)
    project.declare("app", "code", tmp_path / "shop")
    project.declare("past", "git_history", tmp_path / "shop")
    project.refresh()
    return repository


@pytest.mark.usefixtures("shop")
def test_docstrings_and_commits_become_pairs_dated_by_the_history(project: Project) -> None:
    pairs = mine_pairs(project.lake, project.settings)
    assert [(each.kind, each.question.text) for each in pairs] == [
        ("docstring", "Take everything out of a cart"),
        ("commit", "Read the key of a customer"),
        ("commit", "Let customers empty their cart"),
    ]
    assert [[one.path for one in each.question.answers] for each in pairs] == [
        ["cart.py"],
        ["keys.py"],
        ["cart.py"],
    ]
    assert [each.made_at and each.made_at.timestamp() for each in pairs] == [EARLIER, LATER, EARLIER]
    assert mine_pairs(project.lake, project.settings, limit=1) == pairs[:2]


@pytest.mark.usefixtures("shop")
def test_a_judged_result_becomes_a_pair(project: Project) -> None:
    with KnowledgeBase(project.settings, access=Access.operator()) as knowledge:
        found = knowledge.search("where do carts lose things", type="code")
        knowledge.feedback(found.query_id, found.results[0].id, "useful")
    (judged,) = [each for each in mine_pairs(project.lake, project.settings) if each.kind == "judgement"]
    assert judged.question.text == "where do carts lose things" and judged.question.type == "code"
    assert judged.question.answers[0].path.startswith("app:")


def test_an_empty_store_has_no_pairs(project: Project) -> None:
    assert mine_pairs(project.lake, project.settings) == []
