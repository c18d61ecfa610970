"""How well the code graph agrees with other tools, on packages from the registry.

    python -m benchmarks.graph_accuracy --work FOLDER [--set held|tuned] [--tool pyright|jedi] [--json]

Packages are unpacked into FOLDER, at the versions given here, and so are the tools' answers kept.
"""

from __future__ import annotations

import argparse
import json
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.graph_accuracy_python import Truth, by_jedi, by_pyright
from benchmarks.graph_accuracy_score import Answer, Score, Site, confidences, scored, table
from knowledge_pipeline.code_graph import Edge, IndexedFile, Project, extract, list_defined_names, resolve

KINDS = ("calls", "references", "imports", "extends")

SETS = {
    "tuned": (
        "requests==2.34.2",
        "click==8.5.1",
        "jinja2==3.1.6",
        "rich==15.0.0",
        "jira==3.10.5",
        "flask==3.1.3",
        "httpx==0.28.1",
        "pyyaml==6.0.3",
    ),
    "held": (
        "starlette==1.10.0",
        "docker==7.2.0",
        "werkzeug==3.1.9",
        "typer==0.29.2",
        "beautifulsoup4==4.15.0",
        "markdown-it-py==4.3.0",
        "tenacity==9.2.1",
    ),
}
"""Packages that the rules were written by, and packages that nobody looked at."""


class Package(Project):
    """The files of a package as the code graph's project."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__()
        self.files = {path: extract(path, text, "python") for path, text in texts.items()}
        self.names: dict[str, set[str]] = {}
        for path, facts in self.files.items():
            for name in list_defined_names(facts):
                self.names.setdefault(name, set()).add(path)

    def paths(self) -> set[str]:
        """All files."""
        return set(self.files)

    def file(self, path: str) -> IndexedFile:
        """What a file says."""
        return IndexedFile(self.files[path])

    def files_defining(self, name: str) -> set[str]:
        """Files that define a name."""
        return self.names.get(name, set())

    def edges(self) -> Iterator[tuple[str, Edge]]:
        """All edges, each with the file that it starts in."""
        for path in sorted(self.files):
            yield from ((path, edge) for edge in resolve(path, self).edges)


def main() -> None:
    """Print the table."""
    options = _options()
    totals = {kind: Score() for kind in KINDS}
    rows: list[tuple[str, str, Score]] = []
    for requirement in options.packages or SETS[options.set]:
        root, texts = unpack_package(requirement, options.work)
        answers = answered(requirement, root, texts, options.tool, options.work)
        edges = list(Package(texts).edges())
        for kind in KINDS:
            score = scored(kind, edges, answers)
            rows.append((requirement, kind, score))
            totals[kind] += score
    rows += [("all", kind, score) for kind, score in totals.items()]
    if options.json:
        print(json.dumps([{"package": name, "kind": kind, **score.counts()} for name, kind, score in rows]))
        return
    print("\n".join(table(rows)))
    print("\n".join(confidences(totals["calls"])))
    if options.errors:
        print("\n".join(error for score in totals.values() for error in score.errors))


def unpack_package(requirement: str, work: Path) -> tuple[Path, dict[str, str]]:
    """A package's wheel, or a folder, unpacked, and the texts of its files by their paths in it."""
    root = work / requirement.strip("/").replace("/", "_")
    if Path(requirement).is_dir():
        shutil.copytree(requirement, root / Path(requirement).name, dirs_exist_ok=True)
    if not root.exists():
        wheels = work / "wheels" / requirement
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*pip, "-d", str(wheels), requirement], check=True)
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            wheel.extractall(root)
    files = sorted(root.rglob("*.py"))
    return root, {path.relative_to(root).as_posix(): path.read_text(errors="replace") for path in files}


def answered(
    requirement: str, root: Path, texts: dict[str, str], tool: str, work: Path
) -> dict[Site, Answer]:
    """The tool's answers for a package, asked once."""
    kept = work / f"{root.name}.{tool}.pickle"
    truth = Truth(root.resolve(), texts)
    if not kept.exists():
        kept.write_bytes(pickle.dumps(by_pyright(truth) if tool == "pyright" else by_jedi(truth)))
    return truth.answers(pickle.loads(kept.read_bytes()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help="requirements or folders, in place of a set")
    parser.add_argument("--work", type=Path, required=True, help="folder for packages and answers")
    parser.add_argument("--set", choices=SETS, default="held")
    parser.add_argument("--tool", choices=("pyright", "jedi"), default="pyright")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--errors", action="store_true", help="list all that is wrong or missed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
