"""Which secrets the sanitizer finds, and which Kingfisher does: an oracle with other rules than ours.

    python -m benchmarks.secrets_oracle [--code FOLDER] [--megabytes N] [--json]

Kingfisher is MongoDB's scanner (Apache-2.0), a program of 47 MB: `pip install kingfisher-bin` in an
environment of its own, and name it in KINGFISHER, or have it on the PATH. It runs without validation, which
would send what it finds to the services, and without its search for updates.

The first table has the secrets of the tests, each in several lines as code and configuration have them. The
second has ordinary source code, by default Python files of this environment, where a finding is a mistake or
a password in an example. Speed is megabytes by a second of the processor; Kingfisher's time for
an empty file, in which it loads its rules, is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import describe_machine
from knowledge_pipeline.sanitizing.secrets import find_secrets
from knowledge_pipeline_tests.sanitizing.fake_secrets import TOKENS, letters, private_key

_OPTIONS = (
    "--no-validate",
    "--no-update-check",
    "--no-dedup",
    "--no-ignore",
    "--git-history",
    "none",
    "--quiet",
)
_LINES = (
    "{}\n",
    "value = '{}'\n",
    'config = {{"api_key": "{}"}}\n',
    "X-Key: {}\n",
)


def find_program() -> str:
    """Where Kingfisher is; ends with a sentence without it."""
    found = os.environ.get("KINGFISHER") or shutil.which("kingfisher")
    if not found:
        sys.exit("Kingfisher is not installed: pip install kingfisher-bin, and name it in KINGFISHER")
    return found


def iter_secrets() -> Iterator[tuple[str, str]]:
    """Each secret of the tests and its kind."""
    yield from ((token, kind) for token, kind in TOKENS.items())
    yield private_key(), "private_key"
    yield f'password = "{letters("assigned", 24)}"', "assigned_secret"
    yield f"postgres://app:{letters('url', 20)}@db.local:5432/x", "url_password"


def scan(program: str, folder: Path) -> tuple[list[dict[str, Any]], float]:
    """What Kingfisher finds in a folder, and the seconds of the processor that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [program, "scan", *_OPTIONS, "--format", "json", "--output", report.name, str(folder)]
        subprocess.run(command, check=False, capture_output=True)  # its status says whether it found any
        found = json.loads(Path(report.name).read_text())["findings"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found, after.ru_utime - before.ru_utime


def compare_secrets(program: str, folder: Path) -> dict[str, Counter[str]]:
    """Lines with a secret, by kind: found by both, by us alone, by Kingfisher alone, by nobody."""
    lines: dict[str, tuple[str, str]] = {}
    for number, (secret, kind) in enumerate(iter_secrets()):
        for form, line in enumerate(_LINES):
            lines[f"{number}-{form}.txt"] = (kind, line.format(secret))
    for name, (_, line) in lines.items():
        (folder / name).write_text(line)
    theirs = {Path(each["finding"]["path"]).name for each in scan(program, folder)[0]}
    compared: dict[str, Counter[str]] = {}
    for name, (kind, line) in lines.items():
        outcome = {(True, True): "both", (True, False): "ours", (False, True): "theirs"}.get(
            (any(find_secrets(line)), name in theirs), "nobody"
        )
        compared.setdefault(kind, Counter())[outcome] += 1
    return compared


def copy_code(source: Path, folder: Path, megabytes: float) -> float:
    """Copy Python files, every so many, until there is enough; returns the megabytes."""
    files = sorted(each for each in source.rglob("*.py") if each.is_file() and not each.is_symlink())
    step = max(1, int(sum(each.stat().st_size for each in files) / 1e6 / megabytes))
    for number, file in enumerate(files[::step]):
        shutil.copy(file, folder / f"{number:05}.py")
    return sum(each.stat().st_size for each in folder.iterdir()) / 1e6


def scan_by_ours(folder: Path) -> tuple[Counter[str], float]:
    """Findings of the sanitizer by kind, and the seconds of the processor."""
    texts = [each.read_text(errors="replace") for each in sorted(folder.iterdir())]
    before = time.process_time()
    kinds = Counter(found.kind for text in texts for found in find_secrets(text))
    return kinds, time.process_time() - before


def measure(program: str, code: Path, megabytes: float) -> dict[str, Any]:
    """Both corpora, by both."""
    with tempfile.TemporaryDirectory() as held:
        secrets, empty, ordinary = (Path(held) / name for name in ("secrets", "empty", "code"))
        for each in (secrets, empty, ordinary):
            each.mkdir()
        (empty / "a.txt").write_text("nothing\n")
        compared = compare_secrets(program, secrets)
        _, start_s = scan(program, empty)
        size_mb = copy_code(code, ordinary, megabytes)
        ours, ours_s = scan_by_ours(ordinary)
        found, theirs_s = scan(program, ordinary)
    return {
        "machine": describe_machine(),
        "secrets": {kind: dict(counts) for kind, counts in sorted(compared.items())},
        "code_mb": round(size_mb, 1),
        "ours": {"found": dict(ours), "mb_s": round(size_mb / ours_s, 1)},
        "theirs": {
            "found": dict(Counter(each["rule"]["id"] for each in found)),
            "mb_s": round(size_mb / max(theirs_s - start_s, 0.01), 1),
            "start_s": round(start_s, 2),
        },
    }


def show(result: dict[str, Any]) -> None:
    """Print the two tables."""
    console = Console()
    table = Table(title="lines with a secret")
    outcomes = ("both", "ours", "theirs", "nobody")
    for name in ("kind", *outcomes):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind, counts in result["secrets"].items():
        table.add_row(kind, *(str(counts.get(each, "")) for each in outcomes))
    total = Counter[str]()
    for counts in result["secrets"].values():
        total.update(counts)
    table.add_row("all", *(str(total[each]) for each in outcomes))
    console.print(table)
    console.print(f"{result['code_mb']} MB of ordinary code, on {result['machine']}:")
    for name in ("ours", "theirs"):
        told = result[name]
        found = ", ".join(f"{kind} {count}" for kind, count in sorted(told["found"].items())) or "nothing"
        console.print(f"  {name}: {told['mb_s']} MB/s; {found}")
    console.print(f"  theirs needs {result['theirs']['start_s']} s of the processor to start")


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description="Secrets that the sanitizer and Kingfisher find")
    parser.add_argument("--code", type=Path, default=Path(sysconfig.get_path("purelib")))
    parser.add_argument("--megabytes", type=float, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(find_program(), options.code, options.megabytes)
    print(json.dumps(result, indent=2)) if options.json else show(result)


if __name__ == "__main__":
    main()
