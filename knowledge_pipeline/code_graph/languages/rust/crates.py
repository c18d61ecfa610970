"""Where Rust's modules lie: crates by their Cargo.toml, modules by folders and files.

Source: https://doc.rust-lang.org/reference/items/modules.html
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from knowledge_pipeline.code_graph.project_layout import Layout

_ROOTS = ("lib.rs", "main.rs", "build.rs")
_OWN_CRATES = ("tests", "examples", "benches", "src/bin")

Root = tuple[str, str]
"""A crate: the folder of its modules, and its root file ("src", "src/lib.rs")."""


def is_manifest(path: str) -> bool:
    """Whether a file is a package's."""
    return path.rpartition("/")[2] == "Cargo.toml"


def settings_of(path: str, text: str) -> dict[str, str]:
    """The name of the crate, and the root file of its library where that is another than usual."""
    try:
        read: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    package, library = _table(read, "package"), _table(read, "lib")
    name = library.get("name") or package.get("name")
    found = {"crate": name.replace("-", "_")} if isinstance(name, str) else {}
    root = library.get("path")
    return found | ({"lib": root} if isinstance(root, str) else {})


def modules_of(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """The file that a module's path means in a file."""
    first, *rest = name.split(".")
    (folder, root), at = place_of(path, layout)
    if first == "crate":
        return _file(folder, root, rest, layout)
    if first in ("self", "super"):
        for part in (first, *rest):
            if part == "super":
                at = at[:-1]
        rest = [part for part in rest if part != "super"]
        return _file(folder, root, [*at, *rest], layout)
    if found := _file(folder, root, [*at, first, *rest], layout):
        return found
    other = layout.once("rust crates", _crates).get(first)
    return _file(*other, rest, layout) if other else ()


def crate_of(path: str, layout: Layout) -> str:
    """The folder of the package that a file is of."""
    return _package(path, layout)


def module_of(path: str, layout: Layout) -> tuple[str, list[str]]:
    """The name of a file's crate, and the path of its module."""
    (_, root), at = place_of(path, layout)
    manifest = f"{_package(path, layout)}/Cargo.toml".lstrip("/")
    known = manifest in layout.paths
    name = layout.facts(manifest).settings.get("crate", "crate") if known else "crate"
    stem = root.rpartition("/")[2].removesuffix(".rs")
    return name if stem in ("lib", "main", "mod", "") else f"{name}::{stem}", at


def place_of(path: str, layout: Layout) -> tuple[Root, list[str]]:
    """The crate of a file, and the path of the module that it is."""
    package = _package(path, layout)
    inner = path[len(package) :].lstrip("/")
    for own in _OWN_CRATES:
        if inner.startswith(f"{own}/"):
            return _of_own(f"{package}/{own}".lstrip("/"), inner[len(own) + 1 :])
    folder = f"{package}/src".lstrip("/") if inner.startswith("src/") else package
    inside = inner.removeprefix("src/")
    roots = [f"{folder}/{each}".lstrip("/") for each in _ROOTS]
    root = path if path in roots else next((each for each in roots if each in layout.paths), "")
    return (folder, root), [] if path == root else _segments(inside)


def _of_own(folder: str, inside: str) -> tuple[Root, list[str]]:
    """Each file in `tests` is a crate; what lies deeper is a module of all of them."""
    if "/" not in inside:
        return (folder, f"{folder}/{inside}"), []
    return (folder, ""), _segments(inside)


def _segments(inside: str) -> list[str]:
    parts = inside.removesuffix(".rs").split("/")
    return parts[:-1] if parts[-1] == "mod" else parts


def _file(folder: str, root: str, segments: list[str], layout: Layout) -> tuple[str, ...]:
    if not segments:
        return (root,) if root else ()
    stem = f"{folder}/{'/'.join(segments)}".lstrip("/")
    return tuple(each for each in (f"{stem}.rs", f"{stem}/mod.rs") if each in layout.paths)[:1]


def _package(path: str, layout: Layout) -> str:
    folders = layout.once("rust packages", _packages)
    around = path.rpartition("/")[0]
    while around and around not in folders:
        around = around.rpartition("/")[0]
    return around


def _packages(layout: Layout) -> frozenset[str]:
    found = {
        each.rpartition("/")[0]
        for each in layout.paths
        if is_manifest(each) and layout.facts(each).settings.get("crate")
    }
    if found:
        return frozenset(found)
    roots = (each for each in layout.paths if each.endswith(("src/lib.rs", "src/main.rs")))
    return frozenset(each.rpartition("src/")[0].rstrip("/") for each in roots)


def _crates(layout: Layout) -> Mapping[str, Root]:
    """The libraries of the source by name."""
    found: dict[str, Root] = {}
    for each in sorted(layout.paths):
        if not is_manifest(each):
            continue
        settings, folder = layout.facts(each).settings, each.rpartition("/")[0]
        root = f"{folder}/{settings.get('lib', 'src/lib.rs')}".lstrip("/")
        if "crate" in settings and root in layout.paths:
            found.setdefault(settings["crate"], (root.rpartition("/")[0], root))
    return found


def _table(read: dict[str, Any], name: str) -> dict[str, Any]:
    found = read.get(name)
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
