"""What package.json and tsconfig.json say of the names of modules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_MAX_CHARS = 500_000
_ENTRIES = ("source", "types", "typings", "module", "main", "browser")


def is_manifest(path: str) -> bool:
    """Whether a file tells how modules are named."""
    name = path.rpartition("/")[2]
    return name == "package.json" or (name.startswith(("tsconfig", "jsconfig")) and name.endswith(".json"))


def settings_of(path: str, text: str) -> dict[str, str]:
    """What a manifest says; empty for a text that is none.

    "name", "entries" (targets of the package itself by how good they are, by line), "exports"
    (subpath, tab, target, by line) of a package; "extends", "base", "paths" (pattern, tab, targets,
    by line) of a TypeScript project.
    """
    try:
        read = json.loads(_plain(text)) if len(text) < _MAX_CHARS else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(read, dict):
        return {}
    found = cast("dict[str, Any]", read)
    settings = _package(found) if path.endswith("package.json") else _project(found)
    return {key: value for key, value in settings.items() if value}


def _plain(text: str) -> str:
    """JSON with comments and commas at the end of lists, without them."""
    text = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", text.lstrip("\ufeff"))
    return _LAST_COMMA.sub(lambda found: found[0] if found[0][0] == '"' else "", text)


def _package(read: dict[str, Any]) -> dict[str, str]:
    entries = [read[key] for key in _ENTRIES if isinstance(read.get(key), str)]
    exports = list(_exports(read.get("exports")))
    entries = [*(target for key, target in exports if key == "."), *entries]
    lines = (f"{key}\t{target}" for key, target in exports if key != ".")
    return {"name": _text(read.get("name")), "entries": "\n".join(entries), "exports": "\n".join(lines)}


def _exports(read: object) -> Iterator[tuple[str, str]]:
    if isinstance(read, dict):
        table = cast("dict[str, Any]", read)
        if any(key.startswith(".") for key in table):
            for key, value in table.items():
                yield from ((key, target) for target in _targets(value))
            return
    yield from ((".", target) for target in _targets(read))


def _targets(read: object, depth: int = 0) -> Iterator[str]:
    if isinstance(read, str):
        yield read
    elif isinstance(read, dict) and depth < 6:
        for each in cast("dict[str, Any]", read).values():
            yield from _targets(each, depth + 1)
    elif isinstance(read, list) and depth < 6:
        for each in cast("list[Any]", read):
            yield from _targets(each, depth + 1)


def _project(read: dict[str, Any]) -> dict[str, str]:
    options = read.get("compilerOptions")
    told = cast("dict[str, Any]", options) if isinstance(options, dict) else {}
    extends = read.get("extends")
    every = cast("list[Any]", extends) if isinstance(extends, list) else [extends]
    lines: list[str] = []
    paths = told.get("paths")
    for pattern, targets in cast("dict[str, Any]", paths).items() if isinstance(paths, dict) else ():
        if isinstance(targets, list):
            lines.append("\t".join([pattern, *map(_text, cast("list[Any]", targets))]))
    return {
        "extends": "\n".join(_text(each) for each in every if each),
        "base": _text(told.get("baseUrl")),
        "paths": "\n".join(lines),
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
