"""What a working tree's overlay costs: the time of 1, 10 and 100 changed files, and the disk of ten trees.

    python -m benchmarks.overlay REPOSITORY [FOLDER]

Clones the repository into the folder, unless it has been, and indexes its code and documentation. Each tree
is a worktree with edits in so many files; asked again, it has nothing to read.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.overlay import Overlay, find_source_tree, refresh_overlay
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import compute_size

_CONFIG = """
sources:
  - {id: code, type: code, connection: {type: local, path: .}}
  - {id: docs, type: markdown, connection: {type: local, path: .}}
"""


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def _refresh(lake: Lake, main: Path, tree: Path) -> tuple[Overlay, float]:
    sources = find_source_tree(load_settings(main / "knowledge.yaml"), tree)
    assert sources
    started = time.perf_counter()
    return refresh_overlay(lake, sources), time.perf_counter() - started


def _edit(tree: Path, files: int) -> None:
    """Add a function to so many files of Python."""
    for number, path in enumerate(sorted(tree.rglob("*.py"))[:files]):
        path.write_text(f"{path.read_text()}\n\ndef added_{number}():\n    return {number}\n")


def main(repository: str, folder: Path) -> None:
    """Measure, and print a table."""
    main = folder / "main"
    if not main.exists():
        _git(folder, "clone", "--quiet", repository, str(main))
        (main / "knowledge.yaml").write_text(_CONFIG)
    settings = load_settings(main / "knowledge.yaml")
    lake, started = Lake(settings.store), time.perf_counter()
    outcome = pipeline.refresh(lake, settings, settings.sources)
    rows = outcome.release.rows if outcome.release else 0
    print(f"index: {rows:,} rows in {time.perf_counter() - started:.1f} s, {_size(lake):.1f} MB")
    for files in (0, 1, 10, 100):
        tree = folder / f"changed-{files}"
        _git(main, "worktree", "add", "--quiet", str(tree))
        _edit(tree, files)
        before = _size(lake)
        overlay, first_s = _refresh(lake, main, tree)
        _, again_s = _refresh(lake, main, tree)
        print(f"{files} files: {overlay.documents} read in {first_s:.2f} s, again {again_s:.2f} s", end=", ")
        print(f"{_size(lake) - before:.2f} MB")
    before = _size(lake)
    for number in range(10):
        tree = folder / f"tree-{number}"
        _git(main, "worktree", "add", "--quiet", str(tree))
        _edit(tree, number + 1)
        _refresh(lake, main, tree)
    print(f"ten trees of 1 to 10 files: {_size(lake) - before:.2f} MB")


def _size(lake: Lake) -> float:
    return compute_size(lake.folder) / 1e6


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else folder))
