"""What many small releases leave behind in the process that refreshes, and in one that answers beside it.

    python -m benchmarks.many_releases [--releases N] [--every N] [--files N] [--sections N] [--json]

A file of a small folder is edited, refreshed and released again and again, as `knowledge watch` does. Another
process with an open knowledge base answers questions after each release. Every so many releases: the file
handles and the memory of both, and the median times of a refresh and of a question since the last row.
Vectors come from an endpoint in a process of its own, so that no model is loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from benchmarks.figures import measure_memory, print_rows

_KEY = "KNOWLEDGE_MANY_RELEASES_KEY"
_ENDPOINT = """
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
with OpenAIServer() as server:
    print(server.url, server.key, server.dimensions, flush=True)
    __import__("sys").stdin.read()
"""
_READER = """
import statistics, sys, time
from knowledge_pipeline.knowledge_base import KnowledgeBase
with KnowledgeBase.open(sys.argv[1]) as base:
    for line in sys.stdin:
        times = []
        for text in line.rstrip().split("|"):
            started = time.perf_counter()
            assert base.search(text).results
            times.append(time.perf_counter() - started)
        print(statistics.median(times), flush=True)
"""
_QUESTIONS = ("edited in release number {}", "topic number 3 and its neighbour", "what changes with each one")


def main() -> None:
    """Release, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=300)
    parser.add_argument("--every", type=int, default=30, help="releases between two rows")
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--sections", type=int, default=40, help="of a file, each a chunk")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for row in measure_releases(Path(folder), options):
            print(json.dumps(row), file=sys.stderr, flush=True)  # ten thousand take hours
            rows.append(row)
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print_rows("After many releases", rows)


def measure_releases(folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row of figures after every so many releases."""
    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.stages import pipeline
    from knowledge_pipeline.store.lake import Lake

    with _start("-c", _ENDPOINT) as (_, address):
        config = _write_project(folder, options, address.readline().split())
        settings = load_settings(config)
        lake, idle = Lake(settings.store), pipeline.IdleSources()
        pipeline.refresh(lake, settings, settings.sources, idle=idle)
        with _start("-c", _READER, str(config)) as (reader, answers):
            refreshes, questions = list[tuple[float, float]](), list[float]()
            for number in range(1, options.releases + 1):
                _write_file(folder, number % options.files, number, options.sections)
                started, worked = time.perf_counter(), time.process_time()
                outcome = pipeline.refresh(lake, settings, settings.sources, idle=idle)
                refreshes.append((time.perf_counter() - started, time.process_time() - worked))
                assert outcome.release and outcome.release.has_changes, outcome
                assert reader.stdin
                reader.stdin.write("|".join(_QUESTIONS).format(number) + "\n")
                reader.stdin.flush()
                questions.append(float(answers.readline()))
                if number % options.every == 0 or number == options.releases:
                    wall_s, processor_s = (statistics.median(times) for times in zip(*refreshes, strict=True))
                    yield {
                        "releases": number,
                        "refresher handles": count_handles(os.getpid()),
                        "refresher MB": measure_memory(os.getpid()),
                        "reader handles": count_handles(reader.pid),
                        "reader MB": measure_memory(reader.pid),
                        "refresh ms": round(1000 * wall_s, 1),
                        "processor ms": round(1000 * processor_s, 1),
                        "question ms": round(1000 * statistics.median(questions), 2),
                    }
                    refreshes, questions = [], []


def count_handles(pid: int) -> int:
    """The files and sockets that a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


@contextmanager
def _start(*arguments: str) -> Generator[tuple[subprocess.Popen[str], IO[str]]]:
    """A process of Python that is told lines and answers them; it ends with its input."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        yield process, process.stdout
        process.stdin.close()


def _write_file(folder: Path, number: int, release: int, sections: int) -> None:
    """A file of which each release has other words."""
    text = [f"# File {number}\n\nThis was edited in release number {release}.\n"]
    for section in range(sections):
        words = " ".join(f"word{release}x{section}x{word}" for word in range(20))
        text.append(f"## Section {section}\n\nThe topic number {section} and its neighbour: {words}.\n")
    (folder / "docs" / f"file{number}.md").write_text("\n".join(text))


def _write_project(folder: Path, options: argparse.Namespace, endpoint: list[str]) -> Path:
    url, os.environ[_KEY], dimensions = endpoint
    (folder / "docs").mkdir()
    for number in range(options.files):
        _write_file(folder, number, 0, options.sections)
    embedding = {"provider": "openai", "model": "hashed-words", "base_url": url, "api_key": f"${{{_KEY}}}"}
    source = {"id": "docs", "type": "markdown", "connection": {"type": "local", "path": "docs"}}
    config = folder / "knowledge.yaml"
    config.write_text(
        json.dumps({"embedding": {**embedding, "dimensions": int(dimensions)}, "sources": [source]})
    )
    return config


if __name__ == "__main__":
    main()
