"""Symbols and edges of one file, as rows of the code graph's tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from knowledge_pipeline.code_graph import (
    Alias,
    Edge,
    FileFacts,
    Project,
    ResolvedFile,
    Trace,
    full_name,
    resolve,
)
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.code_graph.symbol_payload import build_payload, node_id

Row = dict[str, Any]

_SIGNATURE_CHARS = 300


def format_trace(trace: Trace) -> str:
    """A trace as it is stored."""
    return json.dumps(trace, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class FileRows:
    """Everything that the tables hold of one file."""

    file: Row  # its own symbol, which says what the others were made of
    symbols: list[Row]
    edges: list[Row]


@dataclass(frozen=True, slots=True)
class GraphRowBuilder:
    """Resolves files of one source and builds their rows."""

    project: Project
    source_columns: Mapping[str, Any]  # columns that the configuration decides
    web_prefix: str | None
    indexed_at: datetime
    notes: Counter[str] = field(default_factory=Counter[str])  # what could not be made as hoped

    def build_file_rows(self, path: str, uri: str, input_fingerprint: str) -> FileRows:
        """All rows of one file."""
        facts, resolved = self.project.facts(path), self._resolve_file(path)
        common = {**self.source_columns, "uri": uri, "path": path, "language": facts.language}
        symbols = [*self._iter_definition_rows(facts), *self._iter_alias_rows(path, resolved)]
        edges = list(self._iter_edge_rows(path, resolved.edges))
        texts = (json.dumps(row, sort_keys=True, default=str) for row in (common, *symbols, *edges))
        mark = hash_strings(*texts)
        stamped = {**common, "indexed_at": self.indexed_at}
        named = {**stamped, "url": self._web_url(path), "fingerprint": mark}
        made_of = {"made_of": input_fingerprint, "trace": format_trace(resolved.trace)}
        file = _add_payload({**named, **self._build_file_row(facts), **made_of})
        return FileRows(
            file, [_add_payload({**named, **row}) for row in symbols], [{**stamped, **row} for row in edges]
        )

    def _resolve_file(self, path: str) -> ResolvedFile:
        """The edges of a file; one whose values lead too deep has none, and does not stop the others."""
        try:
            return resolve(path, self.project)
        except RecursionError:
            self.notes["uses not resolved: its values lead too deep"] += 1
            return ResolvedFile((), {})

    def _build_file_row(self, facts: FileFacts) -> Row:
        last = max((each.end_line for each in facts.definitions), default=1)
        node, stem = self._node_id(facts.path, ""), PurePosixPath(facts.path).stem
        name = full_name(facts.path, "", self.project)
        return _build_symbol_row(node, node, "file", "", full_name=name, simple=stem, end_line=last)

    def _iter_definition_rows(self, facts: FileFacts) -> Iterator[Row]:
        twins: Counter[str] = Counter()
        for each in facts.definitions:
            node, twin = self._node_id(facts.path, each.name), twins[each.name]
            twins[each.name] += 1
            row = _build_symbol_row(
                hash_strings(node, str(twin)) if twin else node,
                node,
                each.kind,
                each.name,
                full_name=full_name(facts.path, each.name, self.project),
                end_line=each.end_line,
            )
            signature = each.signature[:_SIGNATURE_CHARS]
            yield row | {"start_line": each.start_line, "signature": signature, "exported": each.exported}

    def _iter_alias_rows(self, path: str, resolved: ResolvedFile) -> Iterator[Row]:
        """Names under which others may import from this file what another one defines, with members."""
        names: set[str] = set()
        for alias in resolved.aliases:
            for name, target in _iter_alias_targets(alias):
                if name not in names:
                    names.add(name)
                    row_id = hash_strings("alias", self._node_id(path, name))
                    node = self._node_id(alias.target_path, target)
                    yield _build_symbol_row(row_id, node, "alias", name, full_name=name)

    def _iter_edge_rows(self, path: str, edges: Iterable[Edge]) -> Iterator[Row]:
        """The edges, and for each other file, or name outside, one that says that this file depends on it."""
        depends: dict[tuple[str | None, str], Edge] = {}
        ids: set[str] = set()
        for edge in sorted(edges, key=lambda edge: (edge.line, edge.kind, edge.source, edge.target)):
            row = self._build_edge_row(path, edge)
            if row["id"] in ids:
                continue
            ids.add(row["id"])
            yield row
            key = (edge.target_path, "" if edge.target_path else edge.target)
            known = depends.get(key)
            if edge.kind != "contains" and edge.target_path != path and edge.confidence > 0:
                depends[key] = edge if known is None or edge.confidence > known.confidence else known
        for (target_path, target), edge in depends.items():
            depended = Edge("imports", "", target, target_path, edge.line, edge.confidence)
            yield self._build_edge_row(path, depended, "depends")

    def _build_edge_row(self, path: str, edge: Edge, kind: str | None = None) -> Row:
        kind = kind or edge.kind
        source, target = self._node_id(path, edge.source), None
        if edge.target_path is not None:
            target = self._node_id(edge.target_path, edge.target)
        return {
            "id": hash_strings(source, kind, target or f"\x00{edge.target}", str(edge.line)),
            "kind": kind,
            "source_id": source,
            "source_name": edge.source,
            "target_id": target,
            "target_name": edge.target,
            "target_path": edge.target_path,
            "line": edge.line,
            "confidence": edge.confidence,
        }

    def _node_id(self, path: str, name: str) -> str:
        return node_id(self.source_columns["source"], path, name)

    def _web_url(self, path: str) -> str | None:
        return self.web_prefix + quote(path) if self.web_prefix else None


def _iter_alias_targets(alias: Alias) -> Iterator[tuple[str, str]]:
    """Full name and definition: who imports `app.Store` calls `app.Store.get`."""
    yield alias.full_name, alias.target
    for member in alias.members:
        yield f"{alias.full_name}{member.removeprefix(alias.target)}", member


def _build_symbol_row(
    row_id: str,
    node: str,
    kind: str,
    name: str,
    *,
    full_name: str,
    simple: str | None = None,
    end_line: int = 1,
) -> Row:
    return {
        "id": row_id,
        "node": node,
        "kind": kind,
        "name": name,
        "simple": name.rpartition(".")[2] if simple is None else simple,
        "full_name": full_name,
        "start_line": 1,
        "end_line": end_line,
        "signature": "",
        "exported": True,
    }


def _add_payload(row: Row) -> Row:
    return {**row, "shown": build_payload(row)}
