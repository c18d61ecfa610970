"""How long a question to the code graph takes, over generated tables.

    python -m benchmarks.graph_time_generated [--files 4000] [--questions 100] [--folder DIR]

Writes three sources with 25 definitions and about 125 edges a file: most lead to a file nearby, as
code does, some to a few hubs that everybody uses, some to another source by full name. Then asks
each kind of question of random definitions and files, for an operator and for a tenant that may
see two of the three sources, and prints p50, p95 and the most in milliseconds, by the clock and, because
other programs may be at work, by the processor time of all threads.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses.graph import GraphResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store import indexes, release
from knowledge_pipeline.store.code_graph.symbol_payload import build_payload
from knowledge_pipeline.store.lake import Lake

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_DEFINITIONS, _EDGES = 25, 125  # of a file
_SOURCES = ("api", "core", "tools")
_KINDS = ("calls",) * 12 + ("references",) * 8 + ("imports",) * 4 + ("extends",)
_BATCH_FILES = 50
_HUBS = 8

Place = tuple[str, int, int]  # source, file, definition


def main() -> None:
    """Generate, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=1600)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        lake = Lake((given.folder or Path(temporary)) / "store")
        if not lake.graph_tables():
            write(lake, given.files)
        counts = {name: table.count_rows() for name, table in lake.graph_tables().items()}
        print(f"{counts['symbols']:,} symbols, {counts['edges']:,} edges")
        with KnowledgeBase.open(Settings(store=lake.root)) as base:
            measure(base, given.files, given.questions)


def write(lake: Lake, files: int) -> None:
    """Write the tables, build their indexes, release them."""
    started = time.perf_counter()
    for name, rows_of in (("symbols", _symbols), ("edges", _edges)):
        table = lake.graph_table(name)
        table.append(_batches(rows_of, table.schema, files))
        indexes.maintain_indexes(table)
    release.publish_release(lake, keep=1)
    print(f"written in {time.perf_counter() - started:.1f} s")


def measure(base: KnowledgeBase, files: int, questions: int) -> None:
    """Ask every kind of question."""
    chosen = random.Random(7)
    graph = base.graph
    asked: dict[str, Callable[..., GraphResponse]] = {
        "usages": graph.find_usages,
        "references": graph.find_references,
        "calls, depth 3": lambda target, **who: graph.get_call_graph(target, depth=3, **who),
        "hierarchy": graph.get_class_hierarchy,
        "dependencies": graph.get_dependencies,
        "impact, depth 3": graph.analyze_dependencies,
        "related": graph.find_related_code,
    }
    people = {"operator": Access.operator(), "tenant": Access("acme", frozenset({"jane"}))}
    for who, access in people.items():
        for kind in ("definition", "file", "hub"):
            for name, ask in asked.items():
                times = [
                    _timed(ask, _target(chosen, kind, files, n), access)
                    for n in range(_asked(kind, questions))
                ]
                by_clock, by_processor = (sorted(each) for each in zip(*times, strict=True))
                print(f"{who:9} {kind:10} {name:16} {_told(by_clock)}   processor {_told(by_processor)}")


def _asked(kind: str, questions: int) -> int:
    return _HUBS if kind == "hub" else questions


def _timed(ask: Callable[..., GraphResponse], target: str, access: Access) -> tuple[float, float]:
    started, worked = time.perf_counter(), time.process_time()
    ask(target, access=access)
    return (time.perf_counter() - started) * 1000, (time.process_time() - worked) * 1000


def _told(spent: list[float]) -> str:
    p95 = spent[min(len(spent) - 1, int(len(spent) * 0.95))]
    return f"p50 {statistics.median(spent):6.1f}  p95 {p95:6.1f}  most {spent[-1]:6.1f} ms"


