"""What is suggested after the first index is answered by what was indexed."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.extensions.questions import suggest_questions
from knowledge_pipeline_tests.conftest import Project


def write(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return folder


def test_the_most_used_definition_and_a_heading_are_asked_about(project: Project, tmp_path: Path) -> None:
    code = write(
        tmp_path / "code",
        core_py="def open_ledger():\n    return 1\n\n\ndef rare():\n    return 2\n",
        a_py="from core import open_ledger, rare\n\n\ndef first():\n    open_ledger()\n    rare()\n",
        b_py="from core import open_ledger\n\n\ndef second():\n    open_ledger()\n",
    )
    docs = write(
        tmp_path / "docs",
        README_md="# Close a month\n\nText.\n",
        aaa_md="# Older notes here\n\nText.\n",
    )
    project.declare("code", "code", code)
    project.declare("docs", "markdown", docs)
    project.refresh()
    assert suggest_questions(project.lake, project.settings.sources) == [
        'knowledge search "how does open_ledger work" --type code',
        'knowledge search "Close a month"',
        "knowledge graph usages open_ledger",
    ]


def test_headings_that_a_shell_would_read_are_left_out(project: Project, tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", README_md="# Run `$(rm -rf)` now\n\nText.\n\n## One\n\nText.\n")
    project.declare("docs", "markdown", docs)
    project.refresh()
    assert suggest_questions(project.lake, project.settings.sources) == []
