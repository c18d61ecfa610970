"""Precision and recall of what joins services, routes above all, against edges written down by hand.

    python -m benchmarks.graph_accuracy_system --work FOLDER [--show]

The folder has a checkout of each system of `system_edges.txt` under its name (sock-shop: each repository in a
folder of its own in it). Judged are pairs of places in different services, which are folders of the
system: one that uses a name, within three lines, and one that declares it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from knowledge_pipeline.code_graph import extract, has_facts
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.system_names import list_matching_names, list_stored_names

EDGES = Path(__file__).with_name("system_edges.txt")
MIN_CONFIDENCE = 0.5  # as the graph shows
_LINES_APART = 3  # a call, and the address among its arguments
_SKIPPED = ("node_modules/", "vendor/", ".min.", "bundle.js", ".git/")

Place = tuple[str, int]  # path within the system, line
Pair = tuple[Place, Place]  # who uses, who declares


@dataclass
class System:
    """A labelled system."""

    name: str
    within: tuple[str, ...] = (
        "",
    )  # what the paths of services begin with; the longest is left out of labels
    excluded: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("route", "topic")  # of the names that are judged
    pairs: set[Pair] = field(default_factory=set[Pair])


def read_systems(text: str) -> list[System]:
    """The labels."""
    systems: list[System] = []
    for line in text.splitlines():
        kind, _, rest = line.removeprefix("# ").partition(" ")
        if kind == "system":
            systems.append(System(rest.partition(":")[0]))
        elif kind == "within":
            systems[-1].within = tuple(sorted(rest.split(), key=len, reverse=True))
        elif kind == "exclude":
            systems[-1].excluded = tuple(rest.split())
        elif kind == "names":
            systems[-1].kinds = tuple(rest.split())
        elif line and not line.startswith("#"):
            user, declarer = (place.rpartition(":") for place in line.split())
            systems[-1].pairs.add(((user[0], int(user[2])), (declarer[0], int(declarer[2]))))
    return systems


def find_pairs(system: System, root: Path) -> set[Pair]:
    """The pairs that meet at a name."""
    declaring: defaultdict[str, list[tuple[Place, float]]] = defaultdict(list)
    using: list[tuple[str, Place, float]] = []
    for path, kind, name, line, percent in _iter_uses(system, root):
        if name.partition(" ")[0] in system.kinds:
            if kind == "declares":
                for stored, worth in list_stored_names(name):
                    declaring[stored].append(((path, line), min(percent / 100, worth)))
            else:
                using.append((name, (path, line), percent / 100))
    return {
        (user, declarer)
        for name, user, sure in using
        for matching, worth in list_matching_names(name).items()
        for declarer, other in declaring.get(matching, ())
        if min(sure, worth, other) >= MIN_CONFIDENCE and _service(user) != _service(declarer)
    }


def _iter_uses(system: System, root: Path) -> Iterator[tuple[str, str, str, int, int]]:
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        path = file.relative_to(root).as_posix()
        start = next((start for start in system.within if path.startswith(start)), None)
        name = path.removeprefix(start or "")
        if (
            start is None
            or any(part in path for part in _SKIPPED)
            or name.startswith(system.excluded or "\n")
        ):
            continue
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        language = detect_language(path, text) or ""
        if has_facts(path, language):
            for use in extract(path, text, language).system_uses:
                yield name, use.kind, use.name, use.line, use.percent


def _service(place: Place) -> str:
    return place[0].partition("/")[0]


def _is_same(one: Pair, other: Pair) -> bool:
    (user, declarer), (other_user, other_declarer) = one, other
    near = user[0] == other_user[0] and abs(user[1] - other_user[1]) <= _LINES_APART
    return near and declarer[0] == other_declarer[0] and abs(declarer[1] - other_declarer[1]) <= 1


def main() -> None:
    """Print the table, and what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    print("| system | edges | found | precision | recall |\n|---|---|---|---|---|")
    for system in read_systems(EDGES.read_text("utf-8")):
        found = find_pairs(system, options.work / system.name)
        right = {pair for pair in found if any(_is_same(pair, label) for label in system.pairs)}
        met = {label for label in system.pairs if any(_is_same(pair, label) for pair in found)}
        precision, recall = len(right) / max(1, len(found)), len(met) / len(system.pairs)
        print(f"| {system.name} | {len(system.pairs)} | {len(found)} | {precision:.3f} | {recall:.3f} |")
        for title, pairs in (("wrong", found - right), ("missed", system.pairs - met)):
            for (user, line), (declarer, at) in sorted(pairs) if options.show else ():
                print(f"  {title}: {user}:{line} -> {declarer}:{at}")


if __name__ == "__main__":
    main()
