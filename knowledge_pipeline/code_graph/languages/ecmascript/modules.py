"""Which file a module's name means: by path, by tsconfig's aliases, by a package's name.

Source: https://www.typescriptlang.org/docs/handbook/modules/reference.html
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from knowledge_pipeline.code_graph.project_layout import Layout, iter_folders

_RESOLVED_SUFFIXES = (
    ".ts", ".tsx", ".mts", ".cts", ".d.ts", ".d.mts", ".d.cts", ".js", ".jsx", ".mjs", ".cjs"
)  # fmt: skip
SUFFIXES = (*_RESOLVED_SUFFIXES, ".es6")
_SOURCE_SUFFIXES = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx", ".d.ts"),
    ".mjs": (".mts", ".d.mts"),
    ".cjs": (".cts", ".d.cts"),
}
_SOURCE_FOLDERS = ("src", "lib", "source", "")
_BUILD_FOLDERS = frozenset(
    {"dist", "lib", "build", "out", "esm", "cjs", "es", "types", "umd", "module", "typings"}
)
_MAX_EXTENDS = 5


def find_module_files(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """The file that a module's name means within a file; empty for one outside of the source."""
    folder = path.rpartition("/")[0]
    if name.startswith(".") or name.startswith("/"):
        found = _find_file(_join_path(folder, name), layout) if name[0] == "." else None
        return (found,) if found else ()
    found = _resolve_alias(name, folder, layout) or _resolve_package_import(name, layout)
    return (found,) if found else ()


def find_package(path: str, layout: Layout) -> tuple[str, str]:
    """The folder and the name of the package that a file is in; two empty texts without any."""
    packages = layout.get_or_build(_index_named_packages)
    folders = iter_folders(path.rpartition("/")[0])
    return next((packages[each] for each in folders if each in packages), ("", ""))


def find_entry_file(folder: str, layout: Layout) -> str | None:
    """The file that the package in a folder is known by."""
    return layout.get_or_build(_resolve_entry_file, folder)


def _find_file(base: str | None, layout: Layout) -> str | None:
    """A module's file by its path, with or without its suffix, or a folder's index."""
    if base is None:
        return None
    stem, dot, last = base.rpartition(".")
    for suffix in _SOURCE_SUFFIXES.get(dot + last, ()):
        if stem + suffix in layout.paths:
            return stem + suffix
    if base in layout.paths and base.endswith(SUFFIXES):
        return base
    for start in (base, f"{base}/index".lstrip("/")):
        for suffix in _RESOLVED_SUFFIXES:
            if start + suffix in layout.paths:
                return start + suffix
    return find_entry_file(base, layout) if f"{base}/package.json" in layout.paths else None


def _join_path(folder: str, name: str) -> str | None:
    joined = posixpath.normpath(f"{folder}/{name}".lstrip("/"))
    return None if joined.startswith("..") else "" if joined == "." else joined


def _resolve_alias(name: str, folder: str, layout: Layout) -> str | None:
    """By `paths` and `baseUrl` of the nearest tsconfig.json."""
    projects = layout.get_or_build(_load_tsconfigs)
    project = next((projects[each] for each in iter_folders(folder) if each in projects), None)
    if project is None:
        return None
    base, paths = project
    ranked = sorted(paths.items(), key=lambda each: -len(each[0].partition("*")[0]))
    for pattern, targets in ranked:
        start, star, end = pattern.partition("*")
        matches = name == pattern if not star else name.startswith(start) and name.endswith(end)
        if matches and len(name) >= len(start) + len(end):
            middle = name[len(start) : len(name) - len(end)] if star else ""
            for target in targets:
                if found := _find_file(_join_path("", target.replace("*", middle)), layout):
                    return found
    return _find_file(_join_path(base, name), layout) if base is not None else None


_TsConfig = tuple[str | None, Mapping[str, tuple[str, ...]]]


def _load_tsconfigs(layout: Layout) -> dict[str, _TsConfig]:
    found: dict[str, _TsConfig] = {}
    for path in sorted(layout.paths):
        folder, _, name = path.rpartition("/")
        if name in ("tsconfig.json", "jsconfig.json") and folder not in found:
            found[folder] = _load_tsconfig(path, layout, 0)
    return found


