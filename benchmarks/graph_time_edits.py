"""What an edit costs the code graph, against reading and resolving everything.

Every edit is timed twice: made, through the stages `snapshot` and `graph` in this process; taken back,
through `knowledge refresh` as it is typed, with every other stage and the release. The vectors are those of
a small local server, so that no model is measured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.stages import code_graph as refresh
from knowledge_pipeline.stages import snapshot
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

OWNER = Access("acme", frozenset({"jane"}))
"""Who may see the repository, which is private."""

_KEY = "BENCH_EMBEDDING_KEY"
_BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one file, by a pattern of what is replaced."""

    name: str
    path: str
    pattern: str
    replacement: str
    times: int = 1  # 0: wherever it stands

    def apply(self, folder: Path) -> str:
        """Make the change; returns what the file held."""
        file = folder / self.path
        before = file.read_text()
        after, count = re.subn(self.pattern, self.replacement, before, count=self.times)
        if not count:
            raise ValueError(f"{self.path} has nothing like {self.pattern}")
        file.write_text(after)
        return before


_NEW = "\n\ndef newly_exported(value):\n    return value\n"
EDITS = (
    Edit(
        "a body", "dagster/_core/storage/runs/sql_run_storage.py", r"(\n        )(return )", r"\1str(1)\1\2"
    ),
    Edit("a body, everybody's file", "sympy/core/basic.py", r"(\n        )(return )", r"\1str(1)\1\2"),
    Edit("a new function", "dagster/_core/storage/runs/sql_run_storage.py", r"\Z", _NEW),
    Edit("a new function, everybody's file", "sympy/core/basic.py", r"\Z", _NEW),
    Edit("a method renamed", "sympy/core/basic.py", r"def as_dummy\(", "def as_dummies(", 0),
    Edit(
        "a much-used function renamed", "sympy/utilities/iterables.py", r"def iterable\(", "def iterable_(", 0
    ),
    Edit("the most used function renamed", "sympy/core/sympify.py", r"def sympify\(", "def sympify_(", 0),
)
"""Of sympy 1.14 and dagster 1.13."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One edit, or the first time."""

    name: str
    seconds: float  # of the stage `graph`, by the clock
    processor_seconds: float  # the same, of all threads
    files: int  # that were resolved again
    command_seconds: float  # of `knowledge refresh`


def time_edits(folder: Path, work: Path, edits: tuple[Edit, ...] = EDITS) -> Iterator[Timed]:
    """Everything first, then nothing changed, then each edit.

    Args:
        folder: the sources; they are changed and changed back.
        work: for the store; of one that is there the code graph alone is made anew.
        edits: what is measured.
    """
    with OpenAIServer() as server:
        os.environ[_KEY] = server.key
        config = _config(folder, work, server)
        settings = load_settings(config)
        for part in ("graph", "facts", "releases.lance"):
            shutil.rmtree(settings.store / part, ignore_errors=True)
        this = RefreshContext(Lake(settings.store), settings, settings.sources[0])
        first = _time_stages(this)
        yield Timed("everything", *first, _time_command(config))
        yield Timed("nothing", *_time_stages(this), _time_command(config))
        for edit in edits:
            before = edit.apply(folder)
            try:
                staged = _time_stages(this)
            finally:
                (folder / edit.path).write_text(before)
            yield Timed(edit.name, *staged, _time_command(config))


def _config(folder: Path, work: Path, server: OpenAIServer) -> Path:
    path = work / "knowledge.yaml"
    path.write_text(
        f"version: 1\nstore: {work / 'store'}\nlogs: {{queries: false}}\n"
        f"embedding: {{provider: openai, model: hashed-words, base_url: {server.url}, "
        f'api_key: "${{{_KEY}}}", dimensions: {server.dimensions}}}\n'
        f"sources:\n  - {{id: code, type: code, connection: {{type: local, path: {folder}}}, "
        'include: ["**/*.py"], access: {visibility: private, tenant: acme, principals: [jane]}}\n'
    )
    return path


def _time_stages(this: RefreshContext) -> tuple[float, float, int]:
    snapshot.refresh(this)
    started, worked = time.perf_counter(), time.process_time()
    stats: Stats = refresh.refresh(this)
    spent = time.perf_counter() - started, time.process_time() - worked
    return *spent, stats.added + stats.changed


def _time_command(config: Path) -> float:
    started = time.perf_counter()
    command = [str(_BIN / "knowledge"), "refresh", "--config", str(config)]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started
