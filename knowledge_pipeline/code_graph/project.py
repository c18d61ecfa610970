"""The files of a source, as languages look for modules among them."""

from __future__ import annotations

import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, TypeVarTuple

from knowledge_pipeline.code_graph.facts import FileFacts

Built = TypeVar("Built")
Arguments = TypeVarTuple("Arguments")

_NO_NAMES = frozenset[str]()

_FAMILIES = {"kotlin": "java", "scala": "java", "c": "cpp"}
"""Languages that share their packages with another one; any other has its own."""


def package_name(kind: Literal["package", "within"], language: str, module: str) -> str:
    """The name for which files of a package are asked: `list_defined_names`."""
    return f"{kind} {_FAMILIES.get(language, language)} {module}"


def list_defined_names(facts: FileFacts) -> frozenset[str]:
    """The names for which `Project.files_defining` gives a file: last segments of definitions, its package.

    That is "package java com.acme.app" ("package java " for none), and "within java com",
    "within java com.acme", "within java com.acme.app".
    """
    names = {definition.name.rpartition(".")[2] for definition in facts.definitions}
    for module in facts.settings.get("namespaces", facts.module).split() or [""]:
        parts = module.split(".")
        names.add(package_name("package", facts.language, module))
        for end in range(1, len(parts) + 1):
            names.add(package_name("within", facts.language, ".".join(parts[:end])))
    names.update(setting for setting in facts.settings if setting.startswith("shared "))
    return frozenset(names)


class ChangedNames(NamedTuple):
    """What some edits can have changed in the answers about a project."""

    names: frozenset[str] = frozenset()  # that other files define now than before
    moves_modules: bool = False  # whether other files are there, or modules lie elsewhere


def find_changed_names(before: Mapping[str, FileFacts], after: Mapping[str, FileFacts]) -> ChangedNames:
    """What the difference between some files before and after, by path, can have changed."""
    names, moves_modules = set[str](), before.keys() != after.keys()
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        moves_modules |= bool(old and new and _module_identity(old) != _module_identity(new))
        names |= (list_defined_names(old) if old else _NO_NAMES) ^ (
            list_defined_names(new) if new else _NO_NAMES
        )
    return ChangedNames(frozenset(names), moves_modules or any(" " in name for name in names))  # a package


def _module_identity(facts: FileFacts) -> object:
    return facts.language, facts.module, facts.settings


class ProjectFiles(ABC):
    """What languages look at in a `Project`."""

    @abstractmethod
    def paths(self) -> Collection[str]:
        """All files that have facts."""

    @abstractmethod
    def facts(self, path: str) -> FileFacts:
        """What a file says."""

    @abstractmethod
    def files_defining(self, name: str) -> Collection[str]:
        """The files with a definition of which this is the last segment; see `list_defined_names`."""


class Layout:
    """The paths of a project, and what languages have worked out of them."""

    def __init__(self, project: ProjectFiles) -> None:
        self.project = project
        self.paths = frozenset(project.paths())
        self._cache: dict[object, Any] = {}  # by function and arguments

    def facts(self, path: str) -> FileFacts:
        """What a file says: for manifests."""
        return self.project.facts(path)

    def files_named(self, name: str) -> tuple[str, ...]:
        """All files with a last name, in the order of their paths."""
        return self.get_or_build(_index_file_names).get(name, ())

    def get_or_build(self, build: Callable[[Layout, *Arguments], Built], *arguments: *Arguments) -> Built:
        """What a function makes of the layout, computed once."""
        key = (build, arguments)
        if key not in self._cache:
            self._cache[key] = build(self, *arguments)
        return self._cache[key]


def _index_file_names(layout: Layout) -> dict[str, tuple[str, ...]]:
    result: dict[str, list[str]] = {}
    for path in sorted(layout.paths):
        result.setdefault(path.rpartition("/")[2], []).append(path)
    return {name: tuple(paths) for name, paths in result.items()}


def join_path(folder: str, name: str) -> str:
    """A path relative to a folder; what leads out of the source starts in it."""
    return posixpath.normpath(f"/{folder}/{name}").lstrip("/")


def climb_path(path: str, name: str) -> tuple[str, str]:
    """A path relative to a file, `..` followed where it starts with that, and the rest after that."""
    folder = path.split("/")[:-1]
    parts = [part for part in name.split("/") if part not in ("", ".")]
    while parts and parts[0] == "..":
        parts, folder = parts[1:], folder[:-1]
    return "/".join([*folder, *parts]), "/".join(parts)


def count_shared_folders(one: str, other: str) -> int:
    """How many of the outermost folders of two files are the same."""
    return len(posixpath.commonprefix([one.split("/")[:-1], other.split("/")[:-1]]))


def iter_folders(folder: str) -> Iterator[str]:
    """A folder and those around it, the source's own, "", last."""
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""
