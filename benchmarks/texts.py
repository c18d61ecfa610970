"""How fast texts are looked through for secrets, and the history of a repository is read.

    python -m benchmarks.texts [--times N]

Ordinary code without a secret, prose with one on every line, and a repository of a thousand commits made
for it. Prints one line of JSON: the best of the times, in MB per second of the processor, and in commits
per second of the clock, because git does that work in processes of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from knowledge_pipeline.config.sources import SanitizeSettings, SourceConfig
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.sanitizing.sanitize import sanitize

_COMMITS = 1_000
_CODE = "".join(
    f"def function_{n}(token, key):\n    return lookup(token)[key] + {n}\n\n" for n in range(15_000)
)
_PROSE = "".join(f"Line {n}: write to ann{n}@example.org about it.\n" for n in range(20_000))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    times: int = parser.parse_args().times
    told = {name: _mb_per_s(text, times) for name, text in (("code", _CODE), ("prose", _PROSE))}
    with tempfile.TemporaryDirectory() as folder:
        source = _repository(Path(folder) / "repository")
        taken_s = min(
            _time_work(time.perf_counter, lambda: _read(source, Path(folder) / "cache")) for _ in range(times)
        )
    print(json.dumps({"sanitized_mb_per_s": told, "commits_per_s": round(_COMMITS / taken_s)}))


def _mb_per_s(text: str, times: int) -> float:
    taken_s = min(
        _time_work(time.process_time, lambda: sanitize(text, SanitizeSettings())) for _ in range(times)
    )
    return round(len(text.encode()) / 1e6 / taken_s, 1)


def _repository(root: Path) -> SourceConfig:
    """A source over the history of so many commits of fifty files."""
    lines = ["blob\nmark :1\ndata 2\n1\n\n"]
    for number in range(_COMMITS):
        lines.append(
            f"commit refs/heads/main\ncommitter A <a@example.org> {1_700_000_000 + number} +0000\n"
            f"data 3\nc{number % 10}\nM 100644 inline f{number % 50}.py\ndata 4\n{number:03d}\n"
        )
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(root)], check=True)
    command = ["git", "-C", str(root), "fast-import", "--quiet"]
    subprocess.run(command, input="".join(lines).encode(), check=True)
    connection = {"type": "local", "path": str(root)}
    return SourceConfig.model_validate({"id": "history", "type": "git_history", "connection": connection})


def _read(source: SourceConfig, cache: Path) -> None:
    with open_source(source, cache=cache) as opened:
        for item in opened.discover():
            opened.fetch(item)


def _time_work(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Seconds of a clock."""
    began_s = clock()
    work()
    return clock() - began_s


if __name__ == "__main__":
    main()
