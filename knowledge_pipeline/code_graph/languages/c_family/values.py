"""What types of C and C++ promise, and what their expressions hold.

A pointer and an array are what they lead to, and hold it: `p->x`, `p[0].x` and `(*p).x` are alike.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, part_of
from knowledge_pipeline.code_graph.languages.declared_types import (
    TypeSyntax,
    Values,
    add_prefix,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.words import split_words

_SMART_POINTERS = split_words("unique_ptr shared_ptr weak_ptr optional reference_wrapper atomic const_ptr")
_CASTS = split_words("static_cast dynamic_cast reinterpret_cast const_cast make_unique make_shared")
_GENERICS = re.compile(r"<[^<>]*>")
_MAX_PATH = 200


def split_scoped_name(text: str) -> list[str] | None:
    """The segments of `a::b<T>::c`; None for what is no plain path."""
    for _ in range(6):
        shorter = _GENERICS.sub("", text)
        if shorter == text:
            break
        text = shorter
    parts = ["".join(part.split()) for part in text.split("::")]
    parts = parts[1:] if parts and not parts[0] else parts
    return parts if parts and all(part.isidentifier() for part in parts) else None


def special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """A smart pointer is what it leads to; numbers are nothing."""
    if node.type in ("primitive_type", "sized_type_specifier", "placeholder_type_specifier"):
        return []
    if node.type == "qualified_identifier":
        name = node.child_by_field_name("name")
        for _ in range(6):
            if name is None or name.type != "qualified_identifier":
                break
            name = name.child_by_field_name("name")
        found = values_of_type(TYPES, writer, name, depth + 1) if name is not None else []
        held = [(suffix, value) for suffix, value in found if suffix]
        if name is not None and name.type == "template_type" and _is_smart_pointer(writer, name):
            return found
        path = writer.path(node)
        return [("", f"{path}()"), *held] if path else held
    if node.type == "template_type" and _is_smart_pointer(writer, node):
        given = node.child_by_field_name("arguments")
        return values_of_type(TYPES, writer, part_of(given, 0), depth + 1) if given is not None else []
    return None


def _is_smart_pointer(writer: PathWriter, node: Node) -> bool:
    return writer.path(node) in _SMART_POINTERS


TYPES = TypeSyntax(
    generic={"template_type": "template_argument_list"},
    arrays={},
    transparent={"type_descriptor": "type"},
    read_special=special_type_values,
)


def unwrap_declarator(node: Node | None) -> tuple[Node | None, str]:
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


def declarator_values(writer: PathWriter, type_node: Node | None, derivation: str) -> Values:
    """What a declared name is worth."""
    values = values_of_type(TYPES, writer, type_node)
    if derivation == "[]":
        return [*values, *add_prefix("[]", [value for value in values if not value[0]])]
    return add_prefix("()", values) if derivation == "()" else values


def _scoped_path(writer: PathWriter, node: Node) -> str | None:
    if node.end_byte - node.start_byte > _MAX_PATH:
        return None
    parts = split_scoped_name(writer.text(node))
    return ".".join(parts) if parts else None


def _subscript_path(writer: PathWriter, node: Node) -> str | None:
    path = writer.path(node.child_by_field_name("argument"))
    return f"{path}[]" if path else None


def _typed_path(writer: PathWriter, node: Node) -> str | None:
    values = values_of_type(TYPES, writer, node.child_by_field_name("type"))
    return next((value for suffix, value in values if not suffix), None)


def _named_path(writer: PathWriter, node: Node) -> str | None:
    return writer.path(node.child_by_field_name("name"))


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`static_cast<T*>(x)` and `make_unique<T>()` as `T()`."""
    called = node.child_by_field_name("function")
    if called is not None and called.type == "qualified_identifier":
        called = called.child_by_field_name("name")
    if called is None or called.type != "template_function":
        return None
    name, given = called.child_by_field_name("name"), called.child_by_field_name("arguments")
    if name is None or given is None or writer.text(name) not in _CASTS:
        return None
    values = values_of_type(TYPES, writer, part_of(given, 0))
    return next((value for suffix, value in values if not suffix), None)


EXPRESSIONS = ExpressionSyntax(
    names=split_words("identifier type_identifier field_identifier namespace_identifier this"),
    members={"field_expression": ("argument", "field")},
    calls={"call_expression": ("function",), "new_expression": ("type",)},
    indexes={},
    transparent={
        "pointer_expression": "argument",
        "parenthesized_expression": 0,
        "struct_specifier": "name",
        "union_specifier": "name",
        "enum_specifier": "name",
        "class_specifier": "name",
        "assignment_expression": "right",
    },
    choices={"conditional_expression": ("consequence", "alternative")},
    path_writers={
        "qualified_identifier": _scoped_path,
        "subscript_expression": _subscript_path,
        "cast_expression": _typed_path,
        "compound_literal_expression": _typed_path,
        "template_function": _named_path,
        "template_type": _named_path,
        "template_method": _named_path,
    },
    rewrite_call=_rewrite_call,
)
