"""Imports and exports of JavaScript and TypeScript, and which file a module's name means.

By path, by the aliases of tsconfig.json, by a package's name in package.json; of ES modules and of CommonJS.
Source: https://www.typescriptlang.org/docs/handbook/modules/reference.html
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Value
from knowledge_pipeline.code_graph.languages.ecmascript_components import COMPONENT_SUFFIXES, name_component
from knowledge_pipeline.code_graph.languages.ecmascript_configs import AUTO_IMPORTS
from knowledge_pipeline.code_graph.languages.ecmascript_values import (
    EcmaScriptValues,
    loaded_module_name,
    unwrap_expression,
)
from knowledge_pipeline.code_graph.project import Layout, iter_folders
from knowledge_pipeline.syntax.grammars import first_of_type, has_child, has_type, part_of
from knowledge_pipeline.syntax.outline import Outline
from knowledge_pipeline.text import is_list, is_object

_RESOLVED_SUFFIXES = (
    ".ts", ".tsx", ".mts", ".cts", ".d.ts", ".d.mts", ".d.cts", ".js", ".jsx", ".mjs", ".cjs", ".vue"
)  # fmt: skip

SUFFIXES = (*_RESOLVED_SUFFIXES, ".es6", *COMPONENT_SUFFIXES)
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
    """The file that a module's name means within a file; empty for one outside of the source.

    The name with "/" last, a folder that has nothing, where an alias says that it lies within.
    """
    folder = path.rpartition("/")[0]
    if name.startswith("."):
        file = _find_file(_join_path(folder, name), layout)
    else:
        file, is_alias = _resolve_alias(name, folder, layout)
        file = file or _resolve_package_import(name, layout) or (f"{name}/" if is_alias else None)
    return (file,) if file else ()


def find_package(path: str, layout: Layout) -> tuple[str, str]:
    """The folder and the name of the package that a file is in; two empty texts without any."""
    packages = layout.get_or_build(_index_named_packages)
    folders = iter_folders(path.rpartition("/")[0])
    return next((packages[folder] for folder in folders if folder in packages), ("", ""))


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


class _Aliases(NamedTuple):
    """What a configuration says of the names of modules."""

    folder: str  # where it lies
    base: str | None  # the folder from which names lead, too
    paths: dict[str, tuple[str, ...]]  # by pattern, paths within the source; both may have one "*"
    imports_names: bool = False  # whether names of components and composables come without import


def _resolve_alias(name: str, folder: str, layout: Layout) -> tuple[str | None, bool]:
    """By tsconfig.json, bundlers and frameworks: a file, and whether an alias says that there is one."""
    is_alias = False
    for aliases in layout.get_or_build(_list_aliases, folder):
        for pattern, targets in sorted(aliases.paths.items(), key=lambda it: -len(it[0].partition("*")[0])):
            if (middle := _match_pattern(name, pattern)) is None:
                continue
            for target in targets:
                if file := _find_file(_join_path("", target.replace("*", middle)), layout):
                    return file, True
            is_alias |= pattern[0] != "*" and not any("node_modules/" in target for target in targets)
        if aliases.base is not None and (file := _find_file(_join_path(aliases.base, name), layout)):
            return file, True
    return None, is_alias


def _match_pattern(name: str, pattern: str) -> str | None:
    """What stands for the "*" of a pattern, which it may lack; None where the pattern does not fit."""
    start, star, end = pattern.partition("*")
    if not star:
        return "" if name == pattern else None
    fits = name.startswith(start) and name.endswith(end) and len(name) >= len(start) + len(end)
    return name[len(start) : len(name) - len(end)] if fits else None


def _list_aliases(layout: Layout, folder: str) -> list[_Aliases]:
    """Those that hold in a folder: of the nearest tsconfig.json, then of bundlers, from within."""
    projects, bundlers = layout.get_or_build(_load_tsconfigs), layout.get_or_build(_load_bundlers)
    around = list(iter_folders(folder))
    project = next((projects[one] for one in around if one in projects), list[_Aliases]())
    ranked = sorted(project, key=lambda it: around.index(it.folder) if it.folder in around else len(around))
    return [*ranked, *(bundlers[one] for one in around if one in bundlers)]


def _load_tsconfigs(layout: Layout) -> dict[str, list[_Aliases]]:
    """By folder, what its tsconfig.json says, and what other files say that it refers to."""
    configs: dict[str, list[_Aliases]] = {}
    for path in sorted(layout.paths):
        folder, _, name = path.rpartition("/")
        if name in ("tsconfig.json", "jsconfig.json") and folder not in configs:
            references = layout.facts(path).settings.get("references", "").split("\n")
            files = [path, *(_join_path(folder, reference) for reference in references)]
            existing = (file for file in files if file in layout.paths)
            configs[folder] = [_load_tsconfig(file, layout, 0) for file in existing if file]
    return configs


def _load_tsconfig(path: str, layout: Layout, depth: int) -> _Aliases:
    settings = layout.facts(path).settings
    folder = path.rpartition("/")[0]
    base: str | None = None
    paths: dict[str, tuple[str, ...]] = {}
    for extended in settings.get("extends", "").split("\n") if depth < _MAX_EXTENDS else ():
        home, rest = (folder, extended) if extended.startswith(".") else _split_package(extended, layout)
        joined = None if home is None else _join_path(home, rest)
        candidates = (joined, f"{joined}.json", f"{joined}/tsconfig.json")
        parent = next((one for one in candidates if one in layout.paths), None)
        if parent is not None:
            _, base, inherited, _ = _load_tsconfig(parent, layout, depth + 1)
            paths |= inherited
    if "base" in settings:
        base = _join_path(folder, settings["base"])
    start = base if "base" in settings and base is not None else folder
    return _Aliases(folder, base, paths | _parse_paths(settings, start))


def _parse_paths(settings: Mapping[str, str], folder: str) -> dict[str, tuple[str, ...]]:
    lines = (line.split("\t") for line in settings.get("paths", "").split("\n") if line)
    return {pattern: tuple(f"{folder}/{it}".lstrip("/") for it in targets) for pattern, *targets in lines}


def _load_bundlers(layout: Layout) -> dict[str, _Aliases]:
    """By folder, what the files of settings in it say: Vite's, Nuxt's, SvelteKit's."""
    configs: dict[str, _Aliases] = {}
    for path in sorted(layout.paths):
        folder, _, name = path.rpartition("/")
        settings = layout.facts(path).settings if ".config." in name else {}
        if settings:
            earlier = configs.get(folder) or _Aliases(folder, None, {})
            paths = _parse_paths(settings, folder) | earlier.paths
            is_auto = AUTO_IMPORTS in settings or earlier.imports_names
            configs[folder] = _Aliases(folder, None, paths, is_auto)
    return configs