def _target(chosen: random.Random, kind: str, files: int, number: int) -> str:
    source = _SOURCES[chosen.randrange(2)]
    if kind == "hub":
        return f"{source}.module0.Class0.method{number % _HUBS}"
    file = chosen.randrange(files // 3)
    return f"{source}/module{file}.py" if kind == "file" else f"{source}.{_name(file, chosen.randrange(25))}"


def _name(file: int, definition: int) -> str:
    return f"module{file}.Class{definition // 8}.method{definition}"


def _context(source: str) -> dict[str, Any]:
    private = source == "tools"
    return {
        "source": source,
        "source_type": "code",
        "tags": [],
        "visibility": "private" if private else "tenant",
        "tenant": "acme",
        "principals": ["joe"] if private else [],
    }


def _file(source: str, file: int) -> dict[str, Any]:
    path = f"{source}/module{file}.py"
    return {**_context(source), "uri": path, "path": path, "language": "python", "indexed_at": _NOW}


def _symbols(source: str, file: int, files: int) -> Iterator[dict[str, Any]]:
    del files
    base = _file(source, file)
    common = {"signature": "def method(self)", "exported": True, "fingerprint": "x"}
    node = hash_strings(source, str(file), "")
    span = {"start_line": 1, "end_line": 500}
    yield {
        **base, **common, **span, "id": node, "node": node, "kind": "file", "name": "",
        "simple": f"module{file}", "full_name": f"{source}.module{file}",
    }  # fmt: skip
    for number in range(_DEFINITIONS):
        node = hash_strings(source, str(file), str(number))
        span = {"start_line": 1 + number * 20, "end_line": 19 + number * 20}
        yield {
            **base, **common, **span, "id": node, "node": node, "kind": "method",
            "name": f"Class{number // 8}.method{number}", "simple": f"method{number}",
            "full_name": f"{source}.{_name(file, number)}",
        }  # fmt: skip


def _edges(source: str, file: int, files: int) -> Iterator[dict[str, Any]]:
    chosen = random.Random(f"{source} {file}")
    base = {**_file(source, file), "confidence": 1.0}
    places: dict[Place, int] = {}
    for number in range(_EDGES):
        here = chosen.randrange(_DEFINITIONS)
        there_source, there, definition = _there(chosen, source, file, files)
        met = there_source == source
        line = 1 + here * 20 + number % 18
        places.setdefault((there_source, there, 0 if met else definition), line)
        yield {
            **base,
            "id": hash_strings(source, str(file), str(number)),
            "kind": chosen.choice(_KINDS),
            "source_id": hash_strings(source, str(file), str(here)),
            "source_name": f"Class{here // 8}.method{here}",
            **_end(source, there_source, there, definition, f"Class{definition // 8}.method{definition}"),
            "line": line,
        }
    for (there_source, there, definition), line in places.items():
        if (there_source, there) != (source, file):
            yield {
                **base,
                "id": hash_strings(source, str(file), "depends", there_source, str(there), str(definition)),
                "kind": "depends",
                "source_id": hash_strings(source, str(file), ""),
                "source_name": "",
                **_end(source, there_source, there, definition if there_source != source else None, ""),
                "line": line,
            }


def _end(source: str, there_source: str, there: int, definition: int | None, name: str) -> dict[str, Any]:
    """Where an edge leads: to a node of its source, or to a full name."""
    if there_source != source:
        return {"target_name": f"{there_source}.{_name(there, definition or 0)}"}
    node = hash_strings(source, str(there), "" if definition is None else str(definition))
    return {"target_id": node, "target_name": name, "target_path": f"{source}/module{there}.py"}


def _there(chosen: random.Random, source: str, file: int, files: int) -> Place:
    draw = chosen.random()
    if draw < 0.05:  # a hub
        return source, 0, chosen.randrange(8)
    if draw < 0.15:
        return chosen.choice(_SOURCES), chosen.randrange(files // 3), chosen.randrange(_DEFINITIONS)
    near = min(max(0, int(chosen.gauss(file, 8))), files // 3 - 1)
    return source, near, chosen.randrange(_DEFINITIONS)


def _batches(
    rows_of: Callable[[str, int, int], Iterator[dict[str, Any]]], schema: pa.Schema, files: int
) -> Iterator[pa.RecordBatch]:
    for source in _SOURCES:
        for first in range(0, files // 3, _BATCH_FILES):
            last = min(first + _BATCH_FILES, files // 3)
            rows = [row for file in range(first, last) for row in rows_of(source, file, files)]
            if "shown" in schema.names:
                rows = [{**row, "shown": build_payload(row)} for row in rows]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


if __name__ == "__main__":
    main()
