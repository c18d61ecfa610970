"""The members of files and definitions, as conditions on edges.

A walk that starts from all of a class, a file or a folder reads the edges by path and name, so that of its
hundreds of members it reads only those that other code is connected to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from knowledge_pipeline.contract.responses.graph import GraphNode
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter

_FileKey = tuple[str | None, str | None]  # source, path


@dataclass(frozen=True, slots=True)
class MemberScope:
    """What is defined in some files, or below some definitions."""

    files: frozenset[_FileKey] = frozenset()
    definitions: tuple[GraphNode, ...] = ()

    @classmethod
    def from_nodes(cls, nodes: Iterable[GraphNode]) -> MemberScope:
        """The members of some nodes; names outside have none."""
        inside = [node for node in nodes if node.source and node.path]
        files = frozenset((node.source, node.path) for node in inside if node.kind == "file")
        return cls(files, tuple(node for node in inside if node.kind != "file"))

    def __contains__(self, node: GraphNode) -> bool:
        return (node.source, node.path) in self.files or any(
            (node.source, node.path) == (each.source, each.path) and node.name.startswith(f"{each.name}.")
            for each in self.definitions
        )

    def incoming_conditions(self) -> Iterator[Filter]:
        """Edges of the same source that end at a member; of files those that start elsewhere."""
        for source, paths in self._iter_paths_by_source():
            yield source & filters.one_of("target_path", paths) & ~filters.one_of("path", paths)
        for each in self.definitions:
            yield _match_file(each, "target_path") & filters.starts_with("target_name", f"{each.name}.")

    def outgoing_conditions(self) -> Iterator[Filter]:
        """Edges that start at a member; of files those that end elsewhere."""
        for source, paths in self._iter_paths_by_source():
            elsewhere = filters.is_null("target_path") | ~filters.one_of("target_path", paths)
            yield source & filters.one_of("path", paths) & elsewhere
        for each in self.definitions:
            yield _match_file(each, "path") & filters.starts_with("source_name", f"{each.name}.")

    def symbol_conditions(self) -> Iterator[Filter]:
        """The members themselves, and the files."""
        for source, paths in self._iter_paths_by_source():
            yield source & filters.one_of("path", paths)
        for each in self.definitions:
            yield _match_file(each, "path") & filters.starts_with("name", f"{each.name}.")

    def _iter_paths_by_source(self) -> Iterator[tuple[Filter, list[str]]]:
        for source in sorted({source or "" for source, _ in self.files}):
            paths = sorted(path or "" for held_in, path in self.files if held_in == source)
            yield filters.eq("source", source), paths


def _match_file(node: GraphNode, path: str) -> Filter:
    return filters.eq("source", node.source or "") & filters.eq(path, node.path or "")
