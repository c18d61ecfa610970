"""What package.json and tsconfig.json say of the names of modules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from knowledge_pipeline.code_graph.values import Value
from knowledge_pipeline.json_values import is_list, is_object

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
    text = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", text.lstrip("\ufeff"))
    return _LAST_COMMA.sub(lambda found: found[0] if found[0][0] == '"' else "", text)


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
    elif is_object(target) and depth < 6:
        for each in target.values():
            yield from _iter_targets(each, depth + 1)
    elif is_list(target) and depth < 6:
        for each in target:
            yield from _iter_targets(each, depth + 1)


def _parse_tsconfig(manifest: dict[str, Any]) -> dict[str, str]:
    options = manifest.get("compilerOptions")
    told = options if is_object(options) else {}
    extends = manifest.get("extends")
    every = extends if is_list(extends) else [extends]
    lines: list[str] = []
    paths = told.get("paths")
    for pattern, targets in paths.items() if is_object(paths) else ():
        if is_list(targets):
            lines.append("\t".join([pattern, *map(_string_or_empty, targets)]))
    return {
        "extends": "\n".join(_string_or_empty(each) for each in every if each),
        "base": _string_or_empty(told.get("baseUrl")),
        "paths": "\n".join(lines),
    }


def _string_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
