"""The SQL models of the code graph over what the stage makes of real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.sql_models import run
from knowledge_pipeline.sql_models.files import load_models
from knowledge_pipeline_tests.conftest import Project

FILES = {
    "shop/__init__.py": "",
    "shop/a.py": """\
from shop.b import beta


def alpha():
    return beta()


def forgotten():
    return 1
""",
    "shop/b.py": "from shop.c import gamma\n\n\ndef beta():\n    return gamma()\n",
    "shop/c.py": "import shop.a\n\n\ndef gamma():\n    return shop.a.alpha()\n",
    "shop/d.py": """\
from shop.a import alpha


def main():
    alpha()
    alpha()


def __getattr__(name):
    return 1
""",
    "tests/test_a.py": "from shop.a import alpha\n\n\ndef test_alpha():\n    assert alpha()\n",
}

WEB = {
    "pages/index.vue": "<script setup>\nimport Card from '../Card.vue'\n</script>\n<Card @a='x.shut()'/>",
    "Card.vue": "<script setup>\nimport { sell } from './shop'\n</script>\n<a @click='sell'/>",
    "Lost.vue": "<a/>",
    "shop.ts": "export function sell() {}\nexport function shut() {}",
}


@pytest.fixture(scope="module")
def graphed(template: Project) -> Project:
    """Two sources, indexed; nobody changes them."""
    for folder, files in (("repo", FILES), ("web", WEB)):
        for name, text in files.items():
            path = template.root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    template.declare("shop", "code", template.root / "repo")
    template.declare("web", "code", template.root / "web")
    other = template.root / "other"
    other.mkdir()
    (other / "uses.py").write_text("from shop.c import gamma\n\n\ndef far():\n    return gamma()\n")
    template.declare("other", "code", other)
    assert not template.refresh().failures
    return template


def rows(project: Project, name: str) -> list[dict[str, Any]]:
    return run.query_model(project.lake, load_models(), name, limit=None).rows.to_pylist()


def test_files_that_import_each_other_are_one_circle(graphed: Project):
    (circle,) = rows(graphed, "import_cycles")
    assert circle == {
        "source": "shop",
        "first_path": "shop/a.py",
        "files": 3,
        "paths": "shop/a.py, shop/b.py, shop/c.py",
    }


def test_two_circles_are_told_apart(project: Project, tmp_path: Path):
    repo = tmp_path / "repo"
    repo.mkdir()
    for one, two in (("a", "b"), ("b", "a"), ("x", "y"), ("y", "x"), ("b", "x")):
        with (repo / f"{one}.py").open("a") as file:
            file.write(f"import {two}\n")
    project.declare("repo", "code", repo)
    project.refresh()
    found = {(row["files"], row["paths"]) for row in rows(project, "import_cycles")}
    assert found == {(2, "a.py, b.py"), (2, "x.py, y.py")}


def test_fan_in_counts_users_and_their_files_and_other_sources(graphed: Project):
    found = {row["name"]: row for row in rows(graphed, "fan_in")}
    alpha, gamma = found["alpha"], found["gamma"]
    assert (alpha["used_in_files"], alpha["other_sources"]) == (3, 0)
    assert (gamma["used_in_files"], gamma["other_sources"]) == (2, 1)
    assert "forgotten" not in found


def test_fan_out_counts_what_a_definition_uses(graphed: Project):
    found = {(row["source"], row["name"]): row for row in rows(graphed, "fan_out")}
    assert found["shop", "alpha"]["uses_definitions"] == 1
    assert found["other", "far"]["uses_outside"] == 1


def test_what_nothing_uses_is_a_candidate_and_entry_points_tests_and_hooks_are_none(graphed: Project):
    found = {
        (row["source"], row["name"]): row["unresolved_uses"] for row in rows(graphed, "dead_code_candidates")
    }
    unused = {("shop", "forgotten"): 0, ("other", "far"): 0}
    assert found == unused | {("web", "Lost"): 0, ("web", "shut"): 1}  # `x.shut()` of another language


def test_what_is_resolved_is_told_by_language(graphed: Project):
    found = {(row["source"], row["language"]): row for row in rows(graphed, "resolved_by_language")}
    assert found["shop", "python"]["resolved_share"] == 1.0
    assert found["other", "python"]["inside"] == 0
    assert found["other", "python"]["outside"] >= 2
