"""Writes a code graph as the stage would, without reading any code."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from knowledge_pipeline.store import indexes, release
from knowledge_pipeline.store.graph import build_payload, node_id
from knowledge_pipeline.store.lake import Lake

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def context(source: str, **columns: Any) -> dict[str, Any]:
    """Columns that the configuration decides; of a public code source, unless `columns` say otherwise."""
    return {
        "source": source,
        "source_type": "code",
        "repo": f"acme/{source}",
        "tags": [],
        "visibility": "public",
        "principals": [],
        **columns,
    }


class World:
    """Sources, files and definitions, as a test tells them."""

    def __init__(self) -> None:
        self.symbols: dict[str, dict[str, Any]] = {}
        self.edges: list[dict[str, Any]] = []
        self._contexts: dict[str, dict[str, Any]] = {}

    def source(self, source: str, **columns: Any) -> None:
        """Say who may see a source."""
        self._contexts[source] = context(source, **columns)

    def file(self, source: str, path: str, **columns: Any) -> str:
        """Add a file; returns its node."""
        module = PurePosixPath(path).with_suffix("").as_posix().replace("/", ".")
        return self._symbol(source, path, "", "file", (1, 1), module, columns)

    def define(
        self, source: str, path: str, name: str, kind: str = "function", lines: tuple[int, int] = (1, 2),
        **columns: Any,
    ) -> str:  # fmt: skip
        """Add a definition, and its file where it is not there yet; returns its node."""
        if node_id(source, path, "") not in self.symbols:
            self.file(source, path)
        module = PurePosixPath(path).with_suffix("").as_posix().replace("/", ".")
        return self._symbol(source, path, name, kind, lines, f"{module}.{name}", columns)

    def alias(self, node: str, full_name: str) -> None:
        """Another full name of a definition."""
        known = self.symbols[node]
        self.symbols[f"{node}={full_name}"] = {
            **known,
            "id": f"{node}={full_name}",
            "kind": "alias",
            "full_name": full_name,
        }

    def link(self, kind: str, source: str, target: str, line: int = 1, confidence: float = 1.0) -> None:
        """An edge between nodes; a target that is no node is a name outside.

        It makes the file of the one depend on that of the other, too.
        """
        self._link(kind, source, target, line, confidence)
        made_in, met = self.symbols[source], self.symbols.get(target)
        file = node_id(made_in["source"], made_in["path"], "")
        there = node_id(met["source"], met["path"], "") if met else target
        known = {(edge["source_id"], edge["target_id"] or edge["target_name"]) for edge in self.edges}
        if file != there and (file, there) not in known and confidence >= 0.5:
            self._link("depends", file, there, line, confidence)

    def _link(self, kind: str, source: str, target: str, line: int, confidence: float) -> None:
        made_in, met = self.symbols[source], self.symbols.get(target)
        names = ("source", "source_type", "repo", "branch", "tags", "visibility", "tenant", "principals")
        self.edges.append(
            {
                **{name: made_in.get(name) for name in (*names, "uri", "path", "language")},
                "id": f"{len(self.edges)}",
                "kind": kind,
                "source_id": source,
                "source_name": made_in["name"],
                "target_id": target if met else None,
                "target_name": met["name"] if met else target,
                "target_path": met["path"] if met else None,
                "line": line,
                "confidence": confidence,
                "indexed_at": MOMENT,
            }
        )

    def write(self, lake: Lake) -> None:
        """Write the tables, and release them."""
        symbols = [{**row, "shown": build_payload(row)} for row in self.symbols.values()]
        for name, rows in (("edges", self.edges), ("symbols", symbols)):
            table = lake.graph_table(name)
            table.upsert(_batches(rows, table.schema))
            indexes.maintain_indexes(table)
        release.publish_release(lake, keep=5)

    def _symbol(
        self, source: str, path: str, name: str, kind: str, lines: tuple[int, int], full_name: str,
        columns: dict[str, Any],
    ) -> str:  # fmt: skip
        node = node_id(source, path, name)
        self.symbols[node] = {
            **self._contexts.get(source, context(source)),
            "id": node,
            "node": node,
            "uri": path,
            "path": path,
            "language": "python",
            "url": f"https://git.example/{source}/{path}",
            "kind": kind,
            "name": name,
            "simple": name.rpartition(".")[2] or PurePosixPath(path).stem,
            "full_name": full_name,
            "start_line": lines[0],
            "end_line": lines[1],
            "signature": f"def {name}()" if name else "",
            "exported": True,
            "fingerprint": "",
            "indexed_at": MOMENT,
            **columns,
        }
        return node


def _batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist(list(rows), schema=schema)]
