"""A source of a few files, resolved as a whole or by what an edit touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from knowledge_pipeline.code_graph import (
    ChangedNames,
    Earlier,
    Edge,
    FileFacts,
    IndexedFile,
    Project,
    ResolvedFile,
    Trace,
    extract,
    find_changed_names,
    list_defined_names,
    renew_trace,
    resolve,
)
from knowledge_pipeline.file_languages import detect_language


class Files(Project):
    """Texts by their paths, as a project."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__()
        self._own = {
            path: IndexedFile(extract(path, text, detect_language(path, text) or "text"))
            for path, text in texts.items()
        }
        self._defining: dict[str, set[str]] = {}
        for path, file in self._own.items():
            for name in list_defined_names(file.facts):
                self._defining.setdefault(name, set()).add(path)

    def paths(self) -> set[str]:
        return set(self._own)

    def file(self, path: str) -> IndexedFile:
        return self._own[path]

    def interfaces(self) -> dict[str, str]:
        """What the stage keeps beside the facts."""
        return {path: file.interface_digest for path, file in self._own.items()}

    def files_defining(self, name: str) -> set[str]:
        return self._defining.get(name, set())


def edges_of(texts: Mapping[str, str]) -> dict[str, tuple[Edge, ...]]:
    """The edges of all files."""
    return {path: found.edges for path, found in resolved(texts).items()}


def resolved(texts: Mapping[str, str]) -> dict[str, ResolvedFile]:
    """All that resolving gives, of all files."""
    files = Files(texts)
    return {path: resolve(path, files) for path in sorted(files.paths())}


def targets(texts: Mapping[str, str], kind: str, source: str) -> set[str]:
    """What a definition, written "path:name", has edges of a kind to, written in the same way."""
    path, _, name = source.partition(":")
    found = resolve(path, Files(texts)).edges
    return {
        f"{edge.target_path}:{edge.target}" if edge.target_path else edge.target
        for edge in found
        if edge.kind == kind and edge.source == name
    }


@dataclass
class Kept:
    """What resolving a source gives, kept up to date by traces alone."""

    results: dict[str, ResolvedFile] = field(default_factory=dict)
    resolved: list[str] = field(default_factory=list)  # at the last update
    _facts: dict[str, FileFacts] = field(default_factory=dict)

    @property
    def edges(self) -> dict[str, tuple[Edge, ...]]:
        """The edges of all files."""
        return {path: found.edges for path, found in self.results.items()}

    def update(self, texts: Mapping[str, str]) -> None:
        files = Files(texts)
        changes = find_changed_names(self._facts, {path: files.facts(path) for path in files.paths()})
        before = {path: IndexedFile(facts) for path, facts in self._facts.items()}
        for path in set(self.results) - files.paths():
            del self.results[path]
        interfaces = files.interfaces()
        due = [path for path in sorted(files.paths()) if self._is_due(path, files, interfaces, changes)]
        for path in due:
            earlier = None
            if self._facts.get(path) == files.facts(path):
                held = self.results[path]
                earlier = Earlier(held.edges, held.trace, interfaces, before)
            self.results[path] = resolve(path, files, earlier)
        self._facts = {path: files.facts(path) for path in files.paths()}
        self.resolved = due

    def _is_due(self, path: str, files: Files, interfaces: Mapping[str, str], changes: ChangedNames) -> bool:
        if self._facts.get(path) != files.facts(path):
            return True
        held = self.results[path]
        now: Trace | None = renew_trace(held.trace, files, interfaces, changes)
        self.results[path] = replace(held, trace=now or held.trace)
        return now is None
