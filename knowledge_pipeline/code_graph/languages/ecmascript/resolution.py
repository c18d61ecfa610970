"""How names of JavaScript and TypeScript lead to definitions."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.ecmascript.facts import BUILTINS
from knowledge_pipeline.code_graph.languages.ecmascript.modules import (
    SUFFIXES,
    find_entry_file,
    find_module_files,
    find_package,
)
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.project_layout import Layout

_COMMON = split_words(
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
_NODE_MODULES = split_words(
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
    nested_methods_in_scope = False
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    builtins = BUILTINS
    call_method = "@call"
    element_accessors = ("@@iterator()[]",)
    container_methods: Mapping[str, str] = {
        **dict.fromkeys(("get", "pop", "shift", "at", "find", "findLast"), "[]"),
        **dict.fromkeys(
            split_words(
                "values filter slice reverse sort concat toSorted toReversed splice keys entries flat"
            ),
            "",
        ),
    }
    common_methods = _COMMON

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A module's file."""
        return find_module_files(name, path, layout)

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`zod.ZodError`, `react.useState`; nothing for a file that should lie in the source."""
        if module.startswith((".", "/")):
            return ""
        module = module.removeprefix("node:")
        return f"{module}.{name}" if name not in ("", "default", "module.exports") else module

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of a module that Node brings along."""
        return external.partition(".")[0].partition("/")[0] in _NODE_MODULES

    def is_star_exported(self, name: str) -> bool:
        """All but the default."""
        return name != "default"

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`package/folder/file.Class.method`; `package.Class` in the file that a package is known by."""
        folder, package = find_package(path, layout)
        inner = path[len(folder) :].lstrip("/")
        stem = next((inner.removesuffix(each) for each in sorted(SUFFIXES, key=len, reverse=True)
                     if inner.endswith(each)), inner)  # fmt: skip
        module = f"{package}/{stem}".strip("/")
        if package and find_entry_file(folder, layout) == path:
            module = package
        return f"{module}.{name}" if name else module
