"""The files and the questions of `benchmarks.peers`: those of a source distribution.

A question is the first line of the docstring of a function, class or module outside the tests, of four
words or more, that stands in one file only; that file answers it. The line is taken out of the file: who
finds a text word for word finds nothing.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from knowledge_pipeline.file_languages import classify_file

PACKAGE = "structlog==25.5.0"
QUESTIONS = 100
_LEAST_WORDS = 4
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def prepare(folder: Path, package: str = PACKAGE) -> tuple[Path, Path]:
    """The Python and Markdown files of a source distribution, and the questions, made once below `folder`.

    The second is a JSON list: `text`, and `path` of the file that answers.
    """
    files = folder / f"{package.replace('==', '-')}-asked"
    asked = folder / f"{files.name}.json"
    if not files.is_dir():
        fetched = folder / "fetched"
        _fetch(package, fetched)
        (archive,) = fetched.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(fetched, filter="data")
        (unpacked,) = (path for path in fetched.iterdir() if path.is_dir())
        _copy(unpacked, folder / "copied")
        questions = _choose_questions(folder / "copied", QUESTIONS)
        _take_out(folder / "copied", questions)
        asked.write_text(json.dumps(questions), encoding="utf-8")
        (folder / "copied").rename(files)
    return files, asked


def _take_out(files: Path, questions: list[dict[str, str]]) -> None:
    for question in questions:
        path = files / question["path"]
        path.write_text(path.read_text("utf-8").replace(question["text"], ""), "utf-8")


def _fetch(package: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), package]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)


def _copy(unpacked: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(unpacked.rglob("*")):
        if path.suffix in {".py", ".md"} and path.stat().st_size:
            place = target / path.relative_to(unpacked)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


def _choose_questions(files: Path, count: int) -> list[dict[str, str]]:
    """So many, drawn evenly over all there are."""
    found = [
        (line, path.relative_to(files).as_posix())
        for path in sorted(files.rglob("*.py"))
        if classify_file(path.relative_to(files).as_posix()) != "test"
        for line in _first_lines(path)
    ]
    whole = [path.read_text("utf-8") for path in sorted(files.rglob("*")) if path.is_file()]
    times = Counter({line: sum(line in text for text in whole) for line, _ in found})
    clear = list(dict.fromkeys(pair for pair in found if times[pair[0]] == 1))
    step = max(1.0, len(clear) / count)
    return [
        {"text": clear[int(at * step)][0], "path": clear[int(at * step)][1]}
        for at in range(min(count, len(clear)))
    ]


def _first_lines(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, _DOCUMENTED):
            line = (ast.get_docstring(node) or "").partition("\n")[0].strip()
            if len(line.split()) >= _LEAST_WORDS:
                yield line
