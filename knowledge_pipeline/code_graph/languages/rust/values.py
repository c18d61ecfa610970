"""What Rust's types promise and its expressions hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, part_of
from knowledge_pipeline.code_graph.languages.declared_types import (
    TypeSyntax,
    Values,
    add_prefix,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.words import split_words

_TRANSPARENT_TYPES = split_words(
    "Box Rc Arc Cow Pin Ref RefMut MutexGuard RwLockReadGuard RwLockWriteGuard NonNull"
)
_GENERICS = re.compile(r"(?:::)?<[^<>]*>")
_MAX_PATH = 160


def special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """`Box<T>` is its `T`, `Result<T, E>` holds `T`, a tuple has places."""
    if node.type == "tuple_type":
        places = (values_of_type(TYPES, writer, each, depth + 1) for each in node.named_children)
        return [one for place, values in enumerate(places) for one in add_prefix(f"[{place}]", values)]
    if node.type != "generic_type":
        return None
    name = (writer.path(node.child_by_field_name("type")) or "").rpartition(".")[2]
    held = node.child_by_field_name("type_arguments")
    given = [each for each in held.named_children if each.type != "lifetime"] if held is not None else []
    if name in _TRANSPARENT_TYPES and given:
        return values_of_type(TYPES, writer, given[-1], depth + 1)
    if name.endswith("Result") and given:
        return [("", f"{name}()"), *add_prefix("[]", values_of_type(TYPES, writer, given[0], depth + 1))]
    return None


TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"},
    arrays={"array_type": "element"},
    transparent={
        "reference_type": "type",
        "pointer_type": "type",
        "dynamic_type": "trait",
        "abstract_type": "trait",
        "bounded_type": 0,
    },
    functions={"function_type": "return_type"},
    read_special=special_type_values,
)


def split_scoped_name(text: str) -> list[str] | None:
    """The segments of `a::b::<T>::c`; None for what is no plain path."""
    for _ in range(6):
        shorter = _GENERICS.sub("", text)
        if shorter == text:
            break
        text = shorter
    parts = ["".join(part.split()) for part in text.split("::")]
    parts = parts[1:] if parts and not parts[0] else parts
    return parts if parts and all(part.isidentifier() for part in parts) else None


def absolute_path(node: Node, parts: list[str], writer: PathWriter, file_head: str) -> str:
    """A path with `self` and `super` as the file sees them, whatever modules are written within it."""
    if parts[0] not in ("self", "super"):
        return ".".join(parts)
    around, each = [], node.parent
    while each is not None:
        if each.type == "mod_item" and (name := each.child_by_field_name("name")) is not None:
            around.insert(0, writer.text(name))
        each = each.parent
    rest = parts[1:] if parts[0] == "self" else parts
    while rest and rest[0] == "super" and around:
        around.pop()
        rest = rest[1:]
    inside = [] if rest and rest[0] == "super" else [file_head, *around]
    return ".".join([*inside, *rest])


def _scoped_path(writer: PathWriter, node: Node) -> str | None:
    if node.end_byte - node.start_byte > _MAX_PATH:
        return None
    parts = split_scoped_name(writer.text(node))
    return absolute_path(node, parts, writer, "@file") if parts else None


def _try_path(writer: PathWriter, node: Node) -> str | None:
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


def _struct_path(writer: PathWriter, node: Node) -> str | None:
    path = writer.path(node.child_by_field_name("name"))
    return f"{path}()" if path else None


def _cast_path(writer: PathWriter, node: Node) -> str | None:
    values = values_of_type(TYPES, writer, node.child_by_field_name("type"))
    return next((value for suffix, value in values if not suffix), None)


def _indexed_path(writer: PathWriter, node: Node) -> str | None:
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


def _closure_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    yield from add_prefix("()", values_of_type(TYPES, writer, node.child_by_field_name("return_type")))
    body = node.child_by_field_name("body")
    if body is not None and body.type != "block":
        yield from add_prefix("()", writer.values(body))


def _call_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    """`Some(x)` and `Ok(x)` hold x; `Box::new(x)` is x."""
    called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    name = writer.path(called) if called is not None else None
    values = given.named_children if given is not None else []
    if name in ("Some", "Ok") and len(values) == 1:
        yield from add_prefix("[]", writer.values(values[0]))
    elif name and name.endswith(".new") and name[:-4] in _TRANSPARENT_TYPES and len(values) == 1:
        yield from writer.values(values[0])


EXPRESSIONS = ExpressionSyntax(
    names=split_words("identifier type_identifier self super crate shorthand_field_identifier"),
    members={"field_expression": ("value", "field")},
    calls={"call_expression": ("function",)},
    indexes={},
    transparent={
        "generic_function": "function",
        "generic_type": "type",
        "generic_type_with_turbofish": "type",
        "reference_expression": "value",
        "unary_expression": 0,
        "parenthesized_expression": 0,
        "await_expression": 0,
        "reference_type": "type",
        "dynamic_type": "trait",
    },
    contents={"closure_expression": _closure_values, "call_expression": _call_values},
    path_writers={
        "scoped_identifier": _scoped_path,
        "scoped_type_identifier": _scoped_path,
        "try_expression": _try_path,
        "struct_expression": _struct_path,
        "type_cast_expression": _cast_path,
        "index_expression": _indexed_path,
    },
)
