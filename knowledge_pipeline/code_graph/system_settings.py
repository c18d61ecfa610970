"""System names of files that are no program: SQL, OpenAPI, settings of containers and builds, CODEOWNERS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge_pipeline.code_graph.system_uses import OUTER_HOST, FoundUse, read_sql
from knowledge_pipeline.file_languages import is_openapi
from knowledge_pipeline.system_names import ANY_METHOD, METHODS, OWNERS, build_route, has_word

_LANGUAGES = frozenset({"yaml", "sql", "dockerfile", "ini"})
_FILE = re.compile(
    r"(?:^|/)(?:CODEOWNERS|(?:[\w.-]{0,60}\.)?env|\.env\.[\w.-]{1,60}|[\w.-]{0,60}(?:openapi|swagger)[\w.-]{0,60}\.json)$"
)
_KEY = r"[A-Z][A-Z0-9_]{2,60}"
_ASSIGNED = re.compile(rf"^(?:export[ \t]+)?({_KEY})[ \t]*=", re.M)
_DOCKER_SET = re.compile(rf"^[ \t]*(?:(?:ENV|ARG)[ \t]+({_KEY})|({_KEY})=)", re.M)
_READ = re.compile(rf"\$\{{({_KEY})(?=[}}:?-])")
_BLOCK = re.compile(
    r"([ \t]*)(?:- )?(?:env|environment|variables|data|stringData)[ \t]*:[ \t]*(?:&[\w-]+[ \t]*)?(?:#.*)?$"
)
_ENTRY = re.compile(
    rf"[ \t]*(?:-[ \t]+[\"']?({_KEY})[\"']?[ \t]*(?:=|$)|(?:-[ \t]+)?name:[ \t]*[\"']?({_KEY})[\"']?[ \t]*$"
    rf"|[\"']?({_KEY})[\"']?[ \t]*:)"
)
_ADDRESS = re.compile(
    r"https?://(?:[\w-]+(?:\.[\w-]+){0,4}|\$\{\w{1,60}(?::[^}\n]{0,60})?\})(?::\d{1,5})?/\w[\w/{}$.:-]{0,100}"
)
_OPERATION = re.compile(
    rf"^[ \t]*[\"']?(?:(/[^\s\"':]{{0,200}})|({'|'.join(METHODS)}))[\"']?[ \t]*:[ \t]*(?:\{{|$)", re.M | re.I
)
_BASE = re.compile(
    r"^[ \t]*(?:-[ \t]*)?[\"']?(?:basePath|url)[\"']?[ \t]*:[ \t]*[\"']?(?:https?://[^\s/\"']{1,100})?(/[\w/.-]{1,80})",
    re.M,
)


def has_settings(path: str, language: str) -> bool:
    """Whether a file may say something of the system though it is no program."""
    return language in _LANGUAGES or _FILE.search(path) is not None


def find_settings(path: str, text: str, language: str) -> list[FoundUse]:
    """What such a file declares and uses, in its order."""
    if path.rpartition("/")[2] == "CODEOWNERS":
        return list(_read_owners(text))
    if language == "sql":  # the first place of each: a dump has thousands
        return sorted({use[:2]: use for use in reversed([*read_sql(text)])}.values(), key=lambda use: use.at)
    if language not in ("yaml", "ini", "json"):
        pattern = _DOCKER_SET if language == "dockerfile" else _ASSIGNED
        names = ((match[match.lastindex or 0], match.start()) for match in pattern.finditer(text))
        return [FoundUse("declares", f"variable {name}", at) for name, at in names]
    if is_openapi(text.encode("utf-8", "replace")):
        return list(_read_operations(text))
    uses = [FoundUse("uses", f"variable {match[1]}", match.start()) for match in _READ.finditer(text)]
    for match in _ADDRESS.finditer(text):
        name = None if OUTER_HOST.match(match[0]) else build_route(ANY_METHOD, match[0])
        if name and has_word(name):
            uses.append(FoundUse("uses", name, match.start(), 60))
    return sorted([*uses, *_read_blocks(text)], key=lambda use: (use.at, use.name))


def _read_blocks(text: str) -> Iterator[FoundUse]:
    """Variables that are set in blocks of YAML: `env:`, `environment:`, the data of a ConfigMap."""
    indent, at = None, 0
    for line in text.split("\n"):
        written = line.lstrip(" \t")
        depth = len(line) - len(written)
        if indent is not None and written and not written.startswith("#"):
            if depth < indent or (depth == indent and not written.startswith("-")):
                indent = None
            elif entry := _ENTRY.match(line):
                yield FoundUse("declares", f"variable {entry[entry.lastindex or 0]}", at)
        if indent is None and (block := _BLOCK.match(line)):
            indent = len(block[1])
        at += len(line) + 1


def _read_operations(text: str) -> Iterator[FoundUse]:
    """The operations of an OpenAPI document, beneath its base path or that of its first server."""
    base, path = _BASE.search(text), ""
    for match in _OPERATION.finditer(text):
        if match[1]:
            path = f"{base[1].rstrip('/') if base else ''}{match[1]}"
        elif path and (name := build_route(match[2], path)):
            yield FoundUse("declares", name, match.start(2))


def _read_owners(text: str) -> Iterator[FoundUse]:
    at = 0
    for line in text.split("\n"):
        pattern, *owners = line.partition(" #")[0].split()[:20] or [""]
        if pattern and not pattern.startswith(("#", "[", "^[")):
            yield FoundUse("owns", " ".join([OWNERS, pattern, *owners]), at)
        at += len(line) + 1
