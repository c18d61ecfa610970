"""What types of C and C++ promise, and what their expressions hold.

A pointer and an array are what they lead to, and hold it: `p->x`, `p[0].x` and `(*p).x` are alike.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer, part_of
from knowledge_pipeline.code_graph.languages.declared_types import Types, Values, promised, under
from knowledge_pipeline.code_graph.languages.words import words

_POINTERS = words("unique_ptr shared_ptr weak_ptr optional reference_wrapper atomic const_ptr")
_CASTS = words("static_cast dynamic_cast reinterpret_cast const_cast make_unique make_shared")
_GENERICS = re.compile(r"<[^<>]*>")
_MAX_PATH = 200


def scoped(text: str) -> list[str] | None:
    """The segments of `a::b<T>::c`; None for what is no plain path."""
    for _ in range(6):
        shorter = _GENERICS.sub("", text)
        if shorter == text:
            break
        text = shorter
    parts = ["".join(part.split()) for part in text.split("::")]
    parts = parts[1:] if parts and not parts[0] else parts
    return parts if parts and all(part.isidentifier() for part in parts) else None


def own_type(writer: Writer, node: Node, depth: int) -> Values | None:
    """A smart pointer is what it leads to; numbers are nothing."""
    if node.type in ("primitive_type", "sized_type_specifier", "placeholder_type_specifier"):
        return []
    if node.type == "qualified_identifier":
        name = node.child_by_field_name("name")
        for _ in range(6):
            if name is None or name.type != "qualified_identifier":
                break
            name = name.child_by_field_name("name")
        found = promised(TYPES, writer, name, depth + 1) if name is not None else []
        held = [(suffix, value) for suffix, value in found if suffix]
        if name is not None and name.type == "template_type" and _is_pointer(writer, name):
            return found
        path = writer.path(node)
        return [("", f"{path}()"), *held] if path else held
    if node.type == "template_type" and _is_pointer(writer, node):
        given = node.child_by_field_name("arguments")
        return promised(TYPES, writer, part_of(given, 0), depth + 1) if given is not None else []
    return None


def _is_pointer(writer: Writer, node: Node) -> bool:
    return writer.path(node) in _POINTERS


TYPES = Types(
    generic={"template_type": "template_argument_list"},
    arrays={},
    same={"type_descriptor": "type"},
    own=own_type,
)


def declared(node: Node | None) -> tuple[Node | None, str]:
    """The name within a declarator, and how it is reached: "()" a function, "[]" a pointer or array."""
    kind = ""
    for _ in range(12):
        if node is None:
            return None, kind
        if node.type == "function_declarator":
            kind = "()"
        elif node.type in ("pointer_declarator", "array_declarator") and not kind:
            kind = "[]"
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type in ("reference_declarator", "parenthesized_declarator"):
            inner = next(iter(node.named_children), None)
        if inner is None:
            return node, kind
        node = inner
    return None, kind


def values_of(writer: Writer, kind: Node | None, reached: str) -> Values:
    """What a declared name is worth."""
    values = promised(TYPES, writer, kind)
    if reached == "[]":
        return [*values, *under("[]", [value for value in values if not value[0]])]
    return under("()", values) if reached == "()" else values


def _scoped(writer: Writer, node: Node) -> str | None:
    if node.end_byte - node.start_byte > _MAX_PATH:
        return None
    parts = scoped(writer.text(node))
    return ".".join(parts) if parts else None


def _subscript(writer: Writer, node: Node) -> str | None:
    path = writer.path(node.child_by_field_name("argument"))
    return f"{path}[]" if path else None


def _typed(writer: Writer, node: Node) -> str | None:
    values = promised(TYPES, writer, node.child_by_field_name("type"))
    return next((value for suffix, value in values if not suffix), None)


def _named(writer: Writer, node: Node) -> str | None:
    return writer.path(node.child_by_field_name("name"))


def _called(writer: Writer, node: Node) -> str | None:
    """`static_cast<T*>(x)` and `make_unique<T>()` as `T()`."""
    called = node.child_by_field_name("function")
    if called is not None and called.type == "qualified_identifier":
        called = called.child_by_field_name("name")
    if called is None or called.type != "template_function":
        return None
    name, given = called.child_by_field_name("name"), called.child_by_field_name("arguments")
    if name is None or given is None or writer.text(name) not in _CASTS:
        return None
    values = promised(TYPES, writer, part_of(given, 0))
    return next((value for suffix, value in values if not suffix), None)


EXPRESSIONS = Expressions(
    names=words("identifier type_identifier field_identifier namespace_identifier this"),
    members={"field_expression": ("argument", "field")},
    calls={"call_expression": ("function",), "new_expression": ("type",)},
    indexes={},
    same={
        "pointer_expression": "argument",
        "parenthesized_expression": 0,
        "struct_specifier": "name",
        "union_specifier": "name",
        "enum_specifier": "name",
        "class_specifier": "name",
        "assignment_expression": "right",
    },
    choices={"conditional_expression": ("consequence", "alternative")},
    written={
        "qualified_identifier": _scoped,
        "subscript_expression": _subscript,
        "cast_expression": _typed,
        "compound_literal_expression": _typed,
        "template_function": _named,
        "template_type": _named,
        "template_method": _named,
    },
    rewrite=_called,
)
