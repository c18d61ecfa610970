"""Results say whether their files have changed since they were indexed."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.query.working_tree import has_content
from knowledge_pipeline.serve.mcp.text import render_answer
from knowledge_pipeline_tests.conftest import Project

PAY = "def pay(order):\n    return order.total\n"
SHIP = "def ship(order):\n    return order.address\n"
TEXT = "host = 'a'\nkey = 'secret'\nport = 1\n"


@pytest.fixture
def folder(project: Project, tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "pay.py").write_text(PAY)
    (folder / "ship.py").write_text(SHIP)
    project.declare("code", "code", folder)
    project.refresh()
    return folder


def states(base: KnowledgeBase) -> dict[str, str | None]:
    found = base.search("pay or ship an order", type="code").results
    return {each.citation.path: each.file_state for each in found}


def test_each_result_says_whether_its_file_is_the_same_has_changed_or_is_gone(project: Project, folder: Path):
    with KnowledgeBase.open(project.settings) as base:
        assert states(base) == {"pay.py": "same", "ship.py": "same"}
        (folder / "pay.py").write_text("import decimal\n\n\n" + PAY)
        assert states(base)["pay.py"] == "same", "the definition itself is as it was"
        (folder / "pay.py").write_text(PAY.replace("total", "price"))
        (folder / "ship.py").unlink()
        assert states(base) == {"pay.py": "changed", "ship.py": "missing"}, "an answer from the cache, too"
        text = render_answer(base.search("pay or ship an order", type="code"))
        assert "changed since it was indexed" in text and "its file is gone" in text


def test_a_document_and_a_context_say_it_too(project: Project, folder: Path):
    with KnowledgeBase.open(project.settings) as base:
        (folder / "pay.py").write_text(PAY.replace("total", "price"))
        (result,) = base.get("code:pay.py").results
        assert result.file_state == "changed"
        excerpts = base.context("pay or ship an order").excerpts
        found = {each.citation.path: each.file_state for each in excerpts}
        assert found == {"pay.py": "changed", "ship.py": "same"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("host = 'a'\nkey = 'secret'", True),
        ("host = 'b'", False),
        ("host = 'a'\r\nkey = 'secret'", True),
        ("host = 'a'\nkey = '[REDACTED:password]'\nport = 1", True),  # what is around it is compared
        ("host = 'a'\nkey = '[REDACTED:password]'\nport = 2", False),
    ],
)
def test_redacted_lines_are_not_compared_and_all_others_are(content: str, expected: bool) -> None:
    assert has_content(TEXT, content) is expected
