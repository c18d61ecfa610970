"""How Python's names lead to definitions: modules among the files, and its own methods."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.python.facts import BUILTINS
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.project_layout import Layout, count_shared_folders, iter_folders

_SUFFIXES = (".py", ".pyi", ".pyw")
_BUILTIN_TYPES = (str, bytes, dict, list, set, frozenset, tuple, int, float, bool, object)
_COMMON_METHODS = split_words(
    """
    close read write readline readlines seek tell flush open fileno start join run acquire release
    wait notify send recv put get_nowait info debug warning error exception log group match search sub
    findall fullmatch finditer submit result cancel set is_set connect execute commit rollback
    fetchone fetchall cursor exists is_file is_dir mkdir unlink read_text write_text iterdir glob
    resolve with_suffix as_posix load loads dump dumps parse_args add_argument strftime isoformat
    total_seconds timestamp appendleft popleft most_common
    """
)


class Python(Language):
    """Python, as its reference says: https://docs.python.org/3/reference/import.html."""

    name = "python"
    receiver_keywords: Mapping[str, str] = {"super": "@super"}
    builtins = BUILTINS
    element_accessors = ("__getitem__()", "__iter__()[]", "__next__()")
    call_method = "__call__"
    container_methods: Mapping[str, str] = {
        **dict.fromkeys(("get", "pop", "popleft", "setdefault", "get_nowait", "__getitem__"), "[]"),
        **dict.fromkeys(("values", "copy", "keys"), ""),
    }
    common_methods = frozenset(name for of in _BUILTIN_TYPES for name in dir(of)) | _COMMON_METHODS

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A module's file, its package's `__init__`, or its folder where it has none."""
        if name.startswith("."):
            folder = path.rstrip("/") if path.endswith("/") else path.rpartition("/")[0]
            dots = len(name) - len(name.lstrip("."))
            for _ in range(dots - 1):
                if not folder:
                    return ()
                folder = folder.rpartition("/")[0]
            rest = name[dots:].replace(".", "/")
            found = _find_module_file(f"{folder}/{rest}".strip("/"), layout)
            return (found,) if found else ()
        parts = name.split(".")
        roots = layout.get_or_build_of_paths(_index_import_roots).get(parts[0], ())
        if parts[0] in sys.stdlib_module_names:
            roots = tuple(root for root in roots if root == path.rpartition("/")[0])
        ranked = sorted(roots, key=lambda root: (-count_shared_folders(f"{root}/", path), len(root), root))
        for root in ranked:
            if found := _find_module_file(f"{root}/{'/'.join(parts)}".lstrip("/"), layout):
                return (found,)
        return ()

    def submodule_name(self, name: str) -> str:
        """As it is written within a package."""
        return f".{name}"

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`requests.sessions.Session`; nothing for a module that should lie beside the file."""
        if module.startswith("."):
            return ""
        return f"{module}.{name}" if name else module

    def extend_external_name(self, external: str, step: str) -> str:
        """Nothing is known of what a type of `typing` makes: it stands for others."""
        if step == "()" and external.startswith(("typing.", "typing_extensions.")):
            return ""
        return super().extend_external_name(external, step)

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of a module of the standard library."""
        return external.partition(".")[0] in sys.stdlib_module_names

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`package.module.Class.method`, counted from the outermost folder with an `__init__`."""
        stem = path.rpartition(".")[0]
        folder, _, last = stem.rpartition("/")
        root = next(each for each in iter_folders(folder) if not each or not _is_package(each, layout.paths))
        module = [] if last == "__init__" else [last]
        inner = folder[len(root) :].strip("/").split("/") if folder != root else []
        return ".".join([*inner, *module, *([name] if name else [])])


def _find_module_file(base: str, layout: Layout) -> str | None:
    for suffix in _SUFFIXES:
        if (path := f"{base}/__init__{suffix}".lstrip("/")) in layout.paths:
            return path
        if (path := f"{base}{suffix}") in layout.paths:
            return path
    return f"{base}/" if base in layout.get_or_build_of_paths(_list_folders) else None


def _list_folders(paths: frozenset[str]) -> frozenset[str]:
    """All folders with Python files somewhere within."""
    found: set[str] = set()
    for path in paths:
        if path.endswith(_SUFFIXES):
            found.update(iter_folders(path.rpartition("/")[0]))
    return frozenset(found - {""})


def _index_import_roots(paths: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The folders from which an absolute import may start, by its first name: no packages."""
    found: dict[str, set[str]] = {}
    for path in paths:
        if path.endswith(_SUFFIXES):
            folder, _, name = path.rpartition("/")
            if not _is_package(folder, paths):
                found.setdefault(name.rpartition(".")[0], set()).add(folder)
    for each in _list_folders(paths):
        folder, _, name = each.rpartition("/")
        if not _is_package(folder, paths):
            found.setdefault(name, set()).add(folder)
    return {name: tuple(sorted(roots)) for name, roots in found.items()}


def _is_package(folder: str, paths: frozenset[str]) -> bool:
    return any(f"{folder}/__init__{suffix}".lstrip("/") in paths for suffix in _SUFFIXES)
