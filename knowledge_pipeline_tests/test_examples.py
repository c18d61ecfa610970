"""The packages of `examples/`: installed as a person would, and tested by their own tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/pyproject.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_installed_and_passes_its_own_tests(example: Path, tmp_path: Path):
    source, site, tests = (tmp_path / name for name in ("source", "site", "tests"))
    shutil.copytree(example, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", site, source], check=True, capture_output=True)
    (source / "tests").rename(tests)  # away from the package, so that the installed one is imported
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    ran = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "passed" in ran.stdout


def test_examples_use_only_what_is_promised_to_packages():
    imports = re.compile(r"^\s*(?:from|import) (knowledge_pipeline[\w.]*)", re.MULTILINE)
    modules = {
        module
        for example in EXAMPLES
        for path in example.rglob("*.py")
        for module in imports.findall(path.read_text(encoding="utf-8"))
    }
    assert modules == {"knowledge_pipeline.extending", "knowledge_pipeline.testing"}
