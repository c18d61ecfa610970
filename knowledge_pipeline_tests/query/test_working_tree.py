"""Results say whether their files have changed since they were indexed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.query.present_files import PresentFile, has_content
from knowledge_pipeline.serve.mcp.outputs import to_graph_page
from knowledge_pipeline.serve.mcp.text import render_answer, render_graph
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


def test_results_are_cited_by_the_lines_where_they_stand_now(project: Project, folder: Path):
    (folder / "twice.py").write_text("def one():\n    return 'here'\n\n\n" + "x = 1\n" * 60 + SHIP)
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        before = lines(base)
        assert (before["pay.py"], before["ship.py"]) == ("L1-L2", "L1-L2")
        (folder / "pay.py").write_text("import decimal\n\n\n" + PAY)
        (folder / "ship.py").write_bytes(b"# a\r\n" * 2 + SHIP.replace("\n", "\r\n").encode())
        after = lines(base)
        assert (after["pay.py"], after["ship.py"]) == ("L4-L5", "L3-L4"), "of an answer from the cache"
        text = render_answer(base.search("pay or ship an order", type="code"))
        assert "pay.py:4-5" in text and "changed since" not in text
        context = base.context("pay or ship an order")
        cited = {each.citation.path: each.citation.lines for each in context.excerpts}
        assert cited["pay.py"] == "L4-L5"
        assert "pay.py, lines 4-5" in context.text or "pay.py lines 4-5" in context.text, context.text
        (result,) = base.get("code:pay.py").results
        assert (result.citation.lines, result.span.start_line) == ("L4-L5", 1)


def lines(base: KnowledgeBase) -> dict[str, str]:
    found = base.search("pay or ship an order", type="code").results
    return {each.citation.path: each.citation.lines for each in reversed(found)}


@pytest.mark.parametrize(
    ("content", "near", "expected"),
    [
        ("b\nc", 2, 2),
        ("b\nc", 1, 2),
        ("b\nc", 5, 6),
        ("b\nc", 900, 6),
        ("c\nb", 2, None),
        ("d\nx = '[REDACTED:password]'\nb", 4, 4),  # the line between is not compared
        ("x = '[REDACTED:password]'\nb", 5, 5),
    ],
)
def test_lines_are_found_again_the_nearest_to_where_they_were(
    content: str, near: int, expected: int | None
) -> None:
    file = PresentFile(datetime.now(UTC), "a\nb\nc\nd\ny\nb\nc\n")
    assert file.find_first_line(content, near) == expected


CALLER = "from pay import pay as settle\n\n\ndef check_out(order):\n    return settle(order)\n"


def test_answers_of_the_code_graph_have_the_lines_of_now(project: Project, folder: Path):
    (folder / "shop.py").write_text(CALLER)
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        assert places(base) == {"pay.py L1-L2 same", "shop.py L4-L5 same", "shop.py (5,) same"}
        (folder / "pay.py").write_text("import decimal\n\n\n" + PAY)
        (folder / "shop.py").write_text("# one\n# two\n" + CALLER)
        assert places(base) == {"pay.py L4-L5 same", "shop.py L6-L7 same", "shop.py (7,) same"}
        (folder / "shop.py").write_text(CALLER.replace("settle(order)", "settle(order, 2)"))
        answer = base.graph.get_call_graph("pay", direction="callers")
        assert {edge.file_state for edge in answer.edges} == {"changed"}
        assert any("shop.py" in note and "changed" in note for note in answer.notes)
        assert "changed or gone since it was indexed" in render_graph(to_graph_page(answer, is_empty=False))
        (folder / "shop.py").unlink()
        assert "shop.py L4-L5 missing" in places(base)


def places(base: KnowledgeBase) -> set[str]:
    answer = base.graph.get_call_graph("pay", direction="callers")
    nodes = {f"{node.path} {node.lines} {node.file_state}" for node in answer.nodes if node.lines}
    return nodes | {f"{edge.path} {edge.lines} {edge.file_state}" for edge in answer.edges}


def test_neighbours_of_a_result_have_the_lines_of_now(project: Project, folder: Path):
    (folder / "shop.py").write_text(CALLER)
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        assert neighbours(base) == {
            "pay.py called_by": ("shop.py", 5, 5, "same"),
            "shop.py calls": ("pay.py", 1, 5, "same"),
        }
        (folder / "pay.py").write_text("import decimal\n\n\n" + PAY)
        (folder / "shop.py").write_text("# one\n# two\n" + CALLER)
        assert neighbours(base) == {
            "pay.py called_by": ("shop.py", 7, 7, "same"),
            "shop.py calls": ("pay.py", 4, 7, "same"),
        }
        (folder / "shop.py").write_text(CALLER.replace("settle(order)", "settle(order, 2)"))
        assert neighbours(base)["pay.py called_by"] == ("shop.py", 5, 5, "changed")
        text = render_answer(base.search("pay or check out an order", type="code"))
        assert "shop.py:5 (changed since it was indexed)" in text


def neighbours(base: KnowledgeBase) -> dict[str, tuple]:
    found = {}
    for result in base.search("pay or check out an order", type="code").results:
        for kind in ("calls", "called_by"):
            for it in getattr(result.graph, kind, ()):
                place = it.path, it.line, it.edge_line, it.file_state
                found[f"{result.citation.path} {kind}"] = place
    return found


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
