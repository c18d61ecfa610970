"""One process that refreshes: what each refresh took, by stage, and the most memory it ever held.

    python -m benchmarks.scale_build FOLDER CHUNKS STEP

Run by `benchmarks.scale`, a process for each step, because the most memory that one ever held is told of
the whole process. STEP is `first`, `again` (nothing changed) or `edit` (one file); prints one line of JSON.
The edited file is the same one beside any number of chunks, so that edits compare.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.figures import measure_peak_memory
from benchmarks.scale_corpus import (
    CHUNKS_A_REPOSITORY,
    find_edited_file,
    git,
    repositories,
    static_model,
)
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store import indexes, lance_storage
from knowledge_pipeline.store.lake import Lake

MODEL_TOKENS = 254  # what the default model reads of a text: the chunks are as large as its
GROWN = "grown"  # a file in the folder of a store that `scale_grown` made
_EDITS = 5
_PEAK_EVERY = 512  # reports of progress


def settings(folder: Path, chunks: int) -> Settings:
    """A source for each repository, vectors by the static model; the repositories are made if need be."""
    model, grown = static_model(folder / "model"), (folder / str(chunks) / GROWN).exists()
    read = CHUNKS_A_REPOSITORY if grown else chunks
    made = repositories(folder / str(read) / "repositories", read)
    return Settings.model_validate(
        {
            "store": folder / str(chunks) / "store",
            "embedding": {"model": str(model), "batch_size": 64},
            "query": {"cache": {"ttl_minutes": 0}},
            "logs": {"queries": False},
            "sources": [_source(path) for path in made],
        }
    )


def _source(repository: Path) -> dict[str, Any]:
    return {
        "id": repository.name,
        "type": "code",
        "connection": {"type": "git", "url": str(repository), "branch": "main"},
        "chunking": {"max_tokens": MODEL_TOKENS},
    }


def refreshed(declared: Settings, sources: int | None = None) -> dict[str, Any]:
    """Refresh all sources, or the first few, and release: seconds of the clock and the processor, by stage.

    Raises:
        KnowledgeError: a source failed.
    """
    peaks: dict[str, float] = {}

    def report(stage: str, done: int, total: int | None, *_: object) -> None:
        if done == total or done % _PEAK_EVERY == 0:
            peaks[stage] = measure_peak_memory()

    started, worked = time.perf_counter(), time.process_time()
    chosen = declared.sources[:sources]
    outcome = pipeline.refresh(Lake(declared.store), declared, chosen, report=lambda _: report)
    took = {"seconds": time.perf_counter() - started, "processor_s": time.process_time() - worked}
    for error in outcome.failures.values():
        raise error
    stages = Counter[str]()
    for each in (*outcome.stats, outcome.release):
        if each is not None:
            stages[each.stage] += each.seconds
    rounded = {stage: round(seconds, 2) for stage, seconds in stages.items()}
    return took | {"stages": rounded, "peaks_mb": peaks}


def edited(declared: Settings) -> list[dict[str, Any]]:
    """The same file at every size, edited and committed, its vectors known, several times."""
    repository = Path(declared.sources[0].connection.url)  # pyright: ignore[reportAttributeAccessIssue]
    file = find_edited_file(repository)
    kept, found = file.read_text(), list[dict[str, Any]]()
    for number in (*range(_EDITS), *range(_EDITS)):
        for text in (f"{kept}\n\ndef added_{number}(value):\n    return value + {number}\n", kept):
            file.write_text(text)
            git(repository, "commit", "-qam", "edit")
            found.append(refreshed(declared, 1))  # as the sensor that saw the commit does
    return found[2 * _EDITS :: 2]


def held(lake: Lake) -> dict[str, Any]:
    """Rows of the index, and bytes on disk by what they are of; the most memory that this process held."""
    found: dict[str, Any] = {"peak_mb": measure_peak_memory(), "chunks": 0, "unindexed": 0}
    for space, dimensions in lake.list_spaces().items():
        table = lake.index(space, dimensions)
        found |= {"chunks": table.count_rows(), "unindexed": indexes.count_unindexed_rows(table)}
    folders = (place for place in sorted(lake.folder.iterdir()) if place.is_dir())
    return found | {"disk": {place.name: lance_storage.compute_size(place) for place in folders}}


def main() -> None:
    """Do one step and print what it took."""
    folder, chunks, step = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    declared = settings(folder, chunks)
    lake = Lake(declared.store)
    told: dict[str, Any] = {"edits": edited(declared)} if step == "edit" else refreshed(declared)
    print(json.dumps({**told, **held(lake)}))


if __name__ == "__main__":
    main()
