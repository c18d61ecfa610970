"""The files of a source, as languages look for modules among them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar

from knowledge_pipeline.code_graph.facts import FileFacts

Built = TypeVar("Built")


def list_defined_names(facts: FileFacts) -> frozenset[str]:
    """All for which `Project.defining` gives a file: last segments of its definitions, and its package.

    That is "package com.acme.app" ("package " for none), and "within com", "within com.acme",
    "within com.acme.app".
    """
    names = {each.name.rpartition(".")[2] for each in facts.definitions}
    for module in facts.settings.get("namespaces", facts.module).split() or [""]:
        parts = module.split(".")
        names.add(f"package {module}")
        names.update(f"within {'.'.join(parts[:end])}" for end in range(1, len(parts) + 1))
    names.update(each for each in facts.settings if each.startswith("shared "))
    return frozenset(names)


def find_changed_names(
    before: Mapping[str, FileFacts], after: Mapping[str, FileFacts]
) -> frozenset[str] | None:
    """What some files, by path, define now or defined before, but not both.

    None where something else may answer questions about many files in another way: a file came or went,
    or says otherwise where modules lie.
    """
    names: set[str] = set()
    if before.keys() != after.keys():
        return None
    for path, facts in after.items():
        if _module_identity(facts) != _module_identity(before[path]):
            return None
        names |= list_defined_names(facts) ^ list_defined_names(before[path])
    return None if any(" " in name for name in names) else frozenset(names)  # "package com.acme"


def _module_identity(facts: FileFacts) -> object:
    return facts.language, facts.module, facts.settings


class Project(Protocol):
    """The source whose files are resolved, as it is at one moment: after an edit, make another."""

    def paths(self) -> Collection[str]:
        """All files that have facts."""
        ...

    def facts(self, path: str) -> FileFacts:
        """What a file says; called for the same one more than once, so keep some."""
        ...

    def files_defining(self, name: str) -> Collection[str]:
        """The files with a definition of which this is the last segment; see `defines`."""
        ...


class Layout:
    """The paths of a project, and what languages have worked out of them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.paths = frozenset(project.paths())
        self._cache: dict[str, Any] = {}

    def facts(self, path: str) -> FileFacts:
        """What a file says: for manifests."""
        return self.project.facts(path)

    def get_or_build(self, key: str, build: Callable[[Layout], Built]) -> Built:
        """What `build` makes of the layout, the first time that the key is asked for."""
        if key not in self._cache:
            self._cache[key] = build(self)
        return self._cache[key]
