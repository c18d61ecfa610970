"""Where Rust's modules lie: crates by their Cargo.toml, modules by folders and files.

Source: https://doc.rust-lang.org/reference/items/modules.html
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from knowledge_pipeline.code_graph.project_layout import Layout, iter_folders
from knowledge_pipeline.json_values import is_object

_ROOT_FILES = ("lib.rs", "main.rs", "build.rs")
_CRATE_PER_FILE_FOLDERS = ("tests", "examples", "benches", "src/bin")

CrateRoot = tuple[str, str]
"""A crate: the folder of its modules, and its root file ("src", "src/lib.rs")."""


def is_manifest(path: str) -> bool:
    """Whether a file is a package's."""
    return path.rpartition("/")[2] == "Cargo.toml"


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """The name of the crate, and the root file of its library where that is another than usual."""
    try:
        read: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    package, library = _get_table(read, "package"), _get_table(read, "lib")
    name = library.get("name") or package.get("name")
    found = {"crate": name.replace("-", "_")} if isinstance(name, str) else {}
    root = library.get("path")
    return found | ({"lib": root} if isinstance(root, str) else {})


def find_module_files(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """The file that a module's path means in a file."""
    first, *rest = name.split(".")
    (folder, root), at = locate_module(path, layout)
    if first == "crate":
        return _find_module_file(folder, root, rest, layout)
    if first in ("self", "super"):
        for part in (first, *rest):
            if part == "super":
                at = at[:-1]
        rest = [part for part in rest if part != "super"]
        return _find_module_file(folder, root, [*at, *rest], layout)
    if found := _find_module_file(folder, root, [*at, first, *rest], layout):
        return found
    other = layout.get_or_build(_index_crates).get(first)
    return _find_module_file(*other, rest, layout) if other else ()


def module_path_of(path: str, layout: Layout) -> tuple[str, list[str]]:
    """The name of a file's crate, and the path of its module."""
    (_, root), at = locate_module(path, layout)
    manifest = f"{find_crate_folder(path, layout)}/Cargo.toml".lstrip("/")
    known = manifest in layout.paths
    name = layout.facts(manifest).settings.get("crate", "crate") if known else "crate"
    stem = root.rpartition("/")[2].removesuffix(".rs")
    return name if stem in ("lib", "main", "mod", "") else f"{name}::{stem}", at


def locate_module(path: str, layout: Layout) -> tuple[CrateRoot, list[str]]:
    """The crate of a file, and the path of the module that it is."""
    package = find_crate_folder(path, layout)
    inner = path[len(package) :].lstrip("/")
    for own in _CRATE_PER_FILE_FOLDERS:
        if inner.startswith(f"{own}/"):
            return _locate_in_own_crate(f"{package}/{own}".lstrip("/"), inner[len(own) + 1 :])
    folder = f"{package}/src".lstrip("/") if inner.startswith("src/") else package
    inside = inner.removeprefix("src/")
    roots = [f"{folder}/{each}".lstrip("/") for each in _ROOT_FILES]
    root = path if path in roots else next((each for each in roots if each in layout.paths), "")
    return (folder, root), [] if path == root else _module_segments(inside)


def _locate_in_own_crate(folder: str, inside: str) -> tuple[CrateRoot, list[str]]:
    """Each file in `tests` is a crate; what lies deeper is a module of all of them."""
    if "/" not in inside:
        return (folder, f"{folder}/{inside}"), []
    return (folder, ""), _module_segments(inside)


def _module_segments(inside: str) -> list[str]:
    parts = inside.removesuffix(".rs").split("/")
    return parts[:-1] if parts[-1] == "mod" else parts


def _find_module_file(folder: str, root: str, segments: list[str], layout: Layout) -> tuple[str, ...]:
    if not segments:
        return (root,) if root else ()
    stem = f"{folder}/{'/'.join(segments)}".lstrip("/")
    return tuple(each for each in (f"{stem}.rs", f"{stem}/mod.rs") if each in layout.paths)[:1]


def find_crate_folder(path: str, layout: Layout) -> str:
    """The folder of the package that a file is of."""
    folders = layout.get_or_build(_list_package_folders)
    return next((each for each in iter_folders(path.rpartition("/")[0]) if each in folders), "")


def _list_package_folders(layout: Layout) -> frozenset[str]:
    found = {
        each.rpartition("/")[0]
        for each in layout.paths
        if is_manifest(each) and layout.facts(each).settings.get("crate")
    }
    if found:
        return frozenset(found)
    roots = (each for each in layout.paths if each.endswith(("src/lib.rs", "src/main.rs")))
    return frozenset(each.rpartition("src/")[0].rstrip("/") for each in roots)


def _index_crates(layout: Layout) -> Mapping[str, CrateRoot]:
    found: dict[str, CrateRoot] = {}
    for each in sorted(layout.paths):
        if not is_manifest(each):
            continue
        settings, folder = layout.facts(each).settings, each.rpartition("/")[0]
        root = f"{folder}/{settings.get('lib', 'src/lib.rs')}".lstrip("/")
        if "crate" in settings and root in layout.paths:
            found.setdefault(settings["crate"], (root.rpartition("/")[0], root))
    return found


def _get_table(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    found = manifest.get(name)
    return found if is_object(found) else {}
