"""The code graph against calls that really happened: how many of them it has, typed code or not.

    python -m benchmarks.graph_accuracy_run --work FOLDER [--errors]

A small program uses a package while Python's profiler notes who calls whom in it. What it notes
is true, but never all that could happen: it says something about recall alone. Left out are
methods that syntax calls (`__iter__`, `__eq__`), lambdas, and functions that were called from
outside of the package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.graph_accuracy import Package, unpack_package

PROGRAMS = (
    "pyyaml==6.0.3",
    "jinja2==3.1.6",
    "click==8.5.1",
    "rich==15.0.0",
    "flask==3.1.3",
    "httpx==0.28.1",
)
"""Packages, each used by its file in `graph_programs`, which needs no more than this project installs."""

_PROFILE = """
import json, sys
root, found = sys.argv[1] + "/", set()
def where(code):
    names = [n for n in code.co_qualname.split(".") if n != "<locals>"]
    while names and names[-1].startswith("<") and names[-1] != "<lambda>": names.pop()
    return [code.co_filename[len(root):], ".".join(names)]
def note(frame, event, arg):
    code, back = frame.f_code, frame.f_back
    if event == "call" and back is not None and code.co_filename.startswith(root) and code.co_flags & 1:
        if back.f_code.co_filename.startswith(root) and not code.co_name.startswith("<"):
            found.add(json.dumps([where(back.f_code), where(code)]))
sys.setprofile(note)
try: exec(compile(sys.stdin.read(), "program", "exec"), {"__name__": "program"})
finally:
    sys.setprofile(None)
    print("\\n\\x00" + json.dumps(sorted(found)))
"""

_FOLDER = Path(__file__).with_name("graph_programs")

_Call = tuple[tuple[str, str], tuple[str, str]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--errors", action="store_true")
    options = parser.parse_args()
    print("| package | calls that happened | found | found, or a method that is overridden |")
    print("| --- | --- | --- | --- |")
    sums = [0, 0, 0]
    for requirement in PROGRAMS:
        program = (_FOLDER / f"{requirement.partition('==')[0]}.py").read_text()
        root, texts = unpack_package(requirement, options.work)
        happened, graph = list(_record_calls(root.resolve(), program)), _Graph(texts)
        exact = [call for call in happened if graph.has(call)]
        near = [call for call in happened if graph.has(call) or graph.has_overridden(call)]
        counts = [len(happened), len(exact), len(near)]
        sums = [total + count for total, count in zip(sums, counts, strict=True)]
        print(f"| {requirement} | {counts[0]} | {counts[1] / counts[0]:.3f} | {counts[2] / counts[0]:.3f} |")
        if options.errors:
            print("\n".join(f"missed: {call[0]} -> {call[1]}" for call in happened if call not in near))
    print(f"| all | {sums[0]} | {sums[1] / sums[0]:.3f} | {sums[2] / sums[0]:.3f} |")


def _record_calls(root: Path, program: str) -> Iterator[_Call]:
    """The calls within a package while a program runs."""
    done = subprocess.run(
        [sys.executable, "-c", _PROFILE, str(root)],
        input=program,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(root), "PATH": ""},
    )
    if "\x00" not in done.stdout:
        raise SystemExit(done.stderr)
    for line in json.loads(done.stdout.rpartition("\x00")[2]):
        source, target = (tuple(each) for each in json.loads(line))
        name = target[1].rpartition(".")[2]
        is_implicit = name.startswith("__") and name not in ("__init__", "__call__")
        if not is_implicit and "<lambda>" not in source[1] + target[1]:
            yield source, target


class _Graph:
    """The calls of a package as the code graph has them."""

    def __init__(self, texts: dict[str, str]) -> None:
        edges = list(Package(texts).edges())
        pairs = [
            (edge.kind, (path, edge.source), (edge.target_path, edge.target))
            for path, edge in edges
            if edge.target_path is not None
        ]
        self._calls = {(source, target) for kind, source, target in pairs if kind in ("calls", "references")}
        self._above: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._below: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for kind, source, target in pairs:
            if kind == "extends":
                self._above.setdefault(source, set()).add(target)
                self._below.setdefault(target, set()).add(source)

    def has(self, call: _Call) -> bool:
        """Whether a call, or reference, is known; that of a class stands for its `__init__`."""
        source, (path, name) = call
        if call in self._calls:
            return True
        owner, _, method = name.rpartition(".")
        makers = _list_reachable((path, owner), self._below) if method == "__init__" else set()
        return any((source, maker) in self._calls for maker in makers)

    def has_overridden(self, call: _Call) -> bool:
        """Whether a method of the same name is known to be called that the one called may override."""
        source, (path, name) = call
        owner, _, method = name.rpartition(".")
        return any(
            (source, (base, f"{of}.{method}")) in self._calls
            for base, of in _list_reachable((path, owner), self._above)
        )


def _list_reachable(
    start: tuple[str, str], steps: dict[tuple[str, str], set[tuple[str, str]]]
) -> set[tuple[str, str]]:
    found, waiting = {start}, [start]
    while waiting:
        for each in steps.get(waiting.pop(), set()) - found:
            found.add(each)
            waiting.append(each)
    return found


if __name__ == "__main__":
    main()
