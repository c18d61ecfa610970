"""How long the listing of a hundred thousand small files takes: of a folder, and of a git repository.

    python -m benchmarks.scale_listing FOLDER [FILES]

Run by `benchmarks.scale`. The snapshot stage alone: first it reads every file, then nothing has changed,
then one file has. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.figures import measure_peak_memory, time_work
from benchmarks.scale_corpus import git, small_files
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.stages import snapshot
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.store.lake import Lake

_FILES = 100_000


def main() -> None:
    """Measure and print."""
    folder = Path(sys.argv[1])
    files = int(sys.argv[2]) if sys.argv[2:] else _FILES
    made = small_files(folder / "small_files", files)
    connections: dict[str, dict[str, Any]] = {
        "folder": {"type": "local", "path": str(made)},
        "git": {"type": "git", "url": str(made), "branch": "main"},
    }
    sources = [{"id": name, "type": "code", "connection": each} for name, each in connections.items()]
    told: dict[str, Any] = {}
    edited = made / "d007" / "m7007.py"
    for name in connections:
        settings = Settings.model_validate({"store": folder / "listing", "sources": sources})
        this = RefreshContext(
            Lake(settings.store), settings, next(each for each in settings.sources if each.id == name)
        )
        told[name] = {
            "first": _time_snapshot(this),
            "unchanged": _time_snapshot(this),
            "listing": _time_listing(this),
        }
        edited.write_text(edited.read_text() + f"\n# {name}\n")
        git(made, "commit", "-qam", "edit")
        told[name]["one edited"] = _time_snapshot(this)
    print(json.dumps({**told, "files": files, "peak_mb": measure_peak_memory()}))


def _time_snapshot(this: RefreshContext) -> list[float]:
    """Seconds of the clock and of the processor that a snapshot takes."""
    return [round(seconds, 2) for seconds in time_work(lambda: snapshot.refresh(this))]


def _time_listing(this: RefreshContext) -> list[float]:
    """The same of the listing alone."""
    with open_source(this.source, cache=this.lake.cache) as source:
        return [round(seconds, 2) for seconds in time_work(lambda: sum(1 for _ in source.discover()))]


if __name__ == "__main__":
    main()