_AUTO_IMPORTED = re.compile(r"(?:^|/)(?:components|composables|shared|stores|utils)/")
_AUTO_MODULES = ("#imports", "#components")  # those of what needs no import


def find_auto_imports(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """The files that give a name to a file without import, in projects of Nuxt and of unplugin."""
    bundlers = layout.get_or_build(_load_bundlers)
    around = iter_folders(path.rpartition("/")[0]) if bundlers and not path.endswith("/") else ()
    root = next((one for one in around if one in bundlers and bundlers[one].imports_names), None)
    if root is None:
        return ()
    defining = (file for file in layout.project.files_defining(name) if not file.endswith(COMPONENT_SUFFIXES))
    files, start = {*layout.get_or_build(_index_components).get(name, ()), *defining}, f"{root}/".lstrip("/")
    return tuple(sorted(it for it in files - {path} if it.startswith(start) and _AUTO_IMPORTED.search(it)))


GLOBALS = "shared globals"
"""The setting of a file that declares names for others: these, or "*"."""


def find_globals(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """The files that declare a name for all of a project: of the nearest of those around a file."""
    declaring = layout.get_or_build(_list_globals).intersection(layout.project.files_defining(name))
    names = ((file, layout.facts(file).settings[GLOBALS].split()) for file in sorted(declaring - {path}))
    files = [(_find_project(layout, file), file) for file, own in names if own == ["*"] or name in own]
    for folder in iter_folders(path.rpartition("/")[0]):
        if nearest := tuple(file for project, file in files if project == folder):
            return nearest
    return ()


def _list_globals(layout: Layout) -> frozenset[str]:
    return frozenset(layout.project.files_defining(GLOBALS))


def _find_project(layout: Layout, path: str) -> str:
    """The nearest folder around a file that has a tsconfig.json."""
    projects = layout.get_or_build(_load_tsconfigs)
    return next((one for one in iter_folders(path.rpartition("/")[0]) if one in projects), "")


def _index_components(layout: Layout) -> dict[str, list[str]]:
    components: dict[str, list[str]] = {}
    for path in layout.paths:
        for name in name_component(path) if path.endswith(COMPONENT_SUFFIXES) else ():
            components.setdefault(name, []).append(path)
    return components


def _split_package(name: str, layout: Layout) -> tuple[str | None, str]:
    """The folder of the package of the source that a name starts with, and the rest of the name."""
    parts = name.split("/")
    own = 2 if name.startswith("@") else 1
    return layout.get_or_build(_index_packages).get("/".join(parts[:own])), "/".join(parts[own:])


def _resolve_package_import(name: str, layout: Layout) -> str | None:
    home, rest = _split_package(name, layout)
    if home is None:
        return None
    return _resolve_package_export(home, rest, layout) if rest else find_entry_file(home, layout)


def _index_packages(layout: Layout) -> dict[str, str]:
    packages = layout.get_or_build(_index_named_packages)
    return {name: folder for folder, (_, name) in sorted(packages.items(), key=lambda item: -len(item[0]))}


def _index_named_packages(layout: Layout) -> dict[str, tuple[str, str]]:
    packages: dict[str, tuple[str, str]] = {}
    for path in layout.paths:
        folder, _, last = path.rpartition("/")
        if last == "package.json" and (name := layout.facts(path).settings.get("name")):
            packages[folder] = (folder, name)
    return packages


def _resolve_entry_file(layout: Layout, folder: str) -> str | None:
    settings = layout.facts(f"{folder}/package.json".lstrip("/")).settings
    targets = [entry for entry in settings.get("entries", "").split("\n") if entry]
    for target in [*targets, "index", "src/index", "lib/index", "src/main"]:
        if file := _find_source_file(folder, target, layout):
            return file
    return None


def _resolve_package_export(folder: str, rest: str, layout: Layout) -> str | None:
    settings = layout.facts(f"{folder}/package.json".lstrip("/")).settings
    for line in settings.get("exports", "").split("\n"):
        pattern, _, target = line.partition("\t")
        middle = _match_pattern(rest, pattern.removeprefix("./")) if target else None
        file = None if middle is None else _find_source_file(folder, target.replace("*", middle), layout)
        if file is not None:
            return file
    return _find_source_file(folder, rest, layout)


def _find_source_file(folder: str, target: str, layout: Layout) -> str | None:
    """The source of what a package offers, which may be built into another folder."""
    joined = _join_path(folder, target) if not target.startswith("/") else None
    file = _find_file(joined, layout) if joined != folder else None
    if file is not None:
        return file
    for inner in _iter_source_paths(target):
        for root in _SOURCE_FOLDERS:
            joined = _join_path(folder, f"{root}/{inner}".lstrip("/"))
            if joined != folder and (file := _find_file(joined, layout)):
                return file
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


_MODULE_EXPORTS = "module.exports"


_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_MAX_CHARS = 500_000
_ENTRIES = ("source", "types", "typings", "module", "main", "browser")


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """What a manifest says; empty for a text that is none.

    "name", "entries" (targets of the package itself by how good they are, by line), "exports"
    (subpath, tab, target, by line) of a package; "extends", "base", "paths" (pattern, tab, targets,
    by line) of a TypeScript project.
    """
    try:
        read = json.loads(_strip_json_comments(text)) if len(text) < _MAX_CHARS else None
    except (ValueError, RecursionError):
        return {}
    if not is_object(read):
        return {}
    settings = _parse_package(read) if path.endswith("package.json") else _parse_tsconfig(read)
    return {key: value for key, value in settings.items() if value}


def _strip_json_comments(text: str) -> str:
    """JSON with comments and commas at the end of lists, without them."""
    text = _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", text.lstrip("\ufeff"))
    return _LAST_COMMA.sub(lambda match: match[0] if match[0][0] == '"' else "", text)


def _parse_package(manifest: dict[str, Any]) -> dict[str, str]:
    entries = [manifest[key] for key in _ENTRIES if isinstance(manifest.get(key), str)]
    exports = list(_iter_exports(manifest.get("exports")))
    entries = [*(target for key, target in exports if key == "."), *entries]
    lines = (f"{key}\t{target}" for key, target in exports if key != ".")
    return {
        "name": _string_or_empty(manifest.get("name")),
        "entries": "\n".join(entries),
        "exports": "\n".join(lines),
    }


def _iter_exports(exports: object) -> Iterator[Value]:
    table = exports if is_object(exports) else {}
    by_path: dict[str, object] = table if any(key.startswith(".") for key in table) else {".": exports}
    for key, value in by_path.items():
        yield from ((key, target) for target in _iter_targets(value))


def _iter_targets(target: object, depth: int = 0) -> Iterator[str]:
    if isinstance(target, str):
        yield target
    elif depth < 6:
        for value in target.values() if is_object(target) else target if is_list(target) else ():
            yield from _iter_targets(value, depth + 1)


def _parse_tsconfig(manifest: dict[str, Any]) -> dict[str, str]:
    options = manifest.get("compilerOptions")
    compiler_options = options if is_object(options) else {}
    extends = manifest.get("extends")
    every = extends if is_list(extends) else [extends]
    references = manifest.get("references")
    references = references if is_list(references) else []
    lines: list[str] = []
    paths = compiler_options.get("paths")
    for pattern, targets in paths.items() if is_object(paths) else ():
        if is_list(targets):
            lines.append("\t".join([pattern, *map(_string_or_empty, targets)]))
    return {
        "extends": "\n".join(_string_or_empty(base) for base in every if base),
        "base": _string_or_empty(compiler_options.get("baseUrl")),
        "paths": "\n".join(lines),
        "references": "\n".join(_string_or_empty(it.get("path")) for it in references if is_object(it)),
    }


def _string_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


class EcmaScriptModules(EcmaScriptValues):
    """Reads imports and exports of JavaScript and TypeScript."""

    def __init__(self, path: str, outline: Outline) -> None:
        super().__init__(path, outline)
        self._declared_loads: set[int] = set()  # bytes at which calls start that load what is declared

    def read_import(self, node: Node) -> None:
        """`import a, { b as c } from "./m"`, `import m = require("./m")`, `import a = b.c`."""
        if node.type == "import_alias":
            name, target = part_of(node, 0), part_of(node, 1)
            if node.named_child_count == 2:
                self.bind(self.scope(node), self.text(name), self.path(target) or "")
            return
        clause = next((child for child in node.named_children if child.type.startswith("import_")), None)
        module = self._string_value(part_of(node, "source") or part_of(clause, "source"))
        if module is None:
            return
        if clause is None or clause.type == "import_attribute":
            self._add_import(node, module, "", "")
        elif clause.type == "import_require_clause":
            self._add_module_import(node, module, self.text(clause.named_children[0]))
        else:
            for child in clause.named_children:
                self._read_import_clause(child, module)

    def _read_import_clause(self, node: Node, module: str) -> None:
        if node.type == "identifier":
            self._add_import(node, module, "default", self.text(node))
        elif node.type == "namespace_import":
            self._add_import(node, module, "", self.text(node.named_children[0]))
        elif node.type == "named_imports" and not node.named_child_count:
            self._add_import(node, module, "", "")
        elif node.type == "named_imports":
            self._add_named_imports(node, module)

    def _add_named_imports(self, clause: Node, module: str, *, exported: bool = False) -> None:
        for child in clause.named_children:
            name, local = self._import_names(child)
            if name:
                self._add_import(child, module, name, local, exported=exported)

    def read_export(self, node: Node) -> None:
        """`export { a as b }`, `export * from "./m"`, `export default a`, `export = a`."""
        module, clause = self._string_value(part_of(node, "source")), first_of_type(node, "export_clause")
        space = first_of_type(node, "namespace_export")
        if module is not None and clause is not None:
            self._add_named_imports(clause, module, exported=True)
        elif module is not None and space is not None:
            self._add_import(node, module, "", self.text(space.named_children[0]), exported=True)
        elif module is not None:
            self._add_import(node, module, "*", "*", exported=True)
        elif clause is not None:
            for child in clause.named_children:
                name, other = self._import_names(child)
                if name and name != other:
                    self._bind_export_name(self.scope(node), other, name)
        elif has_child(node, "default"):
            self._read_default_export(node)
        elif has_child(node, "=") and node.named_child_count:
            for path in (_MODULE_EXPORTS, "default"):
                self.bind_name("", path, self.values(node.named_children[-1]))

    def _read_default_export(self, node: Node) -> None:
        declared, value = part_of(node, "declaration"), unwrap_expression(part_of(node, "value"))
        if declared is not None or has_type(value, "identifier"):
            name = self.text(value if declared is None else part_of(declared, "name"))
            if name:
                self._bind_export_name("", "default", name)
        elif value is not None and (value.start_byte, value.end_byte) not in self.definition_names:
            self.bind_name("", "default", self.values(value))

    def _bind_export_name(self, scope: str, exported_name: str, name: str) -> None:
        """Another name for what a file exports: the very same, rather than a value that it may have."""
        self.bind(scope, exported_name, name if scope else f"@file.{name}", declared=True)

    def _read_require_declaration(self, target: Node, value: Node | None) -> bool:
        """`const { a } = require("./m")`: whether a variable is given a module, or parts of one."""
        module, member = self._find_required_module(value)
        is_name = target.type == "identifier"
        if module is None or not (is_name or (target.type == "object_pattern" and not member)):
            return False
        called = unwrap_expression(value)
        called = unwrap_expression(part_of(called, "object")) if member else called
        if called is not None:
            self._declared_loads.add(called.start_byte)
        self._add_import(target, module, "", "")
        if is_name and not member:
            self._add_module_import(target, module, self.text(target))
            return True
        names = (
            [(member, self.text(target))] if member else map(self._names_in_pattern, target.named_children)
        )
        for name, local in names:
            for prefix in ("", f"{_MODULE_EXPORTS}.") if name else ():
                self._add_import(target, module, prefix + name, local)
        return True

    def _find_required_module(self, value: Node | None) -> tuple[str | None, str]:
        """The module that an expression loads, and what it takes out of it: `require("./m").a`."""
        value, member = unwrap_expression(value), ""
        if has_type(value, "member_expression"):
            member = self.text(part_of(value, "property"))
            value = unwrap_expression(part_of(value, "object"))
        return self._imported_module(value) if value is not None else None, member

    def _add_module_import(self, node: Node, module: str, local: str) -> None:
        """A module as a value: its names, and what CommonJS makes of it."""
        self._add_import(node, module, "", local)
        self._add_import(node, module, _MODULE_EXPORTS, local)

    def _read_dynamic_import(self, node: Node) -> None:
        """`require("./m")` and `import("./m")` within expressions."""
        module = self._imported_module(node)
        if module is not None and node.start_byte not in self._declared_loads:
            self._add_module_import(node, module, loaded_module_name(module))

    def _read_export_assignment(self, left: Node, right: Node) -> bool:
        """`module.exports = a`, `exports.b = c`: whether an assignment exports something."""
        text, assignment, value = self.short_text(left, 120), left.parent or left, unwrap_expression(right)
        owner, _, name = text.rpartition(".")
        function = self.definition_names.get((assignment.start_byte, assignment.end_byte))
        if text in (_MODULE_EXPORTS, "exports"):
            same = function or (self.text(value) if has_type(value, "identifier") else "")
            for path in (_MODULE_EXPORTS, "default"):
                if same:
                    self._bind_export_name("", path, same)
                else:
                    self.bind_name("", path, self.values(right))
            return True
        if owner not in (_MODULE_EXPORTS, "exports") or not name:
            return False
        if function is None and value is not None:
            self.bind_name("", f"{_MODULE_EXPORTS}.{name}", self.values(right))
            if self.text(right)[:200] != name:
                self.bind_name("", name, self.values(right))
        else:
            self.bind("", f"{_MODULE_EXPORTS}.{name}", function or "")
        return True

    def _names_in_pattern(self, node: Node) -> tuple[str, str]:
        """The name and the local name of a part of `{ a, b: c, d = 1 }`."""
        key, local = part_of(node, "key"), part_of(node, "value")
        if node.type == "shorthand_property_identifier_pattern":
            key = local = node
        elif node.type == "object_assignment_pattern":
            key = local = part_of(node, "left")
        elif node.type != "pair_pattern" or not has_type(local, "identifier"):
            return "", ""
        return self.text(key), self.text(local)

    def _import_names(self, node: Node) -> tuple[str, str]:
        name = self.text(part_of(node, "name")).strip("\"'")
        return name, self.text(part_of(node, "alias")).strip("\"'") or name

    def _add_import(self, node: Node, module: str, name: str, local: str, *, exported: bool = False) -> None:
        if module in _AUTO_MODULES and name:
            self.bind(self.scope(node), local, name)
        else:
            self.add_import(node, module, name, local, scope=self.scope(node), exported=exported)
