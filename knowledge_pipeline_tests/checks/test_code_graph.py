"""The checks of the code graph over what the stage makes of real files."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.checks.thresholds import check_dangling_edges, check_unresolved
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline_tests.conftest import Project

KNOWN = "def known():\n    return 1\n\n\ndef use():\n    return [{}]\n"


def _written(project: Project, folder: Path, source: str, *, known: int, unknown: int) -> None:
    """A source with so many calls of a function of its own, and of methods of nobody knows what."""
    folder.mkdir()
    calls = ["known()"] * known
    (folder / "a.py").write_text(KNOWN.format(",\n        ".join(calls)))
    lines = "".join(f"    it.other{number}()\n" for number in range(unknown))
    (folder / "b.py").write_text(f"def ask(it):\n{lines}    return 1\n")
    project.declare(source, "code", folder)


def _allowing(project: Project, share: float) -> Settings:
    told = project.settings.model_dump(mode="json")
    return Settings.model_validate({**told, "checks": {"unresolved_share": share}})


def test_the_share_of_unresolved_uses_is_held_to_what_is_allowed(project: Project, tmp_path: Path):
    _written(project, tmp_path / "code", "one", known=60, unknown=60)
    project.refresh()
    strict = check_unresolved(project.lake, _allowing(project, 0.4), "code")
    assert not strict.passed
    assert strict.message == "50% of the uses in python have no known target (allowed: 40%)"
    assert strict.sample_rows.to_pylist() == [
        {"language": "python", "unresolved_share": 0.5, "inside": 60, "outside": 0, "unknown": 60}
    ]
    assert strict.figures == {"python_share": 0.5}
    assert check_unresolved(project.lake, _allowing(project, 0.5), "code").passed


def test_a_few_uses_are_not_judged(project: Project, tmp_path: Path):
    _written(project, tmp_path / "code", "one", known=0, unknown=90)
    project.refresh()
    finding = check_unresolved(project.lake, _allowing(project, 0.0), "code")
    assert (finding.passed, finding.message) == (True, "there are too few uses to judge by")


def test_only_sources_that_changed_since_the_release_are_looked_at(project: Project, tmp_path: Path):
    _written(project, tmp_path / "code", "one", known=3, unknown=0)
    _written(project, tmp_path / "other", "two", known=3, unknown=0)
    project.refresh()
    settings = project.settings
    assert check_dangling_edges(project.lake, settings, "code").figures == {
        "changed_sources": 0,
        "dangling": 0,
    }
    project.lake.graph_table("symbols").delete_where(eq("source", "two") & eq("name", "known"))
    finding = check_dangling_edges(project.lake, settings, "code")
    assert not finding.passed
    assert finding.message == "edges of source 'two' lead to 1 definitions that do not exist"
    assert {row["target_name"] for row in finding.sample_rows.to_pylist()} == {"known"}
    assert finding.figures == {"changed_sources": 1, "dangling": 1}
    assert not finding.may_recover


def test_a_source_that_is_refreshed_meanwhile_is_not_blamed(project: Project, tmp_path: Path):
    _written(project, tmp_path / "code", "one", known=3, unknown=0)
    project.refresh()
    project.lake.graph_table("symbols").delete_where(eq("name", "known"))
    with project.lake.lock_source("one"):
        finding = check_dangling_edges(project.lake, project.settings, "code")
    assert (finding.passed, finding.may_recover) == (False, True)
