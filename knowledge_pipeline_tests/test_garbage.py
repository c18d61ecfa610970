"""A process that refreshes looks for cycles of objects less often, and never more often than it did."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline.garbage import collect_less_often
from knowledge_pipeline_tests.conftest import Project


@pytest.fixture(autouse=True)
def own_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("before", "after"), [(700, 10_000), (50_000, 50_000), (0, 0)])
def test_only_a_lower_threshold_is_raised(before: int, after: int) -> None:
    gc.set_threshold(before, 10, 10)

    collect_less_often()

    assert gc.get_threshold() == (after, 10, 10)


def test_a_refresh_raises_it(tmp_path: Path, project: Project) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "store.py").write_text("def opened():\n    return 1\n")
    project.declare("app", "code", tmp_path / "app")
    gc.set_threshold(700, 10, 10)

    project.refresh()

    assert gc.get_threshold() == (10_000, 10, 10)
