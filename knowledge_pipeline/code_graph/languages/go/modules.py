"""Where Go's packages lie: modules by their go.mod, a package in each folder.

Source: https://go.dev/ref/mod
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from knowledge_pipeline.code_graph.project_layout import Layout
from knowledge_pipeline.code_graph.values import Values

_MODULE = re.compile(r'^[ \t]*module[ \t]+"?([^\s"/][^\s"]*)', re.MULTILINE)
TESTS_SUFFIX = "_test/"
"""What stands after the folder of a package whose tests are meant, too."""


def is_manifest(path: str) -> bool:
    """Whether a file is a module's."""
    return path.rpartition("/")[2] == "go.mod"


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """The name of the module."""
    found = _MODULE.search(text)
    return {"module": found[1]} if found else {}


def find_package_folder(name: str, path: str, layout: Layout) -> str | None:
    """The folder of an imported package, "" for the source's own; None where it has none."""
    if name.startswith("."):
        return None
    folders = layout.get_or_build(_index_folders)
    vendored = f"vendor/{name}"
    for module, root in layout.get_or_build(_index_modules):
        if name == module or name.startswith(f"{module}/") or module == "std":
            rest = name if module == "std" else name[len(module) + 1 :]
            folder = f"{root}/{rest}".strip("/")
            if folder in folders:
                return folder
    if vendored in folders:
        return vendored
    return None if layout.get_or_build(_index_modules) else _find_folder_by_suffix(name, folders)


def list_package_files(folder: str, layout: Layout, *, tests: bool) -> frozenset[str]:
    """The files of a folder's package."""
    found = layout.get_or_build(_index_folders).get(folder, frozenset())
    return found if tests else frozenset(each for each in found if not each.endswith("_test.go"))


def find_front_file(folder: str, layout: Layout) -> str | None:
    """The file that stands for a package: the one with its name, or `doc.go`, or the first."""
    files = list_package_files(folder, layout, tests=False)
    last = folder.rpartition("/")[2]
    named = [f"{folder}/{name}.go".lstrip("/") for name in (last, "doc")]
    return next((each for each in (*named, *sorted(files)) if each in files), None)


def import_path_of(path: str, layout: Layout) -> str:
    """The import path of a file's package; its folder where no module is around it."""
    folder = path.rpartition("/")[0]
    for module, root in layout.get_or_build(_index_modules):
        if not root or folder == root or folder.startswith(f"{root}/"):
            rest = folder[len(root) :].strip("/")
            return rest if module == "std" else f"{module}/{rest}".rstrip("/")
    return folder


def guess_package_names(name: str) -> list[str]:
    """What a package may be called of which only the import path is known."""
    parts = [part for part in name.split("/") if part]
    if len(parts) > 1 and re.fullmatch(r"v\d+", parts[-1]):
        parts.pop()
    last = parts[-1] if parts else name
    last = re.sub(r"\.v\d+$", "", last)
    found = {
        last,
        last.removeprefix("go-").removesuffix("-go"),
        last.removeprefix("go."),
        last.rpartition("-")[2],
    }
    return sorted(each for each in found if each.isidentifier())


def _index_folders(layout: Layout) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for path in layout.paths:
        if path.endswith(".go"):
            found.setdefault(path.rpartition("/")[0], set()).add(path)
    return {folder: frozenset(files) for folder, files in found.items()}


def _index_modules(layout: Layout) -> tuple[tuple[str, str], ...]:
    """Modules and their folders; what lies deeper, first."""
    found: Values = []
    for path in layout.paths:
        if is_manifest(path) and (module := layout.facts(path).settings.get("module")):
            found.append((module, path.rpartition("/")[0]))
    return tuple(sorted(found, key=lambda each: (-len(each[1]), -len(each[0]), each)))


def _find_folder_by_suffix(name: str, folders: Mapping[str, frozenset[str]]) -> str | None:
    """Without any go.mod: the folder with which the name ends, if a host stands before it."""
    parts = name.split("/")
    if "." not in parts[0]:
        return None
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in folders), "" if "" in folders and len(parts) == 3 else None)
