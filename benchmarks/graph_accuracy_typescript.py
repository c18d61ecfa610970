"""How well the code graph agrees with the TypeScript compiler, on packages from npm.

    python -m benchmarks.graph_accuracy_typescript --work FOLDER [--set held|tuned] [--errors KIND]

Needs `node` and `npm`. The compiler and the packages are unpacked into FOLDER at the versions given
here, and so are the compiler's answers kept; none of it is part of this repository.

An element of JSX counts as a call of its component, `implements` among `extends`. A call of a variable or
property that holds a function counts as a call of that variable: what it is worth, the compiler does
not say.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.graph_accuracy_score import Answer, Score, Site, scored, table
from knowledge_pipeline.code_graph import (
    Edge,
    FileFacts,
    IndexedFile,
    Project,
    extract,
    has_facts,
    list_defined_names,
    resolve,
)
from knowledge_pipeline.file_languages import detect_language

KINDS = ("calls", "references", "imports", "extends")
COMPILER = ("typescript@5.7.3", "@types/node@22.10.5", "@types/react@18.3.18")

SETS = {
    "tuned": (
        ("rxjs@7.8.2", "src"),
        ("immer@10.1.1", "src"),
        ("@tanstack/query-core@5.59.0", "src"),
        ("@react-aria/datepicker@3.11.2", "src"),
        ("express@4.21.2", "lib"),
        ("zod@3.25.76", "src/v3"),
        ("mobx@6.13.5", "src"),
        ("fastify@5.2.0", "lib"),
    ),
    "held": (
        ("@trpc/server@10.45.2", "src"),
        ("openai@4.77.0", "src"),
        ("@tanstack/table-core@8.20.5", "src"),
        ("@reduxjs/toolkit@2.5.0", "src"),
        ("react-native-paper@5.12.5", "src"),
        ("axios@1.7.9", "lib"),
        ("winston@3.17.0", "lib"),
    ),
}
"""Packages that the rules were written by, and packages that nobody looked at; and their sources."""

_SUFFIXES = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_SCRIPT = Path(__file__).with_suffix(".mjs")


class Package(Project):
    """The files of a package as the code graph's project."""

    def __init__(self, root: Path, paths: list[str]) -> None:
        super().__init__()
        self.files: dict[str, FileFacts] = {}
        for path in paths:
            text = (root / path).read_text(errors="replace")
            self.files[path] = extract(path, text, detect_language(path, text) or "text")
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
        """All edges, each with the file that it starts in; `implements` told as `extends`."""
        for path in sorted(self.files):
            for edge in resolve(path, self).edges:
                yield path, edge._replace(kind="extends") if edge.kind == "implements" else edge


def main() -> None:
    """Print the table."""
    options = _options()
    totals = {kind: Score() for kind in KINDS}
    rows: list[tuple[str, str, Score]] = []
    for name, folder in SETS[options.set]:
        if options.package and options.package not in name:
            continue
        root, paths = unpack_package(name, folder, options.work)
        answers = answered(root, paths, options.work)
        edges = list(Package(root, paths).edges())
        for kind in KINDS:
            score = scored(kind, edges, answers)
            rows.append((name, kind, score))
            totals[kind] += score
    rows += [("all", kind, score) for kind, score in totals.items()]
    print("\n".join(table(rows)))
    if options.errors:
        print("\n".join(totals[options.errors].errors))


def unpack_package(name: str, folder: str, work: Path) -> tuple[Path, list[str]]:
    """A package with what it depends on, and the paths of its sources and manifests."""
    root = work / "packages" / name.replace("/", "-").strip("@")
    if not root.exists():
        archives = work / "archives"
        archives.mkdir(parents=True, exist_ok=True)
        packed = ["npm", "pack", "--silent", "--pack-destination", str(archives), name]
        file = subprocess.run(packed, check=True, capture_output=True, text=True, cwd=work).stdout.split()[-1]
        with tarfile.open(archives / file) as archive:
            for member in archive.getmembers():
                member.name = member.name.partition("/")[2]
                if member.name:
                    archive.extract(member, root, filter="data")
        _install(root)
    paths = [path.relative_to(root).as_posix() for path in sorted((root / folder).rglob("*"))]
    sources = [path for path in paths if path.endswith(_SUFFIXES) and "node_modules" not in path]
    return root, [
        *sources,
        *(path.name for path in sorted(root.glob("*.json")) if has_facts(path.name, "json")),
    ]


def answered(root: Path, paths: list[str], work: Path) -> dict[Site, Answer]:
    """The compiler's answers for a package, asked once."""
    kept = root.with_name(f"{root.name}.answers.json")
    if not kept.exists() or kept.stat().st_mtime < _SCRIPT.stat().st_mtime:
        compiler = work / "compiler"
        if not compiler.exists():
            compiler.mkdir(parents=True)
            _install(compiler, *COMPILER)
        sources = json.dumps([path for path in paths if path.endswith(_SUFFIXES)])
        asked = ["node", str(_SCRIPT), str(compiler / "node_modules" / "typescript"), str(root)]
        kept.write_text(
            subprocess.run(asked, check=True, input=sources, capture_output=True, text=True).stdout
        )
    found: dict[Site, Answer] = {}
    for kind, path, scope, line, name, inside, outside, of_variable in json.loads(kept.read_text()):
        site = Site(kind, (path, scope), line, name)
        before = found.get(site, Answer())
        targets = (*before.inside, *((target, defined) for target, defined in inside))
        found[site] = Answer(
            tuple(dict.fromkeys(targets)), before.outside or outside, before.of_variable or of_variable
        )
    return found


def _install(folder: Path, *packages: str) -> None:
    install = ["npm", "install", "--silent", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"]
    subprocess.run([*install, *packages], check=True, cwd=folder, capture_output=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for packages and answers")
    parser.add_argument("--set", choices=SETS, default="held")
    parser.add_argument("--package", help="only packages with this in their names")
    parser.add_argument("--errors", choices=KINDS, help="list all edges of a kind that are wrong or missed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
