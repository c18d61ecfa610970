"""How Rust's names lead to definitions: crates by Cargo.toml, modules in files, members in any `impl`.

Source: https://doc.rust-lang.org/reference/items/modules.html
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from knowledge_pipeline.code_graph.facts import FileFacts, first_segment
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.languages.rust_facts import BUILTINS
from knowledge_pipeline.code_graph.project import Layout, iter_folders
from knowledge_pipeline.text import is_object

_WORDS = load_words("rust")

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
    crates = {"crate": name.replace("-", "_")} if isinstance(name, str) else {}
    root = library.get("path")
    return crates | ({"lib": root} if isinstance(root, str) else {})


def _find_module_files(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """The file that a module's path means in a file."""
    first, *rest = name.split(".")
    (folder, root), at = _locate_module(path, layout)
    if first == "crate":
        return _find_module_file(folder, root, rest, layout)
    if first in ("self", "super"):
        for part in (first, *rest):
            if part == "super":
                at = at[:-1]
        rest = [part for part in rest if part != "super"]
        return _find_module_file(folder, root, [*at, *rest], layout)
    if file := _find_module_file(folder, root, [*at, first, *rest], layout):
        return file
    other = layout.get_or_build(_index_crates).get(first)
    return _find_module_file(*other, rest, layout) if other else ()


def _module_path_of(path: str, layout: Layout) -> tuple[str, list[str]]:
    """The name of a file's crate, and the path of its module."""
    (_, root), at = _locate_module(path, layout)
    manifest = f"{_find_crate_folder(path, layout)}/Cargo.toml".lstrip("/")
    exists = manifest in layout.paths
    name = layout.facts(manifest).settings.get("crate", "crate") if exists else "crate"
    stem = root.rpartition("/")[2].removesuffix(".rs")
    return name if stem in ("lib", "main", "mod", "") else f"{name}::{stem}", at


def _locate_module(path: str, layout: Layout) -> tuple[CrateRoot, list[str]]:
    """The crate of a file, and the path of the module that it is."""
    package = _find_crate_folder(path, layout)
    inner = path[len(package) :].lstrip("/")
    for own in _CRATE_PER_FILE_FOLDERS:
        if inner.startswith(f"{own}/"):
            return _locate_in_own_crate(f"{package}/{own}".lstrip("/"), inner[len(own) + 1 :])
    folder = f"{package}/src".lstrip("/") if inner.startswith("src/") else package
    inside = inner.removeprefix("src/")
    roots = [f"{folder}/{name}".lstrip("/") for name in _ROOT_FILES]
    root = path if path in roots else next((file for file in roots if file in layout.paths), "")
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
    return tuple(file for file in (f"{stem}.rs", f"{stem}/mod.rs") if file in layout.paths)[:1]


def _find_crate_folder(path: str, layout: Layout) -> str:
    folders = layout.get_or_build(_list_package_folders)
    return next((folder for folder in iter_folders(path.rpartition("/")[0]) if folder in folders), "")


def _list_package_folders(layout: Layout) -> frozenset[str]:
    names = {
        path.rpartition("/")[0]
        for path in layout.paths
        if is_manifest(path) and layout.facts(path).settings.get("crate")
    }
    if names:
        return frozenset(names)
    roots = (path for path in layout.paths if path.endswith(("src/lib.rs", "src/main.rs")))
    return frozenset(root.rpartition("src/")[0].rstrip("/") for root in roots)


def _index_crates(layout: Layout) -> Mapping[str, CrateRoot]:
    roots: dict[str, CrateRoot] = {}
    for path in sorted(layout.paths):
        if not is_manifest(path):
            continue
        settings, folder = layout.facts(path).settings, path.rpartition("/")[0]
        root = f"{folder}/{settings.get('lib', 'src/lib.rs')}".lstrip("/")
        if "crate" in settings and root in layout.paths:
            roots.setdefault(settings["crate"], (root.rpartition("/")[0], root))
    return roots


def _get_table(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    section = manifest.get(name)
    return section if is_object(section) else {}


_CONTAINER_METHODS: Mapping[str, str] = _WORDS.by_word("container_methods")


class Rust(Language):
    """Rust, as its reference says, chapter 12: https://doc.rust-lang.org/reference/names.html."""

    name = "rust"
    builtins = BUILTINS
    has_dotted_modules = True
    has_scattered_members = True
    has_duplicate_type_names = True
    members_in_body = False
    element_accessors = ("next()[]",)
    container_methods = _CONTAINER_METHODS
    common_methods = _WORDS["common_methods"]

    def member_home(self, facts: FileFacts) -> str:
        """The crate of the file."""
        return f"crate of {facts.path}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file of `crate.a.b`, `self.b`, `super.b`, another crate's, or one below the file."""
        return _find_module_files(name, path, layout)

    def submodule_name(self, name: str) -> str:
        """A module in a file of its own."""
        return f"self.{name}"

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the crate that define a member; a macro is seen in all files, without import."""
        is_macro = name[:1].islower() and name not in BUILTINS
        if not (is_macro or path.startswith("crate of ")):
            return ()
        home = _find_crate_folder(path.removeprefix("crate of "), layout)
        files = (file for file in layout.project.files_defining(name) if file.endswith(".rs"))
        return tuple(sorted(file for file in files if _find_crate_folder(file, layout) == home))

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`std::fmt::Display`; nothing for what the crate itself should have."""
        if module.partition(".")[0] in ("self", "super", "crate"):
            return ""
        parts = module.split(".")
        return "::".join([*parts, name] if name not in ("", "*") else parts)

    def extend_external_name(self, external: str, step: str) -> str:
        """`serde_json::Value` called is one; its members follow `::`."""
        if step[0] == "." and first_segment(external) in BUILTINS:
            return external + step
        if step[0] == ".":
            return f"{external}::{step[1:]}" if not external.endswith(")") else ""
        is_type = external.rpartition("::")[2][:1].isupper()
        return external if is_type and step == "()" else external + step

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of `std`, `core` or `alloc`."""
        return external.partition("::")[0] in ("std", "core", "alloc")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`shop::store::Store::get`."""
        crate, module = _module_path_of(path, layout)
        return "::".join(part for part in (crate, *module, *name.split(".")) if part) or path
