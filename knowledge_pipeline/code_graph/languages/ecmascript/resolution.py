"""How names of JavaScript and TypeScript lead to definitions."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.ecmascript.facts import BUILTINS
from knowledge_pipeline.code_graph.languages.ecmascript.modules import (
    SUFFIXES,
    entry_of,
    files_of,
    package_of,
)
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.code_graph.project_layout import Layout

_COMMON = words(
    """
    push pop shift unshift slice splice concat join reverse sort map filter forEach reduce reduceRight
    some every find findIndex findLast includes indexOf lastIndexOf flat flatMap fill keys values
    entries get set has delete clear add size length then catch finally resolve reject all race next
    return throw call apply bind toString valueOf toJSON toLocaleString hasOwnProperty split replace
    replaceAll match matchAll test exec trim trimStart trimEnd padStart padEnd startsWith endsWith
    substring substr charAt charCodeAt codePointAt toLowerCase toUpperCase normalize repeat at log warn
    error info debug trace assign freeze create parse stringify floor ceil round max min abs now
    getTime toISOString on off once emit addEventListener removeEventListener dispatchEvent
    querySelector querySelectorAll appendChild removeChild setAttribute getAttribute focus blur click
    send write end close open read abort json text blob arrayBuffer append subscribe unsubscribe
    constructor render update start stop run
    """
)
_NODE = words(
    """
    assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel
    dns domain events fs http http2 https inspector module net os path perf_hooks process punycode
    querystring readline repl stream string_decoder timers tls trace_events tty url util v8 vm
    worker_threads zlib
    """
)


class EcmaScript(Language):
    """JavaScript, TypeScript and TSX, which import each other: one language to the resolver."""

    name = "typescript"
    bare_methods = False
    heads: Mapping[str, str] = {"this": "@self", "super": "@super"}
    builtins = BUILTINS
    when_called = "@call"
    elements = ("@@iterator()[]",)
    containers: Mapping[str, str] = {
        **dict.fromkeys(("get", "pop", "shift", "at", "find", "findLast"), "[]"),
        **dict.fromkeys(
            words("values filter slice reverse sort concat toSorted toReversed splice keys entries flat"), ""
        ),
    }
    common = _COMMON

    def modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A module's file."""
        return files_of(name, path, layout)

    def outside(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`zod.ZodError`, `react.useState`; nothing for a file that should lie in the source."""
        if module.startswith((".", "/")):
            return ""
        module = module.removeprefix("node:")
        return f"{module}.{name}" if name not in ("", "default", "module.exports") else module

    def is_standard(self, outside: str) -> bool:
        """Whether it is of a module that Node brings along."""
        return outside.partition(".")[0].partition("/")[0] in _NODE

    def by_star(self, name: str) -> bool:
        """All but the default."""
        return name != "default"

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`package/folder/file.Class.method`; `package.Class` in the file that a package is known by."""
        folder, package = package_of(path, layout)
        inner = path[len(folder) :].lstrip("/")
        stem = next((inner.removesuffix(each) for each in sorted(SUFFIXES, key=len, reverse=True)
                     if inner.endswith(each)), inner)  # fmt: skip
        module = f"{package}/{stem}".strip("/")
        if package and entry_of(folder, layout) == path:
            module = package
        return f"{module}.{name}" if name else module
