"""What types of C and C++ promise, and what their expressions hold.

A pointer and an array are what they lead to, and hold it: `p->x`, `p[0].x` and `(*p).x` are alike.
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.languages.words import split_scoped_name, split_words
from knowledge_pipeline.code_graph.values import Values, add_prefix, own_value
from knowledge_pipeline.syntax.nodes import part_of

_SMART_POINTERS = split_words("unique_ptr shared_ptr weak_ptr optional reference_wrapper atomic const_ptr")
_CASTS = split_words("static_cast dynamic_cast reinterpret_cast const_cast make_unique make_shared")
_MAX_PATH = 200


def special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """A smart pointer is what it leads to; numbers are nothing."""
    if node.type in ("primitive_type", "sized_type_specifier", "placeholder_type_specifier"):
        return []
    if node.type == "qualified_identifier":
        name = part_of(node, "name")
        for _ in range(6):
            if name is None or name.type != "qualified_identifier":
                break
            name = part_of(name, "name")
        found = writer.values_of_type(name, depth + 1) if name is not None else []
        held = [(suffix, value) for suffix, value in found if suffix]
        if name is not None and name.type == "template_type" and _is_smart_pointer(writer, name):
            return found
        path = writer.path(node)
        return [("", f"{path}()"), *held] if path else held
    if node.type == "template_type" and _is_smart_pointer(writer, node):
        return writer.values_of_type(part_of(part_of(node, "arguments"), 0), depth + 1)
    return None


def _is_smart_pointer(writer: PathWriter, node: Node) -> bool:
    return writer.path(node) in _SMART_POINTERS


TYPES = TypeSyntax(
    generic={"template_type": "template_argument_list"},
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
        inner = part_of(node, "declarator")
        if inner is None and node.type in ("reference_declarator", "parenthesized_declarator"):
            inner = next(iter(node.named_children), None)
        if inner is None:
            return node, kind
        node = inner
    return None, kind


def declarator_values(writer: PathWriter, type_node: Node | None, derivation: str) -> Values:
    """What a declared name is worth."""
    values = writer.values_of_type(type_node)
    if derivation == "[]":
        return [*values, *add_prefix("[]", [value for value in values if not value[0]])]
    return add_prefix("()", values) if derivation == "()" else values


def _typed_path(writer: PathWriter, node: Node) -> str | None:
    return own_value(writer.values_of_type(part_of(node, "type")))


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`static_cast<T*>(x)` and `make_unique<T>()` as `T()`."""
    called = part_of(node, "function")
    if called is not None and called.type == "qualified_identifier":
        called = part_of(called, "name")
    if called is None or called.type != "template_function":
        return None
    is_cast = writer.text(part_of(called, "name")) in _CASTS
    return own_value(writer.values_of_type(part_of(part_of(called, "arguments"), 0))) if is_cast else None


EXPRESSIONS = ExpressionSyntax(
    names=split_words("identifier type_identifier field_identifier namespace_identifier this"),
    members={"field_expression": ("argument", "field")},
    calls={"call_expression": ("function",), "new_expression": ("type",)},
    suffixed={
        "subscript_expression": ("argument", "[]"),
        **dict.fromkeys(("template_function", "template_type", "template_method"), ("name", "")),
    },
    transparent={
        "pointer_expression": "argument", "parenthesized_expression": 0, "struct_specifier": "name",
        "union_specifier": "name", "enum_specifier": "name", "class_specifier": "name",
        "assignment_expression": "right",
    },
    choices={"conditional_expression": ("consequence", "alternative")},
    path_writers={
        "qualified_identifier": lambda writer, node: (
            ".".join(split_scoped_name(writer.short_text(node, _MAX_PATH + 1))) or None
        ),
        "cast_expression": _typed_path,
        "compound_literal_expression": _typed_path,
    },
    rewrite_call=_rewrite_call, types=TYPES,
)  # fmt: skip
