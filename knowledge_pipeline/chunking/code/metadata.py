"""Metadata of a chunk of code: names, kinds, relations, complexity."""

from __future__ import annotations

import re
from collections.abc import Iterable

from knowledge_pipeline.records import Metadata
from knowledge_pipeline.syntax.outline import CALLABLE_KINDS, TYPE_KINDS, Outline, OutlineDefinition

CODE_METADATA_KEYS = (
    *("symbol", "symbol_kind", "symbols", "class_name", "function_name", "implements", "methods"),
    *("imports", "exports", "dependencies", "complexity", "test_coverage"),
)
"""Every key that `build_code_metadata` may give, and `test_coverage`, which needs a report."""

_MAX_NAMES = 50
_WORD = re.compile(r"[^\W\d]\w*")
_EXPORT = re.compile(r"\bexport\b[\w\s]*$|(?:^|[^\w.])(?:module\.)?exports\.$")
_PUBLIC = re.compile(r"\b(?:public|open)\b")
_NON_PUBLIC = re.compile(r"\b(?:private|internal|protected|fileprivate)\b")


def build_code_metadata(
    outline: Outline, start_char: int, end_char: int, subject: OutlineDefinition | None
) -> Metadata:
    """Metadata of the chunk that spans the given characters; JSON values only.

    `symbol` and what describes it are of `subject`, the definition that the chunk is or
    is a part of; `symbols` are all definitions that start in the chunk. `complexity` is
    McCabe's: 1 and one for every branch, of the whole function for a function's part.
    """
    inside = outline.definitions_within(start_char, end_char)
    counted = (start_char, end_char)
    if subject is not None and subject.kind in CALLABLE_KINDS:
        counted = (subject.start_char, subject.end_char)
    lists = {
        "symbols": [each.symbol for each in inside],
        "imports": [binding.module for binding in outline.bindings],
        "exports": [each.name for each in inside if is_exported(outline, each)],
        "dependencies": _list_dependencies(outline, start_char, end_char),
    }
    known = {key: unique for key, names in lists.items() if (unique := _deduplicate(names))}
    about = _describe_subject(outline, subject) if subject is not None else {}
    return {**about, **known, "complexity": 1 + outline.count_decisions(*counted)}


def is_exported(outline: Outline, definition: OutlineDefinition) -> bool:
    """Whether other files can use a definition by its name: it is at the top of a file, and public."""
    if definition.parent is not None and definition.parent.kind != "module":
        return False
    if outline.export_list and definition.name in outline.export_list:
        return True
    return _is_public(outline, definition)


def _is_public(outline: Outline, definition: OutlineDefinition) -> bool:
    name, language = definition.name, outline.tree.language
    modifiers = outline.signature(definition).partition(name)[0]
    match language:
        case "python":
            return not outline.export_list and not name.startswith("_")
        case "javascript" | "typescript" | "tsx":
            before = outline.tree.text[max(0, definition.start_char - 60) : definition.start_char]
            return bool(_EXPORT.search(before)) or bool(_EXPORT.search(modifiers))
        case "go":
            return name[:1].isupper()
        case "rust":
            return modifiers.startswith("pub")
        case "java" | "c_sharp" | "swift":
            return bool(_PUBLIC.search(modifiers))
        case "kotlin" | "scala":
            return not _NON_PUBLIC.search(modifiers)
        case "c" | "cpp":
            return not modifiers.startswith("static")
        case _:
            return True


def _describe_subject(outline: Outline, subject: OutlineDefinition) -> dict[str, object]:
    about: dict[str, object] = {"symbol": subject.symbol, "symbol_kind": subject.kind}
    if class_name := subject.class_name:
        about["class_name"] = class_name
    if subject.kind in CALLABLE_KINDS:
        about["function_name"] = subject.name
    if subject.bases:
        about["implements"] = subject.bases
    if subject.kind in TYPE_KINDS:
        inside = outline.definitions_within(subject.start_char, subject.end_char)
        methods = (each.name for each in inside if each.parent is subject and each.kind in CALLABLE_KINDS)
        if names := _deduplicate(methods):
            about["methods"] = names
    return about


def _list_dependencies(outline: Outline, start_char: int, end_char: int) -> Iterable[str]:
    """Modules whose imported names the chunk uses, and those that it imports itself."""
    if not outline.bindings:
        return ()
    words = set(_WORD.findall(outline.tree.text, start_char, end_char))
    return (binding.module for binding in outline.bindings if not words.isdisjoint(binding.names))


def _deduplicate(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))[:_MAX_NAMES]