def _load_tsconfig(path: str, layout: Layout, depth: int) -> _TsConfig:
    settings = layout.facts(path).settings
    folder = path.rpartition("/")[0]
    base: str | None = None
    paths: dict[str, tuple[str, ...]] = {}
    for each in settings.get("extends", "").split("\n") if depth < _MAX_EXTENDS else ():
        joined = _join_path(folder, each) if each.startswith(".") else None
        parent = next((p for p in (joined, f"{joined}.json") if p in layout.paths), None)
        if parent is not None:
            base, inherited = _load_tsconfig(parent, layout, depth + 1)
            paths |= inherited
    if "base" in settings:
        base = _join_path(folder, settings["base"])
    lines = [line.split("\t") for line in settings.get("paths", "").split("\n") if line]
    if lines:
        start = base if "base" in settings and base is not None else folder
        paths = {
            pattern: tuple(f"{start}/{target}".lstrip("/") for target in targets)
            for pattern, *targets in lines
        }
    return base, paths


def _resolve_package_import(name: str, layout: Layout) -> str | None:
    packages = layout.get_or_build(_index_packages)
    parts = name.split("/")
    own = 2 if name.startswith("@") else 1
    home = packages.get("/".join(parts[:own]))
    if home is None:
        return None
    rest = "/".join(parts[own:])
    return _resolve_package_export(home, rest, layout) if rest else find_entry_file(home, layout)


def _index_packages(layout: Layout) -> dict[str, str]:
    """Folders of packages by their names."""
    named = layout.get_or_build(_index_named_packages)
    return {name: folder for folder, (_, name) in sorted(named.items(), key=lambda each: -len(each[0]))}


def _index_named_packages(layout: Layout) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for path in layout.paths:
        folder, _, last = path.rpartition("/")
        if last == "package.json" and (name := layout.facts(path).settings.get("name")):
            found[folder] = (folder, name)
    return found


def _resolve_entry_file(layout: Layout, folder: str) -> str | None:
    settings = layout.facts(f"{folder}/package.json".lstrip("/")).settings
    targets = [each for each in settings.get("entries", "").split("\n") if each]
    for target in [*targets, "index", "src/index", "lib/index", "src/main"]:
        if found := _find_source_file(folder, target, layout):
            return found
    return None


def _resolve_package_export(folder: str, rest: str, layout: Layout) -> str | None:
    """A file within a package: by its exports, or by its path."""
    settings = layout.facts(f"{folder}/package.json".lstrip("/")).settings
    for line in settings.get("exports", "").split("\n"):
        pattern, _, target = line.partition("\t")
        start, star, end = pattern.removeprefix("./").partition("*")
        matches = rest.startswith(start) and rest.endswith(end) if star else rest == start
        if target and matches:
            middle = rest[len(start) : len(rest) - len(end)] if star else ""
            if found := _find_source_file(folder, target.replace("*", middle), layout):
                return found
    return _find_source_file(folder, rest, layout)


def _find_source_file(folder: str, target: str, layout: Layout) -> str | None:
    """The source of what a package offers, which may be built into another folder."""
    joined = _join_path(folder, target) if not target.startswith("/") else None
    found = _find_file(joined, layout) if joined != folder else None
    if found is not None:
        return found
    for inner in _iter_source_paths(target):
        for root in _SOURCE_FOLDERS:
            joined = _join_path(folder, f"{root}/{inner}".lstrip("/"))
            if joined != folder and (found := _find_file(joined, layout)):
                return found
    return None


def _iter_source_paths(target: str) -> Iterator[str]:
    """A path without the folders that things are built into, and without its suffix."""
    parts = [part for part in target.split("/") if part not in (".", "")]
    stem = parts[-1].removesuffix(".map") if parts else ""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if stem.endswith(suffix):
            stem = stem.removesuffix(suffix)
            break
    parts = [*parts[:-1], stem]
    while len(parts) > 1 and parts[0] in _BUILD_FOLDERS:
        parts = parts[1:]
        yield "/".join(parts)
