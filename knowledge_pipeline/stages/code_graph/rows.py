"""Symbols and edges of one file, as rows of the code graph's tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa

from knowledge_pipeline.code_graph import (
    Alias,
    Earlier,
    Edge,
    FileFacts,
    ResolvedFile,
    Trace,
    full_name,
    resolve,
)
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages.code_graph.batches import BatchBuilder, Row
from knowledge_pipeline.stages.code_graph.project import StoredProject
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.code_graph.symbol_payload import build_payload, node_id

_SIGNATURE_CHARS = 300
_ENCODER = json.JSONEncoder(sort_keys=True, default=str)
_MARK_CHARS = 32  # of `hash_strings`

StoredEdge = tuple[str, str, str, str | None, int, float]
"""Kind ("depends" too), source, target, path of the target, line and confidence: as `Edge` has them."""


def format_trace(trace: Trace) -> str:
    """A trace as it is stored."""
    return json.dumps(trace, sort_keys=True, separators=(",", ":"))


class StoredRows(NamedTuple):
    """What the tables hold of a file that is resolved again because others changed."""

    trace: Trace
    edges: Mapping[StoredEdge, str]  # with their ids


class UnresolvedFile(NamedTuple):
    """A file whose rows are built."""

    path: str
    uri: str
    made_of: str  # digest of its facts, the configuration and the resolver
    stored_fingerprint: str | None  # of its rows in the tables; None: they are written in any case
    stored: StoredRows | None = None


@dataclass(frozen=True, slots=True)
class ResolvedRows:
    """The rows of some files; of a file whose rows the tables hold already, its own row alone."""

    symbols: pa.RecordBatch  # a file's own row is the last of its
    edges: pa.RecordBatch
    files: int
    changes: ReplacedRows
    notes: Counter[str]  # what could not be made as hoped


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """Which rows others replace, besides the files' own rows."""

    symbols: list[str] = field(default_factory=list[str])  # files of which all symbols are written
    edges: list[str] = field(default_factory=list[str])  # files of which all edges are written
    some_edges: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Files of which some edges are written, with the ids of those that go."""

    def add(self, other: ReplacedRows) -> None:
        """Add those of other files."""
        self.symbols.extend(other.symbols)
        self.edges.extend(other.edges)
        self.some_edges.update(other.some_edges)

    @property
    def paths(self) -> list[str]:
        """The files of which more than the own row is written."""
        return list(dict.fromkeys((*self.symbols, *self.edges, *self.some_edges)))


@dataclass(frozen=True, slots=True)
class GraphRowBuilder:
    """Resolves files of one source and builds their rows; calling it is a portion's work."""

    project: StoredProject
    source_columns: Mapping[str, Any]  # columns that the configuration decides
    indexed_at: datetime
    earlier_facts: Mapping[str, FileFacts] = field(default_factory=dict[str, FileFacts])  # see `Earlier`

    def __call__(self, portion: list[UnresolvedFile]) -> ResolvedRows:
        """All rows of the files of a portion, in its order."""
        constants = {**self.source_columns, "indexed_at": self.indexed_at}
        symbols, edges = BatchBuilder(schemas.SYMBOLS, constants), BatchBuilder(schemas.EDGES, constants)
        notes, changes = Counter[str](), ReplacedRows()
        for file in portion:
            facts, resolved = self.project.facts(file.path), self._resolve_file(file, notes)
            columns = {"uri": file.uri, "path": file.path, "language": facts.language}
            stored_mark = (file.stored_fingerprint or "")[:_MARK_CHARS]
            if _has_same_symbols(facts, resolved, file):
                symbols_mark, symbol_rows = stored_mark, list[Row]()
            else:
                aliases = self._iter_alias_rows(file.path, resolved)
                symbol_rows = [*self._iter_definition_rows(facts), *aliases]
                symbols_mark = hash_strings(self._dump(columns), *map(self._dump, symbol_rows))
            if symbols_mark == stored_mark:
                symbol_rows = []
            else:
                changes.symbols.append(file.path)
            edges_mark, edge_rows = self._build_edge_rows(file, columns, resolved.edges, changes)
            edges.add_rows(columns, edge_rows)
            own = self._build_file_row(facts) | {
                "made_of": file.made_of,
                "trace": format_trace(resolved.trace),
            }
            for row in (*symbol_rows, own):
                row["shown"] = build_payload({"source": self.source_columns["source"], **columns, **row})
            symbols.add_rows(columns | {"fingerprint": symbols_mark}, symbol_rows)
            symbols.add_rows(columns | {"fingerprint": symbols_mark + edges_mark}, [own])
        return ResolvedRows(symbols.build(), edges.build(), len(portion), changes, notes)

    def _dump(self, columns: Row) -> str:
        return _ENCODER.encode({**self.source_columns, **columns})

    def _build_edge_rows(
        self, file: UnresolvedFile, columns: Row, edges: Iterable[Edge], changes: ReplacedRows
    ) -> tuple[str, list[Row]]:
        """A digest of all edges of a file, and the rows to write: those that are not stored, if any are."""
        stored = dict(file.stored.edges) if file.stored else {}
        marks, rows = list[str](), list[Row]()
        for edge_id, kind, edge in self._number_edges(file.path, edges, stored):
            marks.append(f"{edge_id}{edge.confidence!r}")
            if stored.pop((kind, *edge[1:]), None) is None:
                rows.append(self._build_edge_row(file.path, edge_id, kind, edge))
        mark = hash_strings(self._dump(columns), "\n".join(marks))
        if file.stored is not None:
            if rows or stored:
                changes.some_edges[file.path] = list(stored.values())
        elif mark == (file.stored_fingerprint or "")[_MARK_CHARS:]:
            rows = []
        else:
            changes.edges.append(file.path)
        return mark, rows

    def _resolve_file(self, file: UnresolvedFile, notes: Counter[str]) -> ResolvedFile:
        """The edges of a file; one whose values lead too deep has none, and does not stop the others."""
        earlier = None
        if file.stored is not None:
            make: Any = Edge  # whose kinds are named
            edges = (make(*each) for each in file.stored.edges if each[0] != "depends")
            earlier = Earlier(edges, file.stored.trace, self.project.interfaces, self.earlier_facts)
        try:
            return resolve(file.path, self.project, earlier)
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

    def _number_edges(
        self, path: str, edges: Iterable[Edge], stored: Mapping[StoredEdge, str]
    ) -> Iterator[tuple[str, str, Edge]]:
        """Id, kind and edge, and for each other file, or name outside, one that this file depends on it."""
        depends: dict[tuple[str | None, str], Edge] = {}
        ids: set[str] = set()
        for edge in edges:
            edge_id = stored.get(edge) or self._edge_id(path, edge.kind, edge)
            if edge_id in ids:
                continue
            ids.add(edge_id)
            yield edge_id, edge.kind, edge
            key = (edge.target_path, "" if edge.target_path else edge.target)
            known = depends.get(key)
            if edge.kind != "contains" and edge.target_path != path and edge.confidence > 0:
                depends[key] = edge if known is None or edge.confidence > known.confidence else known
        for (target_path, target), edge in depends.items():
            depended = Edge("imports", "", target, target_path, edge.line, edge.confidence)
            yield self._edge_id(path, "depends", depended), "depends", depended

    def _edge_id(self, path: str, kind: str, edge: Edge) -> str:
        target = f"\x00{edge.target}"
        if edge.target_path is not None:
            target = self._node_id(edge.target_path, edge.target)
        return hash_strings(self._node_id(path, edge.source), kind, target, str(edge.line))

    def _build_edge_row(self, path: str, edge_id: str, kind: str, edge: Edge) -> Row:
        target = self._node_id(edge.target_path, edge.target) if edge.target_path is not None else None
        return {
            "id": edge_id,
            "kind": kind,
            "source_id": self._node_id(path, edge.source),
            "source_name": edge.source,
            "target_id": target,
            "target_name": edge.target,
            "target_path": edge.target_path,
            "line": edge.line,
            "confidence": edge.confidence,
        }

    def _node_id(self, path: str, name: str) -> str:
        return node_id(self.source_columns["source"], path, name)


def _has_same_symbols(facts: FileFacts, resolved: ResolvedFile, file: UnresolvedFile) -> bool:
    """Whether a file that did not change itself has the symbols that are stored, full names included."""
    if file.stored is None or not file.stored_fingerprint or any(each.exported for each in facts.imports):
        return False
    name = f"name\t{facts.language}\t{file.path}"
    return name in resolved.trace and resolved.trace[name] == file.stored.trace.get(name)


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
