"""How well the code graph agrees with the compilers of Java and Go, on folders of sources.

    python -m benchmarks.graph_accuracy_java_go java|go FOLDER... [--errors] [--keep FOLDER]

Java is asked through javac's tree API (JDK 17 or later), Go through go/types (Go 1.18 or later): two
small programs beside this one print what every use means. A folder of Java is a source root, one of
Go a module with its go.mod, or a package of the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from benchmarks.graph_accuracy_score import Answer, Score, Site, scored, table
from knowledge_pipeline.code_graph import (
    Edge,
    FileFacts,
    IndexedFile,
    Project,
    extract,
    list_defined_names,
    resolve,
)
from knowledge_pipeline.file_languages import detect_language

KINDS = ("calls", "references", "imports", "extends")
_HERE = Path(__file__).parent
_COMMANDS = {
    "java": ["java", str(_HERE / "graph_accuracy_java.java")],
    "go": ["go", "run", str(_HERE / "graph_accuracy_go.go")],
}
_SUFFIXES = {"java": (".java",), "go": (".go", "go.mod")}


class Sources(Project):
    """The files of a folder as the code graph's project."""

    def __init__(self, root: Path, suffixes: tuple[str, ...]) -> None:
        super().__init__()
        self.files: dict[str, FileFacts] = {}
        self._defining: dict[str, set[str]] = {}
        for file in sorted(each for each in root.rglob("*") if each.name.endswith(suffixes)):
            path, text = file.relative_to(root).as_posix(), file.read_text("utf-8", "replace")
            self.files[path] = extract(path, text, detect_language(path, text) or "text")
            for name in list_defined_names(self.files[path]):
                self._defining.setdefault(name, set()).add(path)

    def paths(self) -> set[str]:
        """All files."""
        return set(self.files)

    def file(self, path: str) -> IndexedFile:
        """What a file says."""
        return IndexedFile(self.files[path])

    def files_defining(self, name: str) -> set[str]:
        """Files that define a name."""
        return self._defining.get(name, set())

    def edges(self) -> Iterator[tuple[str, Edge]]:
        """All edges, each with the file that it starts in."""
        for path in sorted(self.files):
            yield from ((path, _comparable(edge)) for edge in resolve(path, self).edges)


def _files(path: str, edge: Edge) -> set[str]:
    """The files that an edge is between."""
    return {path, edge.target_path} if edge.target_path and edge.kind != "imports" else {path}


def _comparable(edge: Edge) -> Edge:
    """`implements` counts as `extends`; of an imported package of Go its folder counts, not one file."""
    if edge.kind == "implements":
        return edge._replace(kind="extends")
    if edge.kind == "imports" and (edge.target_path or "").endswith(".go"):
        return edge._replace(target_path=str(PurePosixPath(edge.target_path or "").parent))
    return edge


def main() -> None:
    """Print the table."""
    options = _options()
    rows: list[tuple[str, str, Score]] = []
    totals = {kind: Score() for kind in KINDS}
    for root in options.folders:
        answers = _answers(run_oracle(options.language, root.resolve(), options.keep))
        told_of = {site.source[0] for site in answers}  # neither files for other platforms nor Go's tests
        sources = Sources(root.resolve(), _SUFFIXES[options.language])
        edges = [each for each in sources.edges() if told_of.issuperset(_files(*each))]
        for kind in KINDS:
            score = scored(kind, edges, answers)
            rows.append((root.name, kind, score))
            totals[kind] += score
    rows += [("all", kind, score) for kind, score in totals.items()]
    print("\n".join(table(rows)))
    if options.errors:
        print("\n".join(error for score in totals.values() for error in score.errors))


def run_oracle(language: str, root: Path, keep: Path | None) -> str:
    """What the compiler's program prints of a folder; kept, where a folder is given for it."""
    mark = hashlib.blake2b(str(root).encode(), digest_size=4).hexdigest()
    kept = keep / f"{root.name}.{mark}.tsv" if keep else None
    if kept is not None and kept.exists():
        return kept.read_text("utf-8")
    ran = subprocess.run(
        [*_COMMANDS[language], str(root)], cwd=root, check=True, capture_output=True, env=_environment(root)
    )
    told = ran.stdout.decode("utf-8")
    if kept is not None:
        kept.write_text(told, "utf-8")
    return told


def _environment(root: Path) -> dict[str, str]:
    """Where Go looks for packages: in the tree `src` that the folder lies in, if there is one."""
    above, found, _ = str(root).rpartition("/src/")
    return {**os.environ, "GO111MODULE": "off", "GOPATH": above} if found else dict(os.environ)


def _answers(told: str) -> dict[Site, Answer]:
    """The lines of a program (kind, file, definition, line, name, target's file, target) as answers."""
    found: dict[Site, Answer] = {}
    for line in told.splitlines():
        kind, path, source, number, name, target_path, target = line.split("\t")
        site = Site(kind, (path, source), int(number), name)
        answer = found.setdefault(site, Answer())
        if target_path == "-":
            found[site] = replace(answer, outside=True)
        elif target_path != "?" and (target_path, target) not in answer.inside:
            found[site] = replace(answer, inside=(*answer.inside, (target_path, target)))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", choices=_COMMANDS)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--keep", type=Path, help="folder in which the compiler's answers are kept")
    parser.add_argument("--errors", action="store_true", help="list all that is wrong or missed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
