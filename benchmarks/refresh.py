"""What a refresh costs, against the first index of the same repository.

    python -m benchmarks.refresh [--files 350] [--repeats 5] [--json]

The corpus is a git repository made of this Python's own standard library. The first index
embeds with the default model; it is then repeated with the vectors kept, which shows the
pipeline alone, and every later figure is a ratio to one of the two. Each change is made
once beforehand and taken back, so that its vectors are known when it is timed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import describe_machine
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshOutcome
from knowledge_pipeline.store.lake import Lake

_LARGEST_BYTES = 12_000
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")


@dataclass
class Repository:
    """A working tree whose commits the indexed branch points to."""

    folder: Path

    def git(self, *words: str) -> str:
        """Run git in the repository and return what it prints."""
        done = subprocess.run([*_GIT, *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self) -> None:
        """Commit everything as it lies there."""
        self.git("add", "-A")
        self.git("commit", "-qm", "change")

    @property
    def files(self) -> list[Path]:
        """Tracked files, in a fixed order."""
        return [self.folder / name for name in self.git("ls-files").splitlines()]


def standard_library(folder: Path, count: int) -> Repository:
    """A repository of `count` standard library modules, the same for one Python version."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found = (path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts)
    chosen = [path for path in found if 200 < path.stat().st_size < _LARGEST_BYTES][:count]
    for path in chosen:
        target = folder / path.relative_to(library)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    repository = Repository(folder)
    repository.git("init", "-qb", "main")
    repository.commit()
    return repository


class Bench:
    """One store over one repository, and the clock."""

    def __init__(self, root: Path, files: int) -> None:
        self.repository = standard_library(root / "repository", files)
        self.lake = Lake(root / "store")
        self.branch = "main"

    def refresh(self) -> tuple[float, RefreshOutcome]:
        """Refresh and release; seconds, and what was done."""
        connection = {"type": "git", "url": str(self.repository.folder), "branch": self.branch}
        source = {"id": "library", "type": "code", "connection": connection}
        settings = Settings.model_validate({"store": self.lake.root, "sources": [source]})
        started = time.perf_counter()
        outcome = pipeline.refresh(self.lake, settings, settings.sources)
        seconds = time.perf_counter() - started
        for error in outcome.failures.values():
            raise error
        return seconds, outcome

    def forget_all_but_vectors(self) -> None:
        """Make the next refresh a first index that embeds nothing."""
        for stage in ("snapshot", "chunks", "facts", "graph", "index", "releases.lance"):
            shutil.rmtree(self.lake.root / stage)

    def time_refresh(self, change: Callable[[], None], undo: Callable[[], None], repeats: int) -> float:
        """Median seconds of the refresh after a change whose vectors are known."""
        seconds: list[float] = []
        for repeat in range(repeats + 1):
            change()
            taken, _ = self.refresh()
            if repeat:  # the first time embeds
                seconds.append(taken)
            undo()
            self.refresh()
        return statistics.median(seconds)

    def edited(self, count: int) -> Callable[[], None]:
        """A change of so many files, spread over the repository."""

        def change() -> None:
            files = [path for path in self.repository.files if path.stat().st_size > 500]
            for path in files[:: max(1, len(files) // count)][:count]:
                text = path.read_text(encoding="utf-8", errors="replace")
                path.write_text(
                    text + "\n\ndef edited_for_the_benchmark():\n    return 1\n", encoding="utf-8"
                )
            self.repository.commit()

        return change

    def undo(self) -> None:
        """Take the last commit back."""
        self.repository.git("reset", "-q", "--hard", "HEAD~1")

    def delete_one(self) -> None:
        """Delete one file."""
        self.repository.files[len(self.repository.files) // 2].unlink()
        self.repository.commit()

    def make_branch(self) -> None:
        """A second branch that differs in a tenth of the files."""
        self.repository.git("checkout", "-qb", "other")
        self.edited(len(self.repository.files) // 10)()
        self.repository.git("checkout", "-q", "main")

    def switch(self, branch: str) -> Callable[[], None]:
        """Point the source at another branch."""

        def change() -> None:
            self.branch = branch

        return change


def measure(root: Path, files: int, repeats: int) -> dict[str, object]:
    """Every figure of this benchmark; seconds are medians."""
    bench = Bench(root, files)
    first, outcome = bench.refresh()
    stages = {stats.stage: stats.seconds for stats in outcome.stats}
    chunks = next(stats.rows for stats in outcome.stats if stats.stage == "chunks")
    bench.forget_all_but_vectors()
    cached, outcome = bench.refresh()
    cached_stages = {stats.stage: stats.seconds for stats in outcome.stats}
    bench.make_branch()
    one_percent = max(1, round(files / 100))
    changes = {
        "nothing changed": (lambda: None, lambda: None),
        "1 file edited": (bench.edited(1), bench.undo),
        "4 files edited": (bench.edited(4), bench.undo),
        f"1 % edited ({one_percent} files)": (bench.edited(one_percent), bench.undo),
        "1 file deleted": (bench.delete_one, bench.undo),
        "branch switched (10 % differ)": (bench.switch("other"), bench.switch("main")),
    }
    timed = {name: bench.time_refresh(change, undo, repeats) for name, (change, undo) in changes.items()}
    return {
        "files": len(bench.repository.files),
        "chunks": chunks,
        "first index": first,
        "first index, vectors kept": cached,
        "stages": stages,
        "stages, vectors kept": cached_stages,
        "refresh": timed,
        "machine": describe_machine(),
    }


def show(figures: dict[str, object]) -> None:
    """Print the figures as tables."""
    console = Console()
    first, cached = float(str(figures["first index"])), float(str(figures["first index, vectors kept"]))
    files, chunks = int(str(figures["files"])), int(str(figures["chunks"]))
    table = Table(
        "refresh", "seconds", "of the first index", "of it, vectors kept", title=str(figures["machine"])
    )
    table.add_row(f"first index: {files} files, {chunks} chunks", f"{first:.2f}", "100 %", "")
    table.add_row("first index, vectors kept", f"{cached:.2f}", f"{cached / first:.2%}", "100 %")
    for name, seconds in dict(figures["refresh"]).items():  # type: ignore[call-overload]
        table.add_row(name, f"{seconds:.3f}", f"{seconds / first:.2%}", f"{seconds / cached:.2%}")
    console.print(table)
    shares = Table("stage", "share, first index", "share, vectors kept")
    stages, kept = dict(figures["stages"]), dict(figures["stages, vectors kept"])  # type: ignore[call-overload]
    for stage, seconds in stages.items():
        shares.add_row(stage, f"{seconds / first:.1%}", f"{kept[stage] / cached:.1%}")
    console.print(shares)
    console.print(f"first index: {files / first:.1f} files/s, {chunks / first:.1f} chunks/s")
    console.print(f"vectors kept: {files / cached:.1f} files/s, {chunks / cached:.1f} chunks/s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=350)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.files, options.repeats)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures)


if __name__ == "__main__":
    main()
