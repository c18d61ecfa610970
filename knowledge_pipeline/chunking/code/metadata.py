"""What is known about a chunk of code: names, kinds, relations, complexity."""

from __future__ import annotations

import re
from collections.abc import Iterable

from knowledge_pipeline.records import Metadata
from knowledge_pipeline.syntax.outline import CALLABLES, TYPES, Definition, Outline

CODE_METADATA_KEYS = (
    "symbol",
    "symbol_kind",
    "symbols",
    "class_name",
    "function_name",
    "implements",
    "methods",
    "imports",
    "exports",
    "dependencies",
    "complexity",
    "test_coverage",
)
"""Every key that `code_metadata` may give, and `test_coverage`, which needs a report."""

_MAX_NAMES = 50
_WORD = re.compile(r"[^\W\d]\w*")
_EXPORT = re.compile(r"\bexport\b[\w\s]*$|(?:^|[^\w.])(?:module\.)?exports\.$")
_PUBLIC = re.compile(r"\b(?:public|open)\b")
_HIDDEN = re.compile(r"\b(?:private|internal|protected|fileprivate)\b")


def code_metadata(outline: Outline, start_char: int, end_char: int, subject: Definition | None) -> Metadata:
    """Metadata of the chunk that spans the given characters; JSON values only.

    `symbol` and what describes it are of `subject`, the definition that the chunk is or
    is a part of; `symbols` are all definitions that start in the chunk. `complexity` is
    McCabe's: 1 and one for every branch, of the whole function for a function's part.
    """
    inside = outline.within(start_char, end_char)
    counted = (start_char, end_char)
    if subject is not None and subject.kind in CALLABLES:
        counted = (subject.start_char, subject.end_char)
    lists = {
        "symbols": [each.symbol for each in inside],
        "imports": [binding.module for binding in outline.bindings],
        "exports": [each.name for each in inside if is_exported(outline, each)],
        "dependencies": _dependencies(outline, start_char, end_char),
    }
    known = {key: unique for key, names in lists.items() if (unique := _unique(names))}
    about = _about(outline, subject) if subject is not None else {}
    return {**about, **known, "complexity": 1 + outline.decisions(*counted)}


def is_exported(outline: Outline, definition: Definition) -> bool:
    """Whether other files can use a definition by its name: it is at the top of a file, and public."""
    if definition.parent is not None and definition.parent.kind != "module":
        return False
    if outline.export_list and definition.name in outline.export_list:
        return True
    return _is_public(outline, definition)


def _is_public(outline: Outline, definition: Definition) -> bool:
    name, language = definition.name, outline.syntax.language
    modifiers = outline.signature(definition).partition(name)[0]
    match language:
        case "python":
            return not outline.export_list and not name.startswith("_")
        case "javascript" | "typescript" | "tsx":
            before = outline.syntax.text[max(0, definition.start_char - 60) : definition.start_char]
            return bool(_EXPORT.search(before)) or bool(_EXPORT.search(modifiers))
        case "go":
            return name[:1].isupper()
        case "rust":
            return modifiers.startswith("pub")
        case "java" | "c_sharp" | "swift":
            return bool(_PUBLIC.search(modifiers))
        case "kotlin" | "scala":
            return not _HIDDEN.search(modifiers)
        case "c" | "cpp":
            return not modifiers.startswith("static")
        case _:
            return True


def _about(outline: Outline, subject: Definition) -> dict[str, object]:
    about: dict[str, object] = {"symbol": subject.symbol, "symbol_kind": subject.kind}
    if class_name := subject.class_name:
        about["class_name"] = class_name
    if subject.kind in CALLABLES:
        about["function_name"] = subject.name
    if subject.bases:
        about["implements"] = subject.bases
    if subject.kind in TYPES and (methods := _unique(_methods(outline, subject))):
        about["methods"] = methods
    return about


def _methods(outline: Outline, subject: Definition) -> Iterable[str]:
    inside = outline.within(subject.start_char, subject.end_char)
    return (each.name for each in inside if each.parent is subject and each.kind in CALLABLES)


def _dependencies(outline: Outline, start_char: int, end_char: int) -> Iterable[str]:
    """Modules whose imported names the chunk uses, and those that it imports itself."""
    if not outline.bindings:
        return ()
    words = set(_WORD.findall(outline.syntax.text, start_char, end_char))
    return (binding.module for binding in outline.bindings if not words.isdisjoint(binding.names))


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))[:_MAX_NAMES]
