"""Symbols and edges of one file, as rows of the code graph's tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from json.encoder import encode_basestring_ascii
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa

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
from knowledge_pipeline.stages.code_graph.batches import BatchBuilder, Row
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.code_graph.symbol_payload import build_payload, node_id

_SIGNATURE_CHARS = 300


def format_trace(trace: Trace) -> str:
    """A trace as it is stored."""
    return json.dumps(trace, sort_keys=True, separators=(",", ":"))


class UnresolvedFile(NamedTuple):
    """A file whose rows are built."""

    path: str
    uri: str
    made_of: str  # digest of its facts, the configuration and the resolver
    stored_fingerprint: str | None  # of its rows in the tables; None: they are written in any case


@dataclass(frozen=True, slots=True)
class ResolvedRows:
    """The rows of some files; of a file whose rows the tables hold already, its own row alone."""

    symbols: pa.RecordBatch  # a file's own row is the last of its
    edges: pa.RecordBatch
    files: int
    replaced_paths: list[str]  # files whose other rows are there, too
    notes: Counter[str]  # what could not be made as hoped


@dataclass(frozen=True, slots=True)
class GraphRowBuilder:
    """Resolves files of one source and builds their rows; calling it is a portion's work."""

    project: Project
    source_columns: Mapping[str, Any]  # columns that the configuration decides
    indexed_at: datetime

    def __call__(self, portion: list[UnresolvedFile]) -> ResolvedRows:
        """All rows of the files of a portion, in its order."""
        constants = {**self.source_columns, "indexed_at": self.indexed_at}
        symbols, edges = BatchBuilder(schemas.SYMBOLS, constants), BatchBuilder(schemas.EDGES, constants)
        notes, replaced = Counter[str](), list[str]()
        for file in portion:
            facts, resolved = self.project.facts(file.path), self._resolve_file(file.path, notes)
            columns = {"uri": file.uri, "path": file.path, "language": facts.language}
            symbol_rows = [*self._iter_definition_rows(facts), *self._iter_alias_rows(file.path, resolved)]
            edge_rows = list(self._iter_edge_rows(file.path, resolved.edges))
            mark = self._compute_fingerprint(columns, symbol_rows, edge_rows)
            own = self._build_file_row(facts) | {
                "made_of": file.made_of,
                "trace": format_trace(resolved.trace),
            }
            if mark == file.stored_fingerprint:
                symbol_rows = []
            else:
                replaced.append(file.path)
                edges.add_rows(columns, edge_rows)
            columns |= {"fingerprint": mark}
            for row in (*symbol_rows, own):
                row["shown"] = build_payload({"source": self.source_columns["source"], **columns, **row})
            symbols.add_rows(columns, [*symbol_rows, own])
        return ResolvedRows(symbols.build(), edges.build(), len(portion), replaced, notes)

    def _compute_fingerprint(self, columns: Row, symbols: Iterable[Row], edges: Iterable[Row]) -> str:
        dump = json.JSONEncoder(sort_keys=True, default=str).encode
        common = {**self.source_columns, **columns}
        return hash_strings(dump(common), *map(dump, symbols), *map(format_edge, edges))

    def _resolve_file(self, path: str, notes: Counter[str]) -> ResolvedFile:
        """The edges of a file; one whose values lead too deep has none, and does not stop the others."""
        try:
            return resolve(path, self.project)
        except RecursionError:
            notes["uses not resolved: its values lead too deep"] += 1
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


def format_edge(row: Row) -> str:
    """A row of an edge as `json.dumps` with sorted keys writes it, in a sixth of the time."""
    quote, target_id, target_path = encode_basestring_ascii, row["target_id"], row["target_path"]
    return (
        f'{{"confidence": {row["confidence"]!r}, "id": "{row["id"]}", "kind": "{row["kind"]}", '
        f'"line": {row["line"]}, "source_id": "{row["source_id"]}", '
        f'"source_name": {quote(row["source_name"])}, '
        f'"target_id": {"null" if target_id is None else quote(target_id)}, '
        f'"target_name": {quote(row["target_name"])}, '
        f'"target_path": {"null" if target_path is None else quote(target_path)}}}'
    )
