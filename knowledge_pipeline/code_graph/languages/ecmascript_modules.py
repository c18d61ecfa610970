"""Imports and exports of JavaScript and TypeScript, and which file a module's name means.

By path, by the aliases of tsconfig.json, by a package's name in package.json; of ES modules and of CommonJS.
Source: https://www.typescriptlang.org/docs/handbook/modules/reference.html
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import, Value
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.ecmascript_values import (
    imported_module,
    loaded_module_name,
    string_value,
    unwrap_expression,
)
from knowledge_pipeline.code_graph.project import Layout, iter_folders
from knowledge_pipeline.syntax.grammars import has_child, part_of
from knowledge_pipeline.text import is_list, is_object

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
        file = _find_file(_join_path(folder, name), layout) if name[0] == "." else None
        return (file,) if file else ()
    file = _resolve_alias(name, folder, layout) or _resolve_package_import(name, layout)
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


def _resolve_alias(name: str, folder: str, layout: Layout) -> str | None:
    """By `paths` and `baseUrl` of the nearest tsconfig.json."""
    projects = layout.get_or_build(_load_tsconfigs)
    project = next((projects[around] for around in iter_folders(folder) if around in projects), None)
    if project is None:
        return None
    base, paths = project
    ranked = sorted(paths.items(), key=lambda item: -len(item[0].partition("*")[0]))
    for pattern, targets in ranked:
        start, star, end = pattern.partition("*")
        matches = name == pattern if not star else name.startswith(start) and name.endswith(end)
        if matches and len(name) >= len(start) + len(end):
            middle = name[len(start) : len(name) - len(end)] if star else ""
            for target in targets:
                if file := _find_file(_join_path("", target.replace("*", middle)), layout):
                    return file
    return _find_file(_join_path(base, name), layout) if base is not None else None


_TsConfig = tuple[str | None, Mapping[str, tuple[str, ...]]]


def _load_tsconfigs(layout: Layout) -> dict[str, _TsConfig]:
    configs: dict[str, _TsConfig] = {}
    for path in sorted(layout.paths):
        folder, _, name = path.rpartition("/")
        if name in ("tsconfig.json", "jsconfig.json") and folder not in configs:
            configs[folder] = _load_tsconfig(path, layout, 0)
    return configs


def _load_tsconfig(path: str, layout: Layout, depth: int) -> _TsConfig:
    settings = layout.facts(path).settings
    folder = path.rpartition("/")[0]
    base: str | None = None
    paths: dict[str, tuple[str, ...]] = {}
    for extended in settings.get("extends", "").split("\n") if depth < _MAX_EXTENDS else ():
        joined = _join_path(folder, extended) if extended.startswith(".") else None
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
    """A file within a package: by its exports, or by its path."""
    settings = layout.facts(f"{folder}/package.json".lstrip("/")).settings
    for line in settings.get("exports", "").split("\n"):
        pattern, _, target = line.partition("\t")
        start, star, end = pattern.removeprefix("./").partition("*")
        matches = rest.startswith(start) and rest.endswith(end) if star else rest == start
        if target and matches:
            middle = rest[len(start) : len(rest) - len(end)] if star else ""
            if file := _find_source_file(folder, target.replace("*", middle), layout):
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


def read_import(builder: FactsBuilder, node: Node) -> None:
    """`import a, { b as c } from "./m"`, `import "./m"`, `import m = require("./m")`, `import a = b.c`."""
    if node.type == "import_alias":
        parts = node.named_children
        if len(parts) == 2:
            builder.bind(builder.scope(node), builder.text(parts[0]), builder.writer.path(parts[1]) or "")
        return
    clause = next((child for child in node.named_children if child.type.startswith("import_")), None)
    source = part_of(node, "source") or (clause and part_of(clause, "source"))
    module = string_value(builder.writer, source)
    if module is None:
        return
    if clause is None or clause.type == "import_attribute":
        _add_import(builder, node, module, "", "")
    elif clause.type == "import_require_clause":
        _add_module_import(builder, node, module, builder.text(clause.named_children[0]))
    else:
        for child in clause.named_children:
            _read_import_clause(builder, child, module)


def _read_import_clause(builder: FactsBuilder, node: Node, module: str) -> None:
    if node.type == "identifier":
        _add_import(builder, node, module, "default", builder.text(node))
    elif node.type == "namespace_import":
        _add_import(builder, node, module, "", builder.text(node.named_children[0]))
    elif node.type == "named_imports":
        if not node.named_child_count:
            _add_import(builder, node, module, "", "")
        for child in node.named_children:
            name, local = _import_names(builder, child)
            if name:
                _add_import(builder, child, module, name, local)


def read_export(builder: FactsBuilder, node: Node) -> None:
    """`export { a as b }`, `export * from "./m"`, `export default a`, `export = a`."""
    module = string_value(builder.writer, part_of(node, "source"))
    clause = next((child for child in node.named_children if child.type == "export_clause"), None)
    if module is not None:
        _read_re_export(builder, node, clause, module)
    elif clause is not None:
        for child in clause.named_children:
            name, other = _import_names(builder, child)
            if name and name != other:
                _bind_export_name(builder, builder.scope(node), other, name)
    elif has_child(node, "default"):
        _read_default_export(builder, node)
    elif has_child(node, "=") and node.named_child_count:
        for path in (_MODULE_EXPORTS, "default"):
            builder.bind_name("", path, builder.writer.values(node.named_children[-1]))


def _read_re_export(builder: FactsBuilder, node: Node, clause: Node | None, module: str) -> None:
    space = next((child for child in node.named_children if child.type == "namespace_export"), None)
    if clause is not None:
        for child in clause.named_children:
            name, local = _import_names(builder, child)
            if name:
                _add_import(builder, child, module, name, local, exported=True)
    elif space is not None:
        _add_import(builder, node, module, "", builder.text(space.named_children[0]), exported=True)
    else:
        _add_import(builder, node, module, "*", "*", exported=True)


def _read_default_export(builder: FactsBuilder, node: Node) -> None:
    declared = part_of(node, "declaration")
    if declared is not None:
        name_node = part_of(declared, "name")
        if name_node is not None:
            _bind_export_name(builder, "", "default", builder.text(name_node))
        return
    value = unwrap_expression(part_of(node, "value"))
    if value is not None and value.type == "identifier":
        _bind_export_name(builder, "", "default", builder.text(value))
    elif value is not None and (value.start_byte, value.end_byte) not in builder.writer.definition_names:
        builder.bind_name("", "default", builder.writer.values(value))


def _bind_export_name(builder: FactsBuilder, scope: str, exported_name: str, name: str) -> None:
    """Another name for what a file exports: the very same, rather than a value that it may have."""
    builder.bind(scope, exported_name, name if scope else f"@file.{name}", declared=True)


def read_require_declaration(builder: FactsBuilder, target: Node, value: Node | None) -> bool:
    """`const { a } = require("./m")`: whether a variable is given a module, or parts of one."""
    module, member = find_required_module(builder, value)
    if module is None or target.type not in (("identifier",) if member else ("identifier", "object_pattern")):
        return False
    builder.shared_state.setdefault("taken", set()).add(_find_call_start(value, member))
    _add_import(builder, target, module, "", "")
    if target.type == "identifier" and not member:
        _add_module_import(builder, target, module, builder.text(target))
        return True
    names = map(partial(_names_in_pattern, builder), target.named_children)
    for name, local in [(member, builder.text(target))] if member else names:
        for prefix in ("", f"{_MODULE_EXPORTS}.") if name else ():
            _add_import(builder, target, module, prefix + name, local)
    return True


def _find_call_start(value: Node | None, member: str) -> int:
    """The byte at which the call starts that loads a module."""
    called = unwrap_expression(value)
    if member and called is not None:
        called = unwrap_expression(part_of(called, "object"))
    return called.start_byte if called is not None else -1


def find_required_module(builder: FactsBuilder, value: Node | None) -> tuple[str | None, str]:
    """The module that an expression loads, and what it takes out of it: `require("./m").a`."""
    value = unwrap_expression(value)
    member = ""
    if value is not None and value.type == "member_expression":
        member = builder.text(part_of(value, "property"))
        value = unwrap_expression(part_of(value, "object"))
    module = imported_module(builder.writer, value) if value is not None else None
    return module, member


def _add_module_import(builder: FactsBuilder, node: Node, module: str, local: str) -> None:
    """A module as a value: its names, and what CommonJS makes of it."""
    _add_import(builder, node, module, "", local)
    _add_import(builder, node, module, _MODULE_EXPORTS, local)


def read_dynamic_import(builder: FactsBuilder, node: Node) -> None:
    """`require("./m")` and `import("./m")` within expressions."""
    module = imported_module(builder.writer, node)
    if module is not None and node.start_byte not in builder.shared_state.get("taken", ()):
        _add_module_import(builder, node, module, loaded_module_name(module))


def read_export_assignment(builder: FactsBuilder, left: Node, right: Node) -> bool:
    """`module.exports = a`, `exports.b = c`: whether an assignment exports something."""
    text = builder.text(left) if left.end_byte - left.start_byte < 120 else ""
    owner, _, name = text.rpartition(".")
    assignment = left.parent or left
    function = builder.writer.definition_names.get((assignment.start_byte, assignment.end_byte))
    if text in (_MODULE_EXPORTS, "exports"):
        name_node = unwrap_expression(right)
        same = function or (
            builder.text(name_node) if name_node is not None and name_node.type == "identifier" else ""
        )
        for path in (_MODULE_EXPORTS, "default"):
            if same:
                _bind_export_name(builder, "", path, same)
            else:
                builder.bind_name("", path, builder.writer.values(right))
        return True
    if owner not in (_MODULE_EXPORTS, "exports") or not name:
        return False
    if function is None and unwrap_expression(right) is not None:
        builder.bind_name("", f"{_MODULE_EXPORTS}.{name}", builder.writer.values(right))
        if builder.text(right)[:200] != name:
            builder.bind_name("", name, builder.writer.values(right))
    else:
        builder.bind("", f"{_MODULE_EXPORTS}.{name}", function or "")
    return True


def _names_in_pattern(builder: FactsBuilder, node: Node) -> tuple[str, str]:
    """The name and the local name of a part of `{ a, b: c, d = 1 }`."""
    if node.type == "shorthand_property_identifier_pattern":
        return builder.text(node), builder.text(node)
    if node.type == "object_assignment_pattern" and (left := part_of(node, "left")):
        return builder.text(left), builder.text(left)
    key, value = part_of(node, "key"), part_of(node, "value")
    if node.type == "pair_pattern" and key is not None and value is not None and value.type == "identifier":
        return builder.text(key), builder.text(value)
    return "", ""


def _import_names(builder: FactsBuilder, node: Node) -> tuple[str, str]:
    name_node, alias = part_of(node, "name"), part_of(node, "alias")
    if name_node is None:
        return "", ""
    name = builder.text(name_node).strip("\"'")
    return name, builder.text(alias).strip("\"'") if alias is not None else name


def _add_import(
    builder: FactsBuilder, node: Node, module: str, name: str, local: str, *, exported: bool = False
) -> None:
    line = node.start_point.row + 1
    builder.imports.append(Import(module, name, local, line, builder.scope(node), exported))


_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_MAX_CHARS = 500_000
_ENTRIES = ("source", "types", "typings", "module", "main", "browser")


def is_manifest(path: str) -> bool:
    """Whether a file tells how modules are named."""
    name = path.rpartition("/")[2]
    return name == "package.json" or (name.startswith(("tsconfig", "jsconfig")) and name.endswith(".json"))


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
    lines: list[str] = []
    paths = compiler_options.get("paths")
    for pattern, targets in paths.items() if is_object(paths) else ():
        if is_list(targets):
            lines.append("\t".join([pattern, *map(_string_or_empty, targets)]))
    return {
        "extends": "\n".join(_string_or_empty(base) for base in every if base),
        "base": _string_or_empty(compiler_options.get("baseUrl")),
        "paths": "\n".join(lines),
    }


def _string_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
