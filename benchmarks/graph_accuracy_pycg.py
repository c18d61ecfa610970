"""The code graph against PyCG's micro-benchmark: snippets with the call graphs that they should have.

    python -m benchmarks.graph_accuracy_pycg FOLDER

FOLDER is `micro-benchmark/snippets` of https://github.com/vitsalis/PyCG (Salis et al., "PyCG:
Practical Call Graph Generation in Python", ICSE 2021), which is no part of this repository.
Calls of builtins and of lambdas are left out: the graph has no nodes for them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.graph_accuracy import Package

Call = tuple[str, str]


def main() -> None:
    """Print right, wrong and missed calls by category."""
    root = Path(sys.argv[1])
    totals = [0, 0, 0]
    print("| category | snippets exact | right | wrong | missed |\n| --- | --- | --- | --- | --- |")
    for category in sorted(path for path in root.iterdir() if path.is_dir()):
        counts, exact, snippets = [0, 0, 0], 0, 0
        for truth in sorted(category.rglob("callgraph.json")):
            expected, found = set(_read_expected(truth)), set(_find_calls(truth.parent))
            parts = (expected & found, found - expected, expected - found)
            counts = [count + len(part) for count, part in zip(counts, parts, strict=True)]
            snippets, exact = snippets + 1, exact + (expected == found)
            if "--errors" in sys.argv and expected != found:
                print(truth.parent.relative_to(root), "wrong", parts[1], "missed", parts[2])
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        print(f"| {category.name} | {exact} of {snippets} | {' | '.join(map(str, counts))} |")
    right, wrong, missed = totals
    print(f"precision {right / (right + wrong):.3f}, recall {right / (right + missed):.3f}")


def _read_expected(path: Path) -> Iterator[Call]:
    graph: dict[str, list[str]] = json.loads(path.read_text())
    for source, targets in graph.items():
        for target in targets:
            if "<" not in source + target:
                yield source, target


def _find_calls(folder: Path) -> Iterator[Call]:
    package = Package(
        {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.py")}
    )
    known = {
        _format_dotted(path, each.name) for path, facts in package.files.items() for each in facts.definitions
    }
    bases: dict[str, list[str]] = {}
    calls: list[Call] = []
    for path, edge in package.edges():
        if edge.target_path is None:
            continue
        pair = (_format_dotted(path, edge.source), _format_dotted(edge.target_path, edge.target))
        if edge.kind == "extends":
            bases.setdefault(pair[0], []).append(pair[1])
        elif edge.kind == "calls":
            calls.append(pair)
    kinds = {
        _format_dotted(path, each.name): each.kind
        for path, facts in package.files.items()
        for each in facts.definitions
    }
    for source, target in calls:
        if kinds.get(target) == "class":
            target = _initializer(target, known, bases, 0)
        if target and kinds.get(target) != "variable":
            yield source, target


def _initializer(name: str, known: set[str], bases: dict[str, list[str]], depth: int) -> str | None:
    """What making an instance calls."""
    if f"{name}.__init__" in known or depth > 9:
        return f"{name}.__init__"
    found = (_initializer(base, known, bases, depth + 1) for base in bases.get(name, ()))
    return next((each for each in found if each), None)


def _format_dotted(path: str, name: str) -> str:
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}.{name}" if name else module


if __name__ == "__main__":
    main()
